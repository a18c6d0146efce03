"""Why a leader takes no messages: for what it has seen since it leads. And what its guardian hears of its lease."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from logherd.app.group import standing
from logherd.app.group.leadership import GroupLeadership
from logherd.app.group.mode import Lease
from logherd.app.group.standing import Standing
from logherd.controller.values import BrokerId
from logherd.group.output import Following
from logherd.model.names import Epoch
from logherd.service.forwarding.roles import Following as FollowingRole
from logherd.service.forwarding.roles import Leading, Nobody, Role
from logherd.service.ports import Reply


@dataclass
class Scene:
    """A leader's surroundings, and a clock in the test's hand."""

    now: int = 100_000
    mode: str = "controller"
    leads: Epoch | None = None
    obstacle: str = ""
    committed_position: int = 0
    end_position: int = 0
    reasons: list[str] = field(default_factory=list)
    lease: Lease | None = None
    awaited: tuple[int, ...] = (1, 2)
    roles: list[Role] = field(default_factory=list)
    routed: list[object] = field(default_factory=list)
    addresses: dict[int, str] = field(default_factory=dict)
    at_leaders: bool = False
    waiting: int = 0
    """Answers that wait for a commit."""

    @property
    def machine(self) -> "Scene":
        return self

    def shut(self, reason: str) -> None:
        self.reasons.append(reason)

    def set(self, role: Role) -> None:
        self.roles.append(role)

    def found_at_leaders(self, _epoch: Epoch) -> bool:
        return self.at_leaders

    def address_of(self, broker_id: int) -> str:
        return self.addresses.get(broker_id, "")

    def lead(self, epoch: int) -> None:
        self.routed.append(epoch)

    def name(self, *, own: bool) -> None:
        self.routed.append("own" if own else "leader's")

    def follow(self) -> None:
        self.routed.append("follows")

    def give_up(self, reply: Reply) -> int:
        assert "unknown" in (reply.remark or "")
        count, self.waiting = self.waiting, 0
        return count


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


class ModeOf:
    """The scene as the mode by which somebody leads: `name` is another thing there than for routes."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def name(self) -> str:
        return self._scene.mode

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._scene, attribute)


def standing_in(scene: Scene, keeper: object = None) -> Standing:
    part = cast("Any", scene)
    made = Standing(part, cast("Any", keeper or Keeper()), part, cast("Any", ModeOf(scene)))
    made.attach(part, part)
    return made


def test_a_first_leader_is_not_blamed_before_it_could_commit(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.end_position = Epoch(1), 100
    stands.settle()
    assert scene.reasons == []


def test_what_is_not_acknowledged_in_time_shuts_and_a_commit_opens(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.end_position = Epoch(1), 100
    scene.lease = Lease(Epoch(1), scene.now + 60_000)
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


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("controller", "its lease is over, and the controllers do not renew it"),
        ("raft", "its lease is over, and a majority of the group does not renew it"),
        ("static", "in-sync replicas do not acknowledge: 1, 2 are needed"),
    ],
)
def test_a_leader_whose_lease_is_over_blames_whoever_renews_it(scene: Scene, mode: str, said: str) -> None:
    stands = standing_in(scene)
    scene.mode, scene.leads, scene.end_position = mode, Epoch(1), 100
    stands.will_serve(Epoch(1))
    scene.lease = None if mode == "static" else Lease(Epoch(1), scene.now + 2_000)
    stands.settle()
    scene.now += 2_000
    stands.fence()
    stands.settle()
    scene.now += 500
    stands.settle()
    assert scene.reasons == [said]


def test_a_leader_that_never_served_blames_the_replicas_while_its_lease_runs(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.end_position = Epoch(1), 100
    scene.lease = Lease(Epoch(1), scene.now + 60_000)
    stands.settle()
    scene.now += 2_500
    stands.settle()
    assert scene.reasons == ["in-sync replicas do not acknowledge: 1, 2 are needed"]


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


def test_a_lease_that_is_over_before_anything_was_served_is_released_at_the_guardian(scene: Scene) -> None:
    """Nobody is fenced then: there was nothing to end."""
    keeper = Keeper()
    stands = standing_in(scene, keeper)
    scene.leads, scene.lease = Epoch(1), Lease(Epoch(1), scene.now + 3_000)
    stands.settle()
    scene.now += 3_000
    for _ in range(2):
        stands.settle()
    assert keeper.told == [103_000, None]


def test_a_guardian_hears_of_a_lease_that_was_prolonged_by_more_than_a_little(scene: Scene) -> None:
    keeper = Keeper()
    stands = standing_in(scene, keeper)
    scene.leads = Epoch(1)
    for epoch, until in ((1, 200_000), (1, 200_099), (1, 200_100), (1, 200_099), (2, 200_099)):
        scene.lease = Lease(Epoch(epoch), until)
        stands.settle()
    assert keeper.told == [200_000, 200_100, 200_099, 200_099]


def test_a_leader_is_named_in_routes_before_it_registers_and_again_as_its_address_changes(scene: Scene) -> None:
    stands = standing_in(scene)
    stands.will_serve(Epoch(4))
    assert scene.roles == scene.routed == [], "not before the step has been carried out"
    stands.settle()
    assert (scene.roles, scene.routed) == ([Leading(4)], ["own", 4])
    scene.at_leaders = True
    stands.settle()
    assert (scene.roles, scene.routed[2:]) == ([Leading(4)], ["leader's"])
    stands.will_serve(Epoch(4))
    stands.settle()
    assert scene.routed[3:] == [], "it is registered"


def test_a_leader_is_followed_as_soon_as_it_is_known_where(scene: Scene) -> None:
    stands = standing_in(scene)
    stands.will_follow(Following(Epoch(2), None, ""))
    stands.settle()
    stands.will_follow(Following(Epoch(2), BrokerId(3), ""))
    stands.settle()
    scene.addresses[3] = "b3:1"
    stands.settle()
    stands.will_follow(Following(Epoch(2), BrokerId(3), "told:1"))
    stands.settle()
    assert scene.roles == [Nobody(), Nobody(), FollowingRole("b3:1", 2), FollowingRole("told:1", 2)]
    assert scene.routed == ["follows"] * 3
    stands.will_serve(Epoch(3))
    stands.settle()
    stands.settle()
    assert scene.roles[4:] == [Leading(3)], "nobody is followed any more"


def test_a_fenced_leader_gives_up_what_waits_and_leads_nothing_that_was_to_begin(scene: Scene) -> None:
    keeper = Keeper()
    stands = standing_in(scene, keeper)
    stands.will_serve(Epoch(1))
    scene.waiting = 2
    stands.fence()
    assert (scene.waiting, scene.roles, keeper.told) == (0, [Nobody()], [None])
    stands.settle()
    assert scene.roles == [Nobody()]
    stands.will_follow(Following(Epoch(2), BrokerId(3), "b3:1"))
    stands.fence()
    stands.settle()
    assert scene.roles == [Nobody()] * 2


def test_h16_a_fenced_leader_lets_go_of_its_lease_last(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits hears before a next role may begin, and the guardian does not cease to watch while a duty is left."""
    keeper, order = Keeper(), list[str]()
    stands = standing_in(scene, keeper)
    monkeypatch.setattr(scene, "give_up", lambda _reply: order.append("answers") or 0)
    monkeypatch.setattr(scene, "set", lambda role: order.append(type(role).__name__))
    monkeypatch.setattr(keeper, "release", lambda: order.append("released"))
    stands.fence()
    assert order == ["answers", "Nobody", "released"]


def test_a_draining_leader_takes_nothing_more_and_answers_what_runs(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.waiting = 2
    stands.will_serve(Epoch(1))
    stands.drain(Epoch(1))
    stands.settle()
    assert (scene.waiting, scene.roles) == (2, [Nobody()])


def test_a_leader_to_whom_nobody_writes_is_not_stuck(scene: Scene) -> None:
    stands = standing_in(scene)
    scene.leads, scene.committed_position, scene.end_position = Epoch(1), 100, 100
    stands.settle()
    scene.now += 60_000
    stands.settle()
    scene.end_position = 200
    stands.settle()
    assert scene.reasons == []


def test_service_neither_begins_while_leadership_is_handed_over_nor_goes_on_before_it_has_begun(scene: Scene) -> None:
    stands = standing_in(scene)
    steps = {
        "handed over before service": (lambda: stands.drain(Epoch(2)), Nobody()),
        "given up before service": (lambda: stands.will_resume(Epoch(2)), Nobody()),
        "handed over again": (lambda: stands.drain(Epoch(2)), Nobody()),
        "service may begin": (lambda: stands.will_serve(Epoch(2)), Nobody()),
        "given up": (lambda: stands.will_resume(Epoch(2)), Leading(2)),
        "handed over once more": (lambda: stands.drain(Epoch(2)), Nobody()),
        "fenced": (stands.fence, Nobody()),
        "given up while fenced": (lambda: stands.will_resume(Epoch(2)), Nobody()),
        "a lease again": (lambda: stands.will_serve(Epoch(2)), Leading(2)),
        "and one more hand-over": (lambda: stands.drain(Epoch(2)), Nobody()),
        "another leadership": (lambda: stands.will_serve(Epoch(3)), Leading(3)),
        "which is handed over": (lambda: stands.drain(Epoch(3)), Nobody()),
        "fenced while it is": (stands.fence, Nobody()),
        "a lease again while it is": (lambda: stands.will_serve(Epoch(3)), Nobody()),
    }
    for what, (step, role) in steps.items():
        step()
        stands.settle()
        assert (scene.roles or [Nobody()])[-1] == role, what


@pytest.mark.parametrize("later", [Leading(2), FollowingRole("b3:1", 2)], ids=["leads again", "another leads"])
def test_between_two_leaders_there_is_nobody_so_that_what_the_former_one_had_begun_is_let_go_first(later: Role) -> None:
    leadership = GroupLeadership(lambda: None)
    heard = list[Role]()
    leadership.on_change.append(heard.append)
    for role in (Leading(1), later, later, Nobody()):
        leadership.set(role)
    assert heard == [Leading(1), Nobody(), later, Nobody()]
