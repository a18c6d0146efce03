"""Confirmations on the board: many requests share a round, and none is answered by a round that began before it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from logherd.app.clock import boot_ms
from logherd.app.controllers.board import CONFIRM_SECONDS, Asker, Board, Counts
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected, Uncertain
from logherd.controller.commands import Claim, Elect, Grounds, Move, Release, Tune
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.reports import Granted, Withheld
from logherd.controller.settings import OfficeOptions
from logherd.controller.silence import PATIENCE_MS
from logherd.controller.values import BrokerId, Group, GroupKey
from logherd.controller.verdicts import Refusal as Refused
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.output import Refusal, Role, RoleChanged
from logherd.service.controllers.steps import (
    AwaitMaster,
    Catch,
    Confirm,
    Decide,
    Endings,
    HandOver,
    Rebuild,
    Resettle,
    Step,
)
from unit.controller.desk import KEY, Desk


class Quorum:
    """Collects what it is asked; answers when a test says so."""

    def __init__(self) -> None:
        self.reads: list[Callable[[ReadOutcome], None]] = []
        self.proposals: list[Callable[[Outcome[Verdict]], None]] = []
        self.orders: list[tuple[object, Callable[[Outcome[Any]], None]]] = []
        self.given_way: list[int] = []

    def hand_over_to(self, identity: str | None, then: Callable[[Outcome[Any]], None]) -> None:
        self.orders.append((identity, then))

    def give_way(self, turn: int) -> None:
        self.given_way.append(turn)

    def resettle(
        self, voters: tuple[str, ...], learners: tuple[str, ...], then: Callable[[Outcome[Any]], None]
    ) -> None:
        self.orders.append(((voters, learners), then))

    def rebuild(self, order: RecoverQuorum, then: Callable[[Outcome[Any]], None]) -> None:
        self.orders.append((order, then))

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        self.reads.append(then)

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None:
        self.proposals.append(then)

    def decide(self, verdict: Verdict) -> None:
        self.tell(Applied(Position(0), verdict))

    def tell(self, outcome: Outcome[Verdict]) -> None:
        proposals, self.proposals = self.proposals, []
        for then in proposals:
            then(outcome)

    def confirm(self) -> None:
        reads, self.reads = self.reads, []
        for then in reads:
            then(ReadAt(Position(0)))


class Rig:
    def __init__(self) -> None:
        self.machine = machine = Machine()
        self.board = Board(lambda: machine, LeaseTerms(), OfficeOptions())
        self.quorum = Quorum()
        self.board.quorum = self.quorum  # type: ignore[assignment]
        self.answers: list[str] = []
        self.parked = 0
        self.lead()

    def lead(self) -> None:
        self.board.role_changed(RoleChanged(Role.LEADER, Epoch(1), None, "test", ready=True), recoveries=0)

    def follow(self) -> None:
        self.board.role_changed(RoleChanged(Role.FOLLOWER, Epoch(2), None, "test"), recoveries=0)

    def ask(self, name: str) -> None:
        self.take(name, Confirm(lambda _now: name))

    def take(self, name: str, step: Step[str]) -> None:
        endings = Endings(refused=lambda reason: f"{name} {reason.name}", unknown=lambda: f"{name} unknown")
        asker: Asker[str] = Asker(self.answers.append, self.park, endings)
        self.board.carry_out(step, asker)

    def park(self) -> None:
        self.parked += 1

    async def until_asked(self) -> None:
        async with asyncio.timeout(5):
            while not self.quorum.reads:
                await asyncio.sleep(0)


async def test_requests_of_one_pass_share_a_confirmation() -> None:
    rig = Rig()
    for name in "abc":
        rig.ask(name)
    await rig.until_asked()
    assert (len(rig.quorum.reads), rig.answers) == (1, [])
    rig.quorum.confirm()
    assert rig.answers == ["a", "b", "c"]


async def test_a_request_that_comes_after_the_round_began_waits_for_the_next() -> None:
    rig = Rig()
    rig.ask("early")
    await rig.until_asked()
    begun = rig.quorum.reads.pop()
    rig.ask("late")
    begun(ReadAt(Position(0)))
    assert rig.answers == ["early"]
    await rig.until_asked()
    rig.quorum.confirm()
    assert rig.answers == ["early", "late"]


async def test_rounds_keep_their_distance_however_many_ask() -> None:
    rig = Rig()
    loop = asyncio.get_running_loop()
    begun: list[float] = []
    for number in range(4):
        rig.ask(str(number))
        await rig.until_asked()
        begun.append(loop.time())
        rig.quorum.confirm()
    assert begun[-1] - begun[0] >= 3 * CONFIRM_SECONDS * 0.9


async def test_the_next_round_is_as_near_however_many_share_one() -> None:
    rig = Rig()
    for number in range(1_000):
        rig.ask(str(number))
    now = asyncio.get_running_loop().time()
    assert rig.board._confirm_due <= now + CONFIRM_SECONDS


async def test_whoever_waits_when_the_leadership_ends_is_sent_on_at_once() -> None:
    rig = Rig()
    rig.ask("asked")
    await rig.until_asked()
    rig.ask("waiting")
    rig.follow()
    assert rig.answers == ["waiting NOT_LEADER"]
    rig.quorum.confirm()
    assert rig.answers == ["waiting NOT_LEADER", "asked NOT_LEADER"]


async def test_nothing_of_one_office_is_answered_under_another() -> None:
    rig = Rig()
    rig.ask("old")
    await rig.until_asked()
    rig.follow()
    rig.lead()
    rig.quorum.confirm()
    assert rig.answers == ["old NOT_LEADER"]


async def test_a_refused_round_refuses_all_that_share_it() -> None:
    rig = Rig()
    rig.ask("a")
    rig.ask("b")
    await rig.until_asked()
    rig.quorum.reads.pop()(Rejected(Refusal.BUSY, None))
    assert rig.answers == ["a BUSY", "b BUSY"]


def defect(*_told: object) -> Any:
    raise ZeroDivisionError


def broken_rule(*_told: object) -> Any:
    raise InvariantError("the state is wrong")


async def test_a_defect_in_an_answer_costs_that_answer_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.take("a", Confirm(defect))
    rig.take("b", Catch(defect))
    rig.take("c", Decide(Tune(values={}), defect))
    rig.ask("d")
    await rig.until_asked()
    rig.quorum.confirm()
    await rig.until_asked()
    rig.quorum.confirm()
    rig.quorum.decide(Verdict())
    assert rig.answers == ["b unknown", "a unknown", "d", "c unknown"]
    assert [record.getMessage() for record in caplog.records] == ["request failed by a defect"] * 3


async def test_a_defect_in_an_answer_does_not_keep_a_decision_from_being_applied() -> None:
    rig = Rig()
    command = Claim(group=KEY, broker_id=BrokerId(1), check_code="code")
    verdict = rig.machine.apply(command)
    rig.take("a", AwaitMaster(KEY, Epoch(0), 0, defect))
    rig.take("b", AwaitMaster(KEY, Epoch(0), 0, lambda _group, _now: "b"))
    rig.board.applied(command, verdict)
    assert rig.answers == []
    rig.board.tick()
    assert rig.answers == ["a unknown", "b"]


async def test_a_broken_rule_of_the_state_is_no_matter_of_one_answer() -> None:
    rig = Rig()
    rig.take("a", Decide(Tune(values={}), broken_rule))
    with pytest.raises(InvariantError):
        rig.quorum.decide(Verdict())
    assert rig.answers == []


def test_what_is_refused_for_everybody_is_said_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(100):
        rig.take(str(number), Decide(Tune(values={}), defect))
    rig.quorum.tell(Rejected(Refusal.BUSY, None))
    assert rig.answers == [f"{number} BUSY" for number in range(100)]
    assert [record.getMessage() for record in caplog.records] == ["proposal refused"]


def led(rig: Rig) -> Desk:
    """Brokers 1 to 3 of a group that broker 1 leads, in the state of the board."""
    desk = Desk(now=boot_ms())
    desk.machine = rig.machine
    desk.reopen()
    desk.found(1, 2, 3, master=1)
    return desk


def epoch_of(group: Group, _now: int) -> str:
    return f"epoch {group.epoch}"


async def test_who_waits_for_a_master_hears_of_the_first_one_of_a_later_epoch() -> None:
    rig = Rig()
    desk = led(rig)
    rig.take("at once", AwaitMaster(KEY, Epoch(0), 60_000, epoch_of))
    assert (rig.answers, rig.parked) == (["epoch 1"], 0)
    rig.take("later", AwaitMaster(KEY, Epoch(1), 60_000, epoch_of))
    rig.board.applied(Tune(values={}), Verdict())
    rig.board.applied(Tune(values={}), Verdict(replace(desk.group, key=GroupKey("d", "bg"), epoch=Epoch(9))))
    rig.board.applied(Tune(values={}), desk.release(1))
    rig.board.tick()
    assert (rig.answers, rig.parked, rig.board.counts.elections) == (["epoch 1"], 1, 0)
    (election,) = desk.office.decide(desk.now)
    rig.board.applied(election, desk.submit_proposed(election))
    assert (rig.answers, rig.board.counts.elections) == (["epoch 1", "epoch 2"], 1)


async def test_who_has_waited_long_enough_is_answered_once() -> None:
    rig = Rig()
    led(rig)
    rig.take("a", AwaitMaster(KEY, Epoch(1), 0, epoch_of))
    rig.board.tick()
    rig.board.tick()
    assert rig.answers == ["epoch 1"]


async def test_more_than_so_many_wait_for_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logherd.app.controllers.board._WAITERS_MAX", 2)
    rig = Rig()
    led(rig)
    rig.lead()
    for name in "abc":
        rig.take(name, AwaitMaster(KEY, Epoch(1), 60_000, epoch_of))
    assert (rig.parked, rig.answers) == (2, ["epoch 1"])


async def test_who_waits_for_a_master_when_the_leadership_ends_is_sent_on() -> None:
    rig = Rig()
    led(rig)
    rig.take("a", AwaitMaster(KEY, Epoch(1), 60_000, epoch_of))
    rig.take("b", AwaitMaster(GroupKey("d", "bg"), Epoch(1), 60_000, epoch_of))
    rig.follow()
    rig.board.tick()
    rig.take("c", AwaitMaster(KEY, Epoch(1), 60_000, epoch_of))
    assert rig.answers == ["b NOT_LEADER", "a NOT_LEADER", "c NOT_LEADER"]


async def test_r18_an_outcome_that_nobody_knows_is_told_as_unknown() -> None:
    rig = Rig()
    outcomes: list[Outcome[Verdict]] = [Rejected(Refusal.BUSY, None), Uncertain(), Applied(Position(0), Verdict())]
    for number, outcome in enumerate(outcomes):
        rig.take(str(number), Decide(Tune(values={}), lambda _verdict, _now: "done"))
        rig.quorum.tell(outcome)
    rig.take("3", Decide(Tune(values={}), lambda _verdict, _now: "done"))
    rig.follow()
    rig.lead()
    rig.quorum.tell(outcomes[-1])
    assert rig.answers == ["0 BUSY", "1 unknown", "done", "3 unknown"]


async def test_what_the_office_wants_is_proposed_once_until_it_is_refused() -> None:
    rig = Rig()
    desk = led(rig)
    rig.lead()
    office = rig.board.office
    assert office is not None
    now = boot_ms()
    office.hear(desk.report(1, address="elsewhere:1"), now)
    rig.board.tick()
    assert len(rig.quorum.proposals) == 1
    rig.quorum.tell(Rejected(Refusal.BUSY, None))
    assert [type(each) for each in office.decide(now + office.options.retry_ms + 100)] == [Move]


async def test_r2_the_office_hears_what_was_decided() -> None:
    rig = Rig()
    desk = led(rig)
    rig.lead()
    office = rig.board.office
    assert office is not None
    office.hear(desk.report(2), boot_ms())
    assert office.alive(desk.group, BrokerId(2), boot_ms())
    command = Release(
        group=KEY, broker_id=BrokerId(2), store_id="store2", incarnation="store2.1", exited=False
    )  # fmt: skip
    rig.board.applied(command, rig.machine.apply(command))
    assert not office.alive(desk.group, BrokerId(2), boot_ms())


def test_office_is_taken_by_a_leader_that_is_ready_and_left_by_whoever_leads_no_more() -> None:
    rig = Rig()
    rig.follow()
    for role in (Role.CANDIDATE, Role.LEADER):
        rig.board.role_changed(RoleChanged(role, Epoch(3), None, "test"), recoveries=0)
        assert rig.board.office is None
    rig.lead()
    assert rig.board.office is not None
    rig.follow()
    assert (rig.board.office, rig.board.counts) == (None, Counts(candidacies=1, leaderships=2))


def test_elections_are_counted_wherever_they_are_applied_and_refused_ones_are_not() -> None:
    rig = Rig()
    desk = led(rig)
    rig.follow()
    desk.release(1)
    (election,) = desk.office.decide(desk.now)
    for _ in range(2):
        rig.board.applied(election, rig.machine.apply(election))
    assert rig.board.counts.elections == 1


def test_a_read_that_is_refused_is_answered_as_refused() -> None:
    rig = Rig()
    rig.take("a", Catch(lambda _now: "read"))
    rig.take("b", Catch(lambda _now: "read"))
    for then, outcome in zip(rig.quorum.reads, (Rejected(Refusal.BUSY, None), ReadAt(Position(0))), strict=True):
        then(outcome)
    assert rig.answers == ["a BUSY", "read"]


def test_a_leader_whom_too_few_brokers_reach_has_another_one_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    desk, clock = led(rig), [boot_ms()]
    monkeypatch.setattr("logherd.app.controllers.board.boot_ms", lambda: clock[0])
    rig.lead()
    assert rig.board.office is not None
    heard = clock[0] + PATIENCE_MS - 1
    rig.board.office.hear(desk.report(1), heard)
    assert isinstance(rig.board.office.renew(desk.report(1), heard, heard=heard), Granted)
    for wait in (PATIENCE_MS, PATIENCE_MS - 2):
        clock[0] += wait
        rig.board.tick()
        assert rig.quorum.given_way == [], "it has granted a lease a moment ago"
    clock[0] += 1
    rig.board.tick()
    assert rig.quorum.given_way == [0]


async def test_no_lease_is_granted_while_an_election_that_somebody_asked_for_is_decided() -> None:
    """It may be decided already, and the old master would act beside the new one."""
    rig = Rig()
    desk = led(rig)
    rig.lead()
    office = rig.board.office
    assert office is not None
    report, now = desk.report(1), boot_ms()
    assert office.hear(report, now) is None
    asked = Elect(
        group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(2), registration=desk.registration(2),
        alive=(BrokerId(2), BrokerId(3)), grounds=Grounds.LEASE_OVER, request="asked",
    )  # fmt: skip
    rig.take("elected", Decide(asked, lambda _verdict, _now: "elected"))
    withheld = office.renew(report, now, heard=now)
    assert isinstance(withheld, Withheld)
    assert withheld.refusal is Refused.RUNNING
    rig.quorum.tell(Rejected(Refusal.BUSY, None))
    assert isinstance(office.renew(report, now, heard=now), Granted)
    assert rig.answers == ["elected BUSY"]


ORDERS = {
    "node.1": HandOver("node.1", lambda _now: "handed over"),
    (("a.1",), ("b.1",)): Resettle(("a.1",), ("b.1",), lambda _now: "resettled"),
    RecoverQuorum(0, 1, Epoch(2), ()): Rebuild(RecoverQuorum(0, 1, Epoch(2), ()), lambda _now: "rebuilt"),
}


@pytest.mark.parametrize("said", ORDERS)
def test_an_order_to_the_quorum_goes_there_from_whoever_was_asked_and_is_answered_by_what_came_of_it(
    said: object,
) -> None:
    rig = Rig()
    rig.follow()
    step: Any = ORDERS[said]  # type: ignore[index]
    for outcome in (Rejected(Refusal.BUSY, None), Uncertain(), Applied(Position(0), None)):
        rig.take("a", step)
        ((order, then),) = rig.quorum.orders
        rig.quorum.orders.clear()
        assert order == said
        then(outcome)
    assert rig.answers == ["a BUSY", "a unknown", step.then(0)]
    assert rig.parked == (3 if isinstance(step, Resettle) else 0), "what takes long keeps no connection from the rest"


def test_whatever_is_asked_before_the_quorum_runs_or_where_nobody_leads_is_refused_at_once() -> None:
    rig = Rig()
    rig.follow()
    for_leaders: list[Step[str]] = [
        Confirm(str),
        Decide(Tune(values={}), defect),
        AwaitMaster(KEY, Epoch(0), 9, defect),
    ]
    for step in for_leaders:
        rig.take("led", step)
    rig.board.quorum = None
    for step in (*for_leaders, Catch(str), *ORDERS.values()):
        rig.take("run", step)
    assert rig.answers == ["led NOT_LEADER"] * 3 + ["run NOT_LEADER"] * 3 + ["run NOT_READY"] * 4
