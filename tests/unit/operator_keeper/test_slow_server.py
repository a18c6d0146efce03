"""An API server that takes longer for a request than lies between two rounds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logherd_operator.keeper import keeping as rounds
from logherd_operator.keeper.decision import EPOCH, HOLDER, Change, Keeper
from logherd_operator.keeper.keeping import Keeping, step
from logherd_operator.keeper.slices import ApiPlace, NoAnswer

LEASE = 3.0
PLACE = ApiPlace("http://nowhere", "/slice")
KEEPING = Keeping(page="http://nowhere", token_file=Path("/nowhere"), slice_place=PLACE, name="c-0", lease=LEASE)


class Slow:
    """A controller that answers at once, and an API server that takes `needs` seconds. `now`: whoever asks waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.needs, self.now, self.epoch, self.address = 1.0, 100.0, 7, "10.0.0.1"
        self.confirmed, self.there, self.led_at = True, True, 0.0
        self.changes: list[tuple[float, str]] = []
        self.slice: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "endpoints": []}
        self.waits: list[float] = []
        self.told: list[int] = []
        monkeypatch.setattr(rounds, "ask_controller", lambda *_: (200, self.page()))
        monkeypatch.setattr(rounds, "tell_controller", lambda _page, _token, said, _seconds: self.told.append(said))
        monkeypatch.setattr(rounds, "read_slice", lambda _place, seconds: self.answer(seconds))
        monkeypatch.setattr(rounds, "patch_slice", self.patch)
        self.keeping = KEEPING
        self.keeper = Keeper("c-0", LEASE, self.now)

    def page(self) -> dict[str, Any]:
        self.led_at = self.now if self.address else self.led_at
        leader = {"serving": True, "renewedFrom": self.address} if self.address else None
        return {"confirmed": self.confirmed, "live": True, "epoch": self.epoch, "leader": leader}

    def answer(self, seconds: float) -> dict[str, Any]:
        self.waits.append(seconds)
        self.now += min(seconds, self.needs)
        if seconds <= self.needs:
            raise NoAnswer(0, "too late")
        if not self.there:
            raise NoAnswer(404, "no such slice")
        return self.slice

    def patch(self, _place: ApiPlace, change: Change, name: str, seconds: float) -> dict[str, Any]:
        self.answer(seconds)
        self.changes.append((self.now, change.address))
        version = str(int(self.slice["metadata"]["resourceVersion"]) + 1)
        self.slice = {
            "metadata": {"resourceVersion": version, "annotations": {EPOCH: str(change.epoch), HOLDER: name}},
            "endpoints": [{"addresses": [change.address]}] if change.address else [],
        }
        return self.slice

    @property
    def shown(self) -> list[str]:
        return [address for each in self.slice["endpoints"] for address in each["addresses"]]

    def rounds(self, count: int) -> None:
        for _ in range(count):
            began = self.now
            step(self.keeper, self.keeping, lambda: self.now)
            self.now = max(self.now, began + self.keeping.pause)


def test_a_slice_is_filled_though_each_request_takes_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(4)
    assert slow.shown == ["10.0.0.1"]
    assert slow.told != []
    assert slow.waits[:2] == [KEEPING.pause, 2 * KEEPING.pause], "whoever else might answer is asked soon"
    slow.epoch, slow.address = 8, "10.0.0.2"
    slow.rounds(6)
    assert slow.shown == ["10.0.0.2"]


def test_who_was_heard_before_a_slow_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader dies while the slice is read: it does not go in any more."""
    slow = Slow(monkeypatch)
    slow.slice = {"metadata": {"resourceVersion": "1", "annotations": {EPOCH: "6"}}, "endpoints": []}

    def read(_place: ApiPlace, seconds: float) -> dict[str, Any]:
        found = slow.answer(seconds)
        slow.epoch, slow.address = 8, ""
        return found

    monkeypatch.setattr(rounds, "read_slice", read)
    slow.rounds(12)
    assert slow.waits[-1] > slow.needs, "it was read"
    assert slow.changes == []


@pytest.mark.parametrize("rounds_before", [4, 5, 7, 30, 60])
def test_one_that_has_no_leader_is_empty_within_a_lease(monkeypatch: pytest.MonkeyPatch, rounds_before: int) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(rounds_before)
    slow.epoch, slow.address = 8, ""
    slow.rounds(16)
    [_, (emptied_at, address)] = slow.changes
    assert address == ""
    assert emptied_at - slow.led_at <= LEASE


def test_also_where_the_server_is_slow_only_since_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.needs = 0.01
    slow.rounds(4)
    slow.needs = 1.0
    slow.epoch, slow.address = 8, ""
    slow.rounds(16)
    [_, (emptied_at, address)] = slow.changes
    assert address == ""
    assert emptied_at - slow.led_at <= LEASE


def test_while_it_leads_to_the_leader_no_request_keeps_the_next_question_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(4)
    slow.waits.clear()
    slow.rounds(80)
    assert slow.waits != []
    assert set(slow.waits) == {KEEPING.pause}
    assert len(slow.told) >= 80


def test_nobody_is_waited_for_longer_than_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.needs = 1e9
    slow.rounds(12)
    assert (slow.waits[0], max(slow.waits)) == (KEEPING.pause, 3.0)
    slow.needs = 0.01
    slow.rounds(2)
    assert slow.shown == ["10.0.0.1"]
    slow.epoch, slow.address, slow.needs = 8, "10.0.0.2", 1e9
    slow.waits.clear()
    slow.rounds(1)
    assert slow.waits == [KEEPING.pause], "one that has answered is quick again"


def test_nor_for_longer_than_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.keeping = replace(KEEPING, lease=1.0)
    slow.keeper = Keeper("c-0", 1.0, slow.now)
    slow.needs = 1e9
    slow.rounds(12)
    assert max(slow.waits) == 1.0


def test_beside_a_controller_that_follows_too_one_that_has_answered_is_quick_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(monkeypatch)
    slow.confirmed = slow.there = False
    slow.needs = 1e9
    slow.rounds(12)
    slow.needs = 0.01
    slow.rounds(1)
    slow.waits.clear()
    slow.needs = 1e9
    slow.now += 10.0
    slow.rounds(1)
    assert slow.waits == [KEEPING.pause]
