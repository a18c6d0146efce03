"""What the log tells of a failover."""

import logging
from typing import cast
from unittest.mock import MagicMock

import pytest

from logherd.app.group import news
from logherd.app.group.engine import GroupEngine
from logherd.controller.values import BrokerId
from logherd.group.output import Leading, StorageStalled, Strange
from logherd.model.names import Epoch, Position
from logherd.replication.messages import ReplicaId
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog


def test_a_flush_that_does_not_end_is_told_with_how_long_it_has_lasted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(news, "boot_ms", lambda: 16_650_000)
    news.log_event(StorageStalled(16_645_000))
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["fields"]) == ("a flush does not end", {"after_ms": 5_000})


def test_who_is_elected_is_told_with_where_its_log_ends_and_who_made_it_the_leader(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, three = BrokerId(1), BrokerId(3)
    for event in (
        Leading(Epoch(3), Position(70), in_sync=(one, three)),
        Leading(Epoch(3), Position(70), votes=(one, three)),
        Leading(Epoch(3), Position(70)),
    ):
        news.log_event(event)
    begun = {"epoch": 3, "log_end": 70}
    told = [record.__dict__["fields"] for record in caplog.records]
    assert told == [{**begun, "in_sync": "1,3"}, {**begun, "votes": "1,3"}, begun]


def test_who_sends_what_must_be_dropped_fills_no_disk(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(news, "boot_ms", lambda: 16_650_000)
    monkeypatch.setattr(news, "complaints", SparingLog(Log("logherd.group"), lambda: news.boot_ms() / 1000))
    for number in range(1_000):
        news.log_event(Strange(ReplicaId("2.0000000000000001"), f"says epoch {number}"))
    news.log_event(Strange(ReplicaId("3.0000000000000001"), "for another process"))
    assert [record.getMessage() for record in caplog.records] == ["message dropped"] * 11
    caplog.clear()
    monkeypatch.setattr(news, "boot_ms", lambda: 16_710_000)
    news.log_event(Strange(ReplicaId("3.0000000000000001"), "for another process"))
    told, _ = (record.__dict__["fields"] for record in caplog.records)
    assert told == {"sender": "2.0000000000000001", "left_out": 990, "seconds": 60}


def test_how_many_were_dropped_is_told_also_where_none_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(news, "boot_ms", lambda: 16_650_000)
    monkeypatch.setattr(news, "complaints", SparingLog(Log("logherd.group"), lambda: news.boot_ms() / 1000))
    for number in range(12):
        news.log_event(Strange(ReplicaId("2.0000000000000001"), f"says epoch {number}"))
    caplog.clear()
    engine = cast("GroupEngine", MagicMock())
    GroupEngine.tick(engine)
    assert caplog.records == []
    monkeypatch.setattr(news, "boot_ms", lambda: 16_710_000)
    GroupEngine.tick(engine)
    (told,) = (record.__dict__["fields"] for record in caplog.records)
    assert told == {"sender": "2.0000000000000001", "left_out": 2, "seconds": 60}
