"""To whom a leader sends the pulls of those that are far behind."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from logherd.app.group import reads
from logherd.app.group.mode import FollowerState
from logherd.controller.values import BrokerId
from logherd.model.names import Position


def test_a_pull_is_sent_to_nobody_who_was_not_heard_in_this_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be gone, although it is in sync still."""
    monkeypatch.setattr(reads, "FollowerPulls", Mock())
    followers = [
        FollowerState(BrokerId(2), in_sync=True, flushed=None, in_step_at=None),
        FollowerState(BrokerId(3), in_sync=True, flushed=Position(9), in_step_at=1),
        FollowerState(BrokerId(4), in_sync=False, flushed=Position(9), in_step_at=1),
    ]
    store = SimpleNamespace(unit=lambda *_: (0, 1, 0), committed_position=100)
    engine: Any = Mock(store=store)
    engine.mode.followers.return_value = followers
    services: Any = SimpleNamespace(pull=SimpleNamespace(elsewhere=None))
    options: Any = SimpleNamespace(
        replication=SimpleNamespace(follower_reads=True, follower_reads_behind=10), broker_id=1
    )  # fmt: skip
    reads.follower_pulls(options, engine, services, Mock())
    asked = [services.pull.elsewhere(SimpleNamespace(queue_id=number), 0) for number in range(3)]
    assert asked == [3, 3, 3]
