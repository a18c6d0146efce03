"""Controller mode in the shell: what the controllers answer, and who hears of it."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import boot_ms
from logherd.app.group import by_controllers
from logherd.app.group import roster as roster_module
from logherd.app.group.about import About
from logherd.app.group.by_controllers import ByControllers
from logherd.app.group.making import Opened, make_mode
from logherd.app.group.mode import FollowerState, Host, Lease
from logherd.app.group.roster import Roster, read_roster
from logherd.app.guarded.keeper import Unguarded
from logherd.controller.commands import AlterSyncSet, Register
from logherd.controller.reports import Granted, Report, RoleView, Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Heard, Input, Noticed, Received, SetAnswered
from logherd.group.messages import Presence
from logherd.group.output import Promise
from logherd.group.seat import Process, replica_of
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from logherd.replication.messages import Envelope
from logherd.service.controllers.asking import Joined, SetChanged
from logherd.service.replica_view import InSyncView, PendingView
from logherd.settings.options import BrokerOptions
from logherd.store import StoreFull
from unit.app.group.stand import GROUP, Clock, Stand, options_of, seat_of
from unit.store.helpers import HOST, ROOT, SimClock

QUESTION = Register(group=GROUP, broker_id=BrokerId(2), store_id="s", incarnation="i", address="b2:10911")


def roster_of(stand: Stand) -> Roster:
    roster = Roster(stand.disk, str(ROOT))
    roster.begin(stand.broker_id)
    return roster


def test_links_are_made_anew_with_another_number_and_not_because_the_same_one_is_said_again() -> None:
    """Whose controllers are slow has asked for its number several times before it hears it, and is linked by then."""
    stand, joined = Stand("controller"), list[str]()
    options = options_of("controller", controllers=["c:9878"])
    mode = ByControllers(
        seat_of(stand.file), options, stand.log, epoch=Epoch(0), keeper=Unguarded(), roster=roster_of(stand)
    )

    def step(event: Input) -> None:
        mode.machine.step(event, boot_ms())

    mode._host = Host(step, stand.failures.append, joined.append, lambda: None, lambda: ())
    for registration in (7, 7, 7):
        mode._answered(QUESTION, Joined(Registration(registration), 2), boot_ms())
    assert len(joined) == 1
    mode._answered(QUESTION, Joined(Registration(8), 2), boot_ms())
    assert len(joined) == 2
    step(Heard(Withheld(None, None), boot_ms() + 1))  # they do not know it, and give the same number again
    mode._answered(QUESTION, Joined(Registration(8), 2), boot_ms())
    assert len(joined) == 3


def test_who_has_said_hello_is_known_to_a_process_that_heals() -> None:
    stand, options = Stand("controller"), options_of("controller", controllers=["c:9878"])
    mode = ByControllers(
        seat_of(stand.file), options, stand.log, epoch=Epoch(0), keeper=Unguarded(), roster=roster_of(stand)
    )
    mode._host = stand.host
    for number in (3, 1, 3):
        sender = replica_of(Process(BrokerId(number), Registration(number)))
        mode.heard(stand.hello(sender, About(mode="controller", address="b:1")))
    assert read_roster(stand.disk, str(ROOT)) == {1, 2, 3}
    assert not stand.failures


@pytest.mark.parametrize(("epoch", "known"), [(0, {2}), (3, None)])
def test_only_a_new_replica_begins_a_list_of_whom_it_knows(epoch: int, known: set[int] | None) -> None:
    """One of a release before that list, or that has lost it, may have copied from brokers that are away."""
    stand, options = Stand("controller"), options_of("controller", controllers=["c:9878"])
    stand.file.keep(Promise(Epoch(epoch)))
    opened = Opened(stand.store, [], SimClock(), HOST)
    settings = cast("BrokerOptions", SimpleNamespace(replication=options))
    made = make_mode(settings, seat_of(stand.file), stand.opened(log_empty=False), opened, keeper=Unguarded())
    assert read_roster(stand.disk, str(ROOT)) == known
    assert made.mode.roster is not None
    assert made.mode.roster.brokers == (tuple(known) if known is not None else None)


def test_what_a_full_disk_did_not_keep_is_kept_though_nobody_says_hello_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, now = Stand("controller"), 5_000
    mode = ByControllers(
        seat_of(stand.file), options_of("controller", controllers=["c:9878"]), stand.log, epoch=Epoch(0),
        keeper=Unguarded(), roster=roster_of(stand),
    )  # fmt: skip
    mode._host = stand.host
    monkeypatch.setattr(roster_module, "boot_ms", lambda: now)

    def full(*_: object) -> None:
        raise StoreFull("no space")

    with monkeypatch.context() as patch:
        patch.setattr(roster_module, "replace_file", full)
        mode.heard(stand.hello(replica_of(Process(BrokerId(3), Registration(3))), About(mode="controller", address="")))
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) is None
    now += 60_000
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) == {2, 3}
    assert not stand.failures


# ---- what is made of the answers -------------------------------------------------------------------------------------


class Kept(Unguarded):
    """A guardian's page, as names of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def identify(self, *, cluster: str, group: str, broker_id: int, store_id: str) -> None:
        self.calls.append(f"identify {cluster} {group} {broker_id} {store_id}")

    def registered(self) -> None:
        self.calls.append("registered")


@dataclass
class Told:
    """A mode, and what its machine was fed by it."""

    mode: ByControllers
    keeper: Kept
    clock: Clock
    steps: list[Input] = field(default_factory=list)

    def step(self, event: Input) -> None:
        self.steps.append(event)
        self.mode.machine.step(event, self.clock.now)

    def join(self, registration: int = 7) -> None:
        self.mode._answered(QUESTION, Joined(Registration(registration), 2), self.clock.now)

    def grant(
        self, members: dict[int, int], *, sent: int | None = None, endpoint: bool = False,
        others: dict[int, int] | None = None, learners: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """The lease of epoch 3, with these processes in sync, and others that are not."""
        away = tuple((BrokerId(each), Registration(number)) for each, number in (others or {}).items())
        known = replace(view(members), others=away, learners=tuple(map(BrokerId, learners)))
        answer = Granted(view=known, holder_ms=3_000, hand_over=None, endpoint=endpoint)
        self.mode._answered(REPORT, answer, self.clock.now if sent is None else sent)


REPORT = Report(group=GROUP, broker_id=BrokerId(2), registration=Registration(7), address="b2:10911")


def view(members: dict[int, int], *, master: int = 2) -> RoleView:
    return RoleView(
        epoch=Epoch(3), master=BrokerId(master), master_address="b:1",
        master_registration=Registration(members[master]), version=5, members=tuple(map(BrokerId, members)),
        processes=tuple(map(Registration, members.values())), learners=(), min_in_sync=2,
    )  # fmt: skip


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    stand, keeper, clock = Stand("controller"), Kept(), Clock()
    monkeypatch.setattr(by_controllers, "boot_ms", clock)
    mode = ByControllers(
        seat_of(stand.file), options_of("controller", controllers=["c:9878"]), stand.log, epoch=Epoch(0),
        keeper=keeper, roster=roster_of(stand),
    )  # fmt: skip
    made = Told(mode, keeper, clock)
    mode._host = Host(made.step, stand.failures.append, lambda _: None, lambda: None, lambda: ())
    return made


def test_h14_the_guardian_knows_who_registers_before_it_is_asked_for_and_that_it_is_registered_after(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, keeper = told.mode, told.keeper
    host = mode._host
    assert host is not None
    monkeypatch.setattr(mode._controllers, "start", lambda _: keeper.calls.append("asks"))
    mode.start(host, TaskGuard(on_end=lambda _: None))
    assert keeper.calls == [f"identify c g 2 {mode.seat.store_id}", "asks"]
    assert not mode.accounted
    told.join()
    assert mode.accounted
    assert keeper.calls[2:] == ["registered"]


def test_a_lease_rules_from_when_its_heartbeat_left_and_until_it_is_over(told: Told) -> None:
    mode, sent = told.mode, told.clock.now
    told.join()
    assert (mode.lease, mode.rules(sent), mode.leader, tuple(mode.awaited), mode.obstacle) == (None, None, None, (), "")
    told.clock.now += 1_000
    told.grant({1: 4, 2: 7}, sent=sent)
    until = mode.machine.ground.holder.until
    assert until is not None
    assert sent < until <= sent + 3_000
    assert mode.lease == Lease(Epoch(3), until)
    assert (mode.rules(until - 1), mode.rules(until)) == (3, None), "its barrier is not even appended"
    assert (mode.leader, set(mode.awaited), mode.obstacle) == (2, {1, 2}, "")


def test_a_broker_to_which_no_lease_is_granted_tells_its_guardian_of_none(told: Told) -> None:
    told.join()
    told.mode._answered(REPORT, Withheld(view({1: 4, 2: 7}, master=1), None), told.clock.now)
    mode = told.mode
    assert (mode.lease, mode.rules(told.clock.now), mode.leader, mode.pending(told.clock.now)) == (None, None, 1, None)
    assert (mode.members(), list(mode.followers())) == (
        InSyncView(members=(BrokerId(1), BrokerId(2)), version=5, min_in_sync=2), []
    )  # fmt: skip


def test_h5_a_leader_with_too_few_in_sync_says_so_at_once(told: Told) -> None:
    told.join()
    told.grant({2: 7})
    assert told.mode.obstacle == "fewer replicas are in sync than replication.minInSync asks for"


def test_that_clients_find_it_at_the_leaders_address_is_believed_of_a_lease_only_and_for_as_long(told: Told) -> None:
    told.join()
    assert told.mode.found_at_leaders(Epoch(3))
    told.clock.now += 2_000
    told.grant({1: 4, 2: 7}, endpoint=True)
    told.clock.now += 2_999
    assert told.mode.found_at_leaders(Epoch(3))
    told.clock.now += 1
    assert not told.mode.found_at_leaders(Epoch(3))


def test_r6_only_the_answer_to_a_proposal_puts_a_set_in_force_and_it_is_that_proposals(told: Told) -> None:
    told.join()
    told.grant({1: 4, 2: 7})
    proposal = AlterSyncSet(
        group=GROUP, broker_id=BrokerId(2), registration=Registration(7), epoch=Epoch(3), version=5, members=(),
        request="r", committed=ORIGIN, min_in_sync=2,
    )  # fmt: skip
    accepted, before = SetChanged((BrokerId(2),), 6), len(told.steps)
    told.mode._answered(QUESTION, accepted, told.clock.now)
    assert len(told.steps) == before
    told.mode._answered(proposal, accepted, told.clock.now)
    assert told.steps[before:] == [SetAnswered("r", (BrokerId(2),), 6)]


def test_hints_and_answers_are_for_the_machine_and_before_there_is_a_host_for_nobody(told: Told) -> None:
    told.mode._noticed()
    assert told.steps == [Noticed()]
    told.mode._host = None
    told.mode._noticed()
    told.join()
    assert told.steps == [Noticed()]
    assert not told.mode.accounted


def test_a_follower_that_has_not_said_what_it_has_flushed_is_shown_without_that(told: Told) -> None:
    told.join()
    told.grant({1: 4, 2: 7})
    mode, sender = told.mode, replica_of(Process(BrokerId(1), Registration(4)))
    standing = mode.machine.ground.standing
    told.step(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(3), Presence(ORIGIN))))
    for members, in_sync in (({1: 4, 2: 7}, True), ({2: 7, 3: 5}, False)):
        told.grant(members, others={} if in_sync else {1: 4})
        follower = next(iter(mode.followers()))
        assert (follower.broker_id, follower.in_sync, follower.flushed) == (1, in_sync, None)
        assert (set(mode.members().members), mode.members().version) == (set(members), 5)


def test_who_is_away_since_before_this_leadership_is_shown_as_a_follower_too_until_it_is_forgotten(told: Told) -> None:
    """As the leader before, whose machine is gone."""
    told.join()
    told.grant({2: 7, 3: 5}, others={1: 4, 4: 6}, learners=(4,))
    assert list(told.mode.followers()) == [
        FollowerState(BrokerId(1), in_sync=False, flushed=None, in_step_at=None),
        FollowerState(BrokerId(3), in_sync=True, flushed=None, in_step_at=None),
        FollowerState(BrokerId(4), in_sync=False, flushed=None, in_step_at=None, awaited=False),
    ]
    told.grant({2: 7, 3: 5})
    assert [each.broker_id for each in told.mode.followers()] == [3]


def test_a_broker_that_followed_and_was_forgotten_is_shown_no_more(told: Told) -> None:
    """Taken away for good, it would be missed in the metrics for as long as this leadership lasts."""
    told.join()
    told.grant({2: 7}, others={3: 5})
    mode, sender = told.mode, replica_of(Process(BrokerId(3), Registration(5)))
    standing = mode.machine.ground.standing
    told.step(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(3), Presence(ORIGIN))))
    assert [each.broker_id for each in mode.followers()] == [3]
    told.grant({2: 7})
    assert list(mode.followers()) == []


def test_a_change_of_the_set_that_is_on_its_way_says_who_goes_why_and_since_when(told: Told) -> None:
    told.join()
    told.grant({1: 4, 2: 7, 3: 5})
    mode, standing = told.mode, told.mode.machine.ground.standing
    assert mode.pending(told.clock.now) is None
    for number, process in ((1, 4), (3, 5)):
        sender = replica_of(Process(BrokerId(number), Registration(process)))
        body = Presence(ORIGIN, leaving=number == 1)
        told.step(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(3), body)))
    pending = mode.pending(told.clock.now + 40)
    assert pending == PendingView(members=(2, 3), why="1 does not keep up or asks to leave", age_ms=40)


def test_another_number_ends_the_lease_at_the_guardian_too(told: Told) -> None:
    told.join()
    told.grant({1: 4, 2: 7})
    assert told.mode.lease is not None
    told.join(8)
    assert told.mode.lease is None


def test_r21_a_flush_that_does_not_end_is_told_by_the_time_of_the_settings_in_force(told: Told) -> None:
    told.join()
    mode, ground = told.mode, told.mode.machine.ground
    ground.wrote()
    told.clock.now += ground.options.stall_ms - 1
    ground.clock.now = told.clock.now
    assert not mode.stalled
    ground.clock.now += 1
    assert mode.stalled
    mode.retime(options_of("controller", controllers=["c:9878"], lagTimeout="1200ms"))
    assert ground.options.lag_ms == 1_200


def test_a_list_of_whom_it_knows_that_cannot_be_written_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one would heal without those."""
    stand = Stand("controller")
    mode = ByControllers(
        seat_of(stand.file), options_of("controller", controllers=["c:9878"]), stand.log, epoch=Epoch(0),
        keeper=Unguarded(), roster=roster_of(stand),
    )  # fmt: skip
    mode._host, broken = stand.host, OSError(5, "Input/output error")
    monkeypatch.setattr(mode.roster, "meet", Mock(side_effect=broken))
    mode.tick()
    assert stand.failures == [broken]
