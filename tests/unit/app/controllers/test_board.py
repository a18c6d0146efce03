"""Confirmations on the board: many requests share a round, and none is answered by a round that began before it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from logherd.app.controllers.board import CONFIRM_SECONDS, Asker, Board
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected
from logherd.controller.commands import Claim, Tune
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.output import Refusal, Role, RoleChanged
from logherd.service.controllers.steps import AwaitMaster, Catch, Confirm, Decide, Endings, Step
from unit.controller.desk import KEY


class Quorum:
    """Collects what it is asked; answers when a test says so."""

    def __init__(self) -> None:
        self.reads: list[Callable[[ReadOutcome], None]] = []
        self.proposals: list[Callable[[Outcome[Verdict]], None]] = []

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
        self.lead()

    def lead(self) -> None:
        self.board.role_changed(RoleChanged(Role.LEADER, Epoch(1), None, "test", ready=True))

    def follow(self) -> None:
        self.board.role_changed(RoleChanged(Role.FOLLOWER, Epoch(2), None, "test"))

    def ask(self, name: str) -> None:
        self.take(name, Confirm(lambda _now: name))

    def take(self, name: str, step: Step[str]) -> None:
        endings = Endings(refused=lambda reason: f"{name} {reason.name}", unknown=lambda: f"{name} unknown")
        asker: Asker[str] = Asker(self.answers.append, lambda: None, endings)
        self.board.carry_out(step, asker)

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


async def test_a_defect_in_an_answer_costs_that_answer_and_no_other() -> None:
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
