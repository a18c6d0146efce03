"""What the log tells of a failover."""

import pytest

from logherd.app.group import news
from logherd.group.output import StorageStalled


def test_a_flush_that_does_not_end_is_told_with_how_long_it_has_lasted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(news, "boot_ms", lambda: 16_650_000)
    news.log_event(StorageStalled(16_645_000))
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["fields"]) == ("a flush does not end", {"after_ms": 5_000})
