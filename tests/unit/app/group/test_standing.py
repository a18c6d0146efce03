"""Why a leader takes no messages: for what it has seen since it leads. And what its guardian hears of its lease."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from logherd.app.group import standing
from logherd.app.group.mode import Lease
from logherd.app.group.standing import Standing
from logherd.model.names import Epoch


@dataclass
class Scene:
    """A leader's surroundings, and a clock in the test's hand."""

    now: int = 100_000
    leads: Epoch | None = None
    obstacle: str = ""
    committed_position: int = 0
    end_position: int = 0
    reasons: list[str] = field(default_factory=list)
    lease: Lease | None = None
    awaited: tuple[int, ...] = (1, 2)

    @property
    def machine(self) -> "Scene":
        return self

    def shut(self, reason: str) -> None:
        self.reasons.append(reason)

    def set(self, role: object) -> None:
        """Nobody listens."""


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    monkeypatch.setattr(standing, "boot_ms", lambda: made.now)
    return made


class Keeper:
    """What the guardian was told last: the end of a lease, None for none."""

    def __init__(self) -> None:
        self.told: list[int | None] = []

    def lease(self, _epoch: int, end_ms: int) -> None:
        self.told.append(end_ms)

    def release(self) -> None:
        self.told.append(None)


def standing_in(scene: Scene, keeper: object = None) -> Standing:
    part = cast("Any", scene)
    return Standing(part, cast("Any", keeper or SimpleNamespace()), part, part)


def test_a_first_leader_is_not_blamed_before_it_could_commit(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.end_position = Epoch(1), 100
    stands.settle()
    assert scene.reasons == []


def test_what_is_not_acknowledged_in_time_shuts_and_a_commit_opens(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.end_position = Epoch(1), 100
    stands.settle()
    scene.now += 2_499
    stands.settle()
    assert scene.reasons == []
    scene.now += 1
    stands.settle()
    assert scene.reasons == ["in-sync replicas do not acknowledge: 1, 2 are needed"]
    stands.reconsider()
    assert len(scene.reasons) == 1
    scene.committed_position = 50
    stands.reconsider()
    assert scene.reasons[1:] == [""]


def test_a_leader_again_is_not_blamed_for_the_time_in_between(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.committed_position, scene.end_position = Epoch(1), 100, 100
    stands.settle()
    scene.leads = None
    stands.settle()
    scene.now += 60_000
    scene.leads, scene.end_position = Epoch(2), 200
    stands.settle()
    assert scene.reasons == []


def test_time_with_too_few_replicas_is_not_counted_again_when_they_are_back(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.committed_position, scene.end_position = Epoch(1), 100, 200
    stands.settle()
    scene.obstacle = "too few"
    scene.now += 60_000
    stands.settle()
    scene.obstacle = ""
    stands.settle()
    assert scene.reasons == ["too few", ""]


def test_a_guardian_hears_of_a_lease_while_it_runs_and_not_again_once_every_duty_has_ended(scene: Scene) -> None:
    """A leader that no controller answers stays one, in waiting: its guardian must not take it for one that hangs."""
    keeper = Keeper()
    stands = standing_in(scene, keeper)
    scene.leads, scene.lease = Epoch(1), Lease(Epoch(1), scene.now + 3_000)
    stands.settle()
    scene.now += 3_000
    stands.fence()
    stands.settle()
    assert keeper.told == [103_000, None]
    scene.lease = Lease(Epoch(1), scene.now + 1)
    stands.settle()
    assert keeper.told[2:] == [103_001], "it was renewed"


def test_a_guardian_hears_of_a_lease_that_was_prolonged_by_more_than_a_little(scene: Scene) -> None:
    keeper = Keeper()
    stands = standing_in(scene, keeper)
    scene.leads = Epoch(1)
    for epoch, until in ((1, 200_000), (1, 200_099), (1, 200_100), (1, 200_099), (2, 200_099)):
        scene.lease = Lease(Epoch(epoch), until)
        stands.settle()
    assert keeper.told == [200_000, 200_100, 200_099, 200_099]
