"""Confirmations on the board: many requests share a round, and none is answered by a round that began before it."""

import asyncio
from collections.abc import Callable

from logherd.app.controllers.board import CONFIRM_SECONDS, Asker, Board
from logherd.app.quorum.outcomes import ReadAt, ReadOutcome, Rejected
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.settings import OfficeOptions
from logherd.model.names import Epoch, Position
from logherd.raft.output import Refusal, Role, RoleChanged
from logherd.service.controllers.steps import Confirm, Endings


class Quorum:
    """Collects what it is asked; answers when a test says so."""

    def __init__(self) -> None:
        self.reads: list[Callable[[ReadOutcome], None]] = []

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        self.reads.append(then)

    def confirm(self) -> None:
        reads, self.reads = self.reads, []
        for then in reads:
            then(ReadAt(Position(0)))


class Rig:
    def __init__(self) -> None:
        machine = Machine()
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
        endings = Endings(refused=lambda reason: f"{name} {reason.name}", unknown=lambda: f"{name} unknown")
        asker: Asker[str] = Asker(self.answers.append, lambda: None, endings)
        self.board.carry_out(Confirm(lambda _now: name), asker)

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
