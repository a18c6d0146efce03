"""A promotion in static mode is in force only once the controllers have recorded it, where there are any."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group import promoting
from logherd.app.group.by_roles import ByRoles, first_roles
from logherd.app.group.promoting import ControllersBook, promote
from logherd.app.group.roles_file import RolesFile
from logherd.controller.commands import Promote as PromoteCommand
from logherd.controller.machine import Machine
from logherd.controller.values import BrokerId
from logherd.group.inputs import Assigned
from logherd.group.table import PromotionRefusedError, Recorded, Table, first_epoch, served
from logherd.model.names import Position
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.replication.epochs import Point
from logherd.service.controllers.codes import refusal_reply
from logherd.service.ports import Reply, Request
from logherd.service.replica_orders import Promote
from logherd.settings.options import Endpoint
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.leases import LeaderHint
from logherd.wire.headers.roles import RolesPromoteHeader, RolesPromoteResponse
from unit.app.group.stand import GROUP, Stand, options_of, seat_of
from unit.store.helpers import ROOT, append, flush

OPTIONS = options_of("static", static={"leader": 1, "synchronous": [2, 3]})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(promoting, "_RECORD_SECONDS", 60.0)


def complete_broker(number: int, stand: Stand | None = None) -> ByRoles:
    """A synchronous follower that has had everything."""
    stand = stand or Stand("static", broker_id=number)
    stand.file.count_start(7)
    assert OPTIONS.static is not None
    roles = RolesFile.open(stand.disk, str(ROOT), stand.file.store_id, first_roles(OPTIONS.static), log_empty=False)
    roles.be_complete()
    mode = ByRoles(seat_of(stand.file), OPTIONS, stand.log, stand.file, roles)
    mode.start(stand.host, TaskGuard(on_end=lambda _: None))
    return mode


@dataclass
class Controller:
    """Records in the machine that all of them share, if it leads."""

    machine: Machine
    leader: str | None = ""
    answers: Sequence[bool] = ()
    """For the first requests: whether the answer arrives; each is carried out."""
    busy: int = 0
    """How many requests it answers that it cannot carry them out now."""
    deaf: bool = False
    heard: list[int] = field(default_factory=list)
    connections: int = 0

    def on_open(self, session: NetSession) -> None:
        self.connections += 1

    def on_close(self, session: NetSession) -> None:
        self.connections -= 1

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            assert frame.code == RequestCode.ROLES_PROMOTE
            reply = self.answer(frame)
            at = len(self.heard)
            self.heard.append(frame.code)
            if self.deaf:
                continue
            if at >= len(self.answers) or self.answers[at]:
                session.reply(Request(frame, None, 0), reply)
            else:
                session.close()

    def answer(self, frame: Frame) -> Reply:
        if self.busy > len(self.heard):
            return Reply(ResponseCode.SYSTEM_ERROR, remark="busy")
        if self.leader != "":
            return Reply(ResponseCode.CONTROLLER_NOT_LEADER, LeaderHint(leader_address=self.leader))
        asked = decode_header(RolesPromoteHeader, frame.ext)
        command = PromoteCommand(
            group=GROUP, after=asked.after, broker_id=BrokerId(asked.broker_id), table=asked.table
        )  # fmt: skip
        verdict, found = self.machine.apply(command), self.machine.roles(GROUP)
        assert found is not None
        shown = RolesPromoteResponse(number=found.number, broker_id=found.broker_id, table=found.table)
        if verdict.refusal is None:
            return Reply(header=shown)
        return Reply(refusal_reply(frame.code, verdict.refusal).code, shown, remark=verdict.detail)


@asynccontextmanager
async def book_of(*controllers: Controller, named: int | None = None) -> AsyncIterator[ControllersBook]:
    """`named`: how many of them, from the first on, stand in the configuration."""
    servers = [Server(each) for each in controllers]
    addresses = []
    for server in servers:
        host, port = await server.listen("127.0.0.1", 0)
        addresses.append(Endpoint(host=host, port=port))
    if controllers[0].leader == "second":
        controllers[0].leader = str(addresses[1])
    try:
        yield ControllersBook(addresses[:named], GROUP)
    finally:
        for server in servers:
            await server.stop(0)


async def test_of_two_hands_one_promotes_and_the_other_hears_who_leads() -> None:
    second, third, machine = complete_broker(2), complete_broker(3), Machine()
    async with book_of(Controller(machine, leader="second"), Controller(machine)) as book:
        done = await asyncio.gather(
            promote(second, book, Promote(after=1, synchronous=(3,))),
            promote(third, book, Promote(after=1, synchronous=(2,))),
            return_exceptions=True,
        )
    (refused,) = [each for each in done if each is not None]
    assert isinstance(refused, PromotionRefusedError)
    leader = second.recorded.table.leader
    assert f"table 2 is in force: broker {leader} leads, in epochs from {2 << 43} on" in str(refused)
    assert second.recorded == third.recorded, "who was refused takes what is recorded"


async def test_controllers_that_name_each_other_are_asked_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promoting, "_RECORD_SECONDS", 0.5)
    mode, machine = complete_broker(2), Machine()
    one, other = Controller(machine, leader="second"), Controller(machine)
    async with book_of(one, other) as book:
        other.leader = f"127.0.0.1:{book._addresses[0][1]}"
        with pytest.raises(PromotionRefusedError, match="do not answer"):
            await promote(mode, book, Promote(after=1, synchronous=(3,)))
    assert len(one.heard) + len(other.heard) <= 12


async def test_who_is_given_the_same_order_again_carries_it_out_though_the_first_answer_was_lost() -> None:
    mode, machine = complete_broker(2), Machine()
    controller = Controller(machine, answers=(False, True))
    async with book_of(controller) as book:
        await promote(mode, book, Promote(after=1, synchronous=(3,)))
        async with asyncio.timeout(20):
            while controller.connections:
                await asyncio.sleep(0)
    assert mode.recorded.table.number == 2
    recorded = machine.roles(GROUP)
    assert recorded is not None
    assert (recorded.number, recorded.broker_id) == (2, 2)


async def test_a_leader_that_only_the_others_name_is_asked_in_each_round() -> None:
    mode, machine = complete_broker(2), Machine()
    async with book_of(Controller(machine, leader="second"), Controller(machine, answers=(False,)), named=1) as book:
        async with asyncio.timeout(20):
            await promote(mode, book, Promote(after=1, synchronous=(3,)))
    assert mode.recorded.table.number == 2


async def test_a_controller_that_does_not_answer_or_cannot_now_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promoting, "_ANSWER_SECONDS", 0.1)
    mode, machine = complete_broker(2), Machine()
    async with book_of(Controller(machine, deaf=True), Controller(machine, busy=2)) as book:
        async with asyncio.timeout(20):
            await promote(mode, book, Promote(after=1, synchronous=(3,)))
    assert mode.recorded.table.number == 2


@pytest.mark.parametrize(
    ("controller", "why"),
    [
        (Controller(Machine(), busy=1 << 20), "busy"),
        (Controller(Machine(), leader=None), "no controller leads"),
        (Controller(Machine(), answers=(False,) * 10_000), "lost"),
    ],
)
async def test_who_ordered_hears_why_nobody_has_recorded_it(
    monkeypatch: pytest.MonkeyPatch, controller: Controller, why: str
) -> None:
    monkeypatch.setattr(promoting, "_RECORD_SECONDS", 0.3)
    async with book_of(controller) as book:
        with pytest.raises(PromotionRefusedError, match=rf"do not answer \(.*{why}.*\); the same order may be given"):
            await promote(complete_broker(2), book, Promote(after=1))


async def test_a_controller_that_refuses_and_has_recorded_nothing_says_why() -> None:
    """As one that goes by leases in this group."""

    class Refuses(Controller):
        def answer(self, frame: Frame) -> Reply:
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, remark="this group goes by leases")

    mode = complete_broker(2)
    async with book_of(Refuses(Machine())) as book:
        with pytest.raises(PromotionRefusedError, match="refuse the promotion: this group goes by leases"):
            await promote(mode, book, Promote(after=1))
    assert mode.recorded.table.number == 1


async def test_a_promotion_that_was_recorded_by_a_process_that_died_is_carried_out_by_the_next() -> None:
    """Whoever is asked afterwards: the one that was to lead, or another one, that tells it on."""
    lost, machine = complete_broker(2), Machine()
    async with book_of(Controller(machine)) as book:
        await book.record(1, lost.prepare(Promote(after=1, synchronous=(3,))))
        again, other = complete_broker(2), complete_broker(3)
        await promote(again, book, Promote(after=1, synchronous=(3,)))
        with pytest.raises(PromotionRefusedError, match="broker 2 leads"):
            await promote(other, book, Promote(after=1))
    assert again.recorded.table.leader == other.recorded.table.leader == 2


async def test_nothing_is_in_force_while_no_controller_answers_but_by_an_order_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(promoting, "_RECORD_SECONDS", 0.3)
    mode = complete_broker(2)
    async with book_of(Controller(Machine(), leader=None)) as book:
        with pytest.raises(PromotionRefusedError, match="the controllers, who record promotions, do not answer"):
            await promote(mode, book, Promote(after=1))
        assert mode.recorded.table.number == 1
        await promote(mode, book, Promote(after=1, unrecorded=True))
    assert mode.recorded.table.number == 2


async def test_without_controllers_nobody_is_asked() -> None:
    mode = complete_broker(2)
    await promote(mode, None, Promote(after=1))
    assert mode.recorded.table.number == 2


@dataclass
class Slow:
    """A book that answers when the broker has heard of a table from another one."""

    mode: ByRoles
    heard: Recorded

    async def record(self, after: int, wanted: Recorded) -> Recorded:
        assert after < wanted.table.number
        self.mode.enforce(self.heard)
        return wanted


async def test_a_table_that_was_heard_of_meanwhile_stays_in_force_though_the_order_is_recorded() -> None:
    mode = complete_broker(2)
    later = Recorded(Table(number=3, leader=BrokerId(3)), (BrokerId(3),))
    with pytest.raises(PromotionRefusedError, match="table 3 is in force: broker 3 leads"):
        await promote(mode, Slow(mode, later), Promote(after=1, synchronous=(3,)))
    assert mode.recorded == later


@pytest.mark.parametrize(
    "other",
    [{"number": 3}, {"leader": BrokerId(4)}, {"synchronous": (BrokerId(1), BrokerId(4))}, {"copies": 3}],
    ids=str,
)
async def test_any_other_roles_in_force_are_no_success(other: dict[str, Any]) -> None:
    mode = complete_broker(2)
    order = Promote(after=1, synchronous=(1, 3), copies=2, loss=True)
    table = dataclasses.replace(mode.prepare(order).table, **other)
    with pytest.raises(PromotionRefusedError, match=f"table {table.number} is in force: .* was to follow table 1"):
        await promote(mode, Slow(mode, Recorded(table, (table.leader,))), order)


async def test_who_leads_in_the_ordered_table_already_knows_better_who_has_everything() -> None:
    mode = complete_broker(2)
    order = Promote(after=1, synchronous=(3,))
    known = served(mode.prepare(replace(order, loss=True)))
    await promote(mode, Slow(mode, known), replace(order, loss=True))
    assert mode.recorded == known


@dataclass
class Cutting:
    """A book that answers when the former leader, which is back, has cut what only this broker had flushed."""

    stand: Stand
    mode: ByRoles
    at: Position
    recorded: list[Recorded] = field(default_factory=list)

    async def record(self, after: int, wanted: Recorded) -> Recorded:
        assert wanted.table.number == after + 1, "the controllers compare"
        if not self.recorded:
            self.stand.log.truncate(self.at)
            self.mode.machine.ground.durable.cut(self.at)
        self.recorded.append(wanted)
        return wanted


async def test_who_has_lost_the_end_of_its_log_to_the_former_leader_meanwhile_leads_with_what_it_has() -> None:
    """Nobody has acknowledged that, for the leader itself lacks it. A table that asks for it would have no leader."""
    stand = Stand("static")
    mode = complete_broker(2, stand)
    stand.log.begin_epoch(first_epoch(1))
    append(stand.store)
    flush(stand.store)
    committed = stand.log.end
    append(stand.store)
    while (batch := stand.store.take_batch()) is not None:
        batch.write_and_flush()
        stand.store.flushed(batch)
    durable = mode.machine.ground.durable
    durable.flushed(durable.wrote(stand.log.end, 0))
    book = Cutting(stand, mode, committed)
    await promote(mode, book, Promote(after=1, synchronous=(3,)))
    assert [each.table.number for each in book.recorded] == [2, 3]
    assert book.recorded[0].table.holds.position > committed
    assert mode.recorded.table.holds == Point(first_epoch(1), committed)
    assert (mode.recorded.table.leader, mode.recorded.table.synchronous) == (2, (3,))
    assert stand.steps[-1] == Assigned(mode.recorded.table)


@pytest.mark.parametrize("table", ["", "{}", '{"x":' + "[" * 5_000 + "]" * 5_000 + "}"])
async def test_what_is_recorded_and_no_table_is_refused(table: str) -> None:
    """To the controllers it is a text, whoever sent it."""
    mode, machine = complete_broker(2), Machine()
    machine.apply(PromoteCommand(group=GROUP, after=1, broker_id=BrokerId(3), table=table))
    async with book_of(Controller(machine)) as book:
        with pytest.raises(PromotionRefusedError, match="what is no table of roles"):
            await promote(mode, book, Promote(after=1))
    assert mode.recorded.table.number == 1
