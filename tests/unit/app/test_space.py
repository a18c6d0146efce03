"""Whoever reads the log learns that sends are refused for want of space, once each time."""

import pytest

from logherd.app.space import SpaceNews
from logherd.store import DiskState

SHORT = "the disk is at its reserve: messages are refused"
WHOLE = "the disk has space again: messages are taken"


def disk(*, accepts: bool, stopped: BaseException | None = None) -> DiskState:
    return DiskState(
        free_bytes=7, reserve_bytes=9, accepts_messages=accepts, log_bytes=0, stopped=stopped, refusal=""
    )  # fmt: skip


def said(caplog: pytest.LogCaptureFixture, *looks: DiskState) -> list[str]:
    caplog.set_level("INFO", "logherd.store")
    news = SpaceNews()
    for state in looks:
        news.look(state)
    return [record.getMessage() for record in caplog.records]


def test_each_change_is_said_once_with_the_sizes(caplog: pytest.LogCaptureFixture) -> None:
    full, free = disk(accepts=False), disk(accepts=True)
    assert said(caplog, free, full, full, free, free, full) == [SHORT, WHOLE, SHORT]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert caplog.records[0].fields == {"free_bytes": 7, "reserve_bytes": 9}  # type: ignore[attr-defined]


def test_a_failed_disk_is_not_called_short_of_space_nor_whole(caplog: pytest.LogCaptureFixture) -> None:
    failed = disk(accepts=False, stopped=OSError("gone"))
    assert said(caplog, failed, failed) == []
    assert said(caplog, disk(accepts=False), failed) == [SHORT]
