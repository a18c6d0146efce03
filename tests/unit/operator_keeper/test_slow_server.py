"""An API server that takes longer for a request than lies between two rounds."""

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
        self.slice: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "endpoints": []}
        self.waits: list[float] = []
        self.told: list[int] = []
        monkeypatch.setattr(rounds, "ask_controller", lambda *_: (200, self.page()))
        monkeypatch.setattr(rounds, "tell_controller", lambda _page, _token, said, _seconds: self.told.append(said))
        monkeypatch.setattr(rounds, "read_slice", lambda _place, seconds: self.answer(seconds))
        monkeypatch.setattr(rounds, "patch_slice", self.patch)
        self.keeper = Keeper("c-0", LEASE, self.now)

    def page(self) -> dict[str, Any]:
        leader = {"serving": True, "renewedFrom": self.address} if self.address else None
        return {"confirmed": True, "live": True, "epoch": self.epoch, "leader": leader}

    def answer(self, seconds: float) -> dict[str, Any]:
        self.waits.append(seconds)
        self.now += min(seconds, self.needs)
        if seconds <= self.needs:
            raise NoAnswer(0, "too late")
        return self.slice

    def patch(self, _place: ApiPlace, change: Change, name: str, seconds: float) -> dict[str, Any]:
        self.answer(seconds)
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
            step(self.keeper, KEEPING, lambda: self.now)
            self.now = max(self.now, began + KEEPING.pause)


def test_a_slice_is_filled_though_each_request_takes_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(3)
    assert slow.shown == ["10.0.0.1"]
    assert slow.told != []
    assert slow.waits[:2] == [KEEPING.pause, 2 * KEEPING.pause], "whoever else might answer is asked soon"
    slow.epoch, slow.address = 8, "10.0.0.2"
    slow.rounds(6)
    assert slow.shown == ["10.0.0.2"]


def test_one_that_has_no_leader_is_emptied_too(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(3)
    slow.epoch, slow.address = 8, ""
    slow.rounds(16)
    assert slow.shown == []


def test_while_it_leads_to_the_leader_no_request_keeps_the_next_question_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(monkeypatch)
    slow.rounds(3)
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
