"""The passes of a replica: what leaves before what, and what need not wait for the end of a pass."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from logherd.app.group.replica import Replica
from logherd.group.inputs import Appended, Drain, Flushed, Health, Input, Linked, Received, Tick, Unlinked
from logherd.group.output import Drained, Event, Output, Promise
from logherd.model.names import Epoch, Position
from logherd.replication.messages import ClusterId, Envelope, ReplicaId, Stale
from logherd.store import QueueLog

MESSAGE = Envelope(ClusterId("C/g"), ReplicaId("1.1"), ReplicaId("2.1"), Epoch(1), Stale())


class World:
    """Everything around a replica, and what happened in its order. Messages of the peer grow the log by one."""

    def __init__(self, *, leads: bool, flush: str = "sync") -> None:
        self.happened: list[str] = []
        self.end = 0
        self.commit: Position | None = None
        self.events: tuple[Event, ...] = ()
        self.machine = SimpleNamespace(leads=Epoch(1) if leads else None, step=self.step)
        mode: Any = SimpleNamespace(machine=self.machine, received=lambda _: None, told=lambda _: None, ask=None)
        log: Any = self
        self.store = SimpleNamespace(background_work=bool, flushed_position=0, end_position=1)
        self.tight = False
        self.replica = Replica(mode, log, SimpleNamespace(), duties=self, flush=flush)  # type: ignore[arg-type]
        self.replica.links = self
        self.replica.disk.submit = self.submit  # type: ignore[method-assign]
        self.replica.disk.want = lambda _: None  # type: ignore[method-assign]

    def submit(self, *, here: bool = False) -> None:
        self.happened.append("to the disk" if here else "to the writer")

    def step(self, event: Input, now: int) -> Output:
        del now
        self.end += isinstance(event, Received)
        tokens = {Appended: None, Flushed: None}
        sent = (MESSAGE,) if type(event) in tokens else ()
        return Output(messages=sent, flush=None if sent else 1, commit=self.commit, events=self.events)

    def advance(self, position: Position) -> list[QueueLog]:
        del position
        if self.machine.leads is not None:
            self.happened.append("derived")
        return []

    def send(self, envelope: Envelope) -> bool:
        del envelope
        self.happened.append("sent")
        return True

    def flush(self) -> None:
        self.happened.append("written")

    async def one_pass(self) -> None:
        self.replica.schedule()
        await asyncio.sleep(0)

    unfinished = False
    may_lead = True
    holds = False

    def hold(self) -> bool:
        return self.holds

    def before_batch(self) -> None:
        self.happened.append("pass ends")

    def settle(self) -> None:
        pass

    def take(self, event: object) -> bool:
        self.happened.append("event")
        return False

    def readable_to(self, position: Position) -> int:
        return position

    def answer(self, position: int) -> None:
        self.happened.append(f"answered {position}")

    def committed(self, touched: object, position: object) -> None:
        del touched
        self.happened.append(f"committed {position}")


async def test_what_a_pass_has_appended_is_with_the_peers_before_the_writer_gets_it() -> None:
    world = World(leads=True)
    world.end = 5
    await world.one_pass()
    assert world.happened == ["pass ends", "sent", "written", "to the writer"]


async def test_what_is_held_for_more_leaves_with_the_pass_that_is_held_no_more() -> None:
    world = World(leads=True)
    world.end, world.holds = 5, True
    await world.one_pass()
    assert world.happened == []
    world.holds = False
    await world.one_pass()
    assert world.happened == ["pass ends", "sent", "written", "to the writer"]


async def test_a_promise_is_not_held() -> None:
    world = World(leads=True)
    world.end, world.holds = 5, True
    world.replica.disk._promise = Promise(Epoch(2))
    await world.one_pass()
    assert world.happened == ["pass ends", "sent", "written", "to the writer"]


async def test_nothing_is_held_while_somebody_waits_for_all_to_be_flushed() -> None:
    world = World(leads=True)
    world.end, world.holds = 5, True
    waiting = asyncio.ensure_future(world.replica.flushed())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert world.happened == ["pass ends", "sent", "written", "to the writer"]
    world.replica.end()
    await waiting


async def test_a_follower_holds_nothing() -> None:
    world = World(leads=False)
    world.holds = True
    world.replica.receive([MESSAGE])
    assert world.happened == ["to the disk"]


async def test_a_follower_on_a_full_disk_looks_at_it_before_each_message() -> None:
    """Several come between two ticks, and the one that finds no room would end the process."""
    world, heard = World(leads=False), list[Input]()
    world.machine.step = lambda event, now: (heard.append(event), world.step(event, now))[1]
    world.tight = True
    world.store = SimpleNamespace(
        accepts_messages=False, has_room=True, has_room_to_lead=True, disk=SimpleNamespace(accepts_messages=True)
    )
    world.replica.receive([])
    assert heard == []
    world.replica.disk.submit = lambda *, here: None  # type: ignore[method-assign]
    world.replica.receive([MESSAGE])
    world.store.has_room = False
    world.replica.receive([MESSAGE, MESSAGE])
    before = Health(space=False), Health(space=False, room=False)
    assert [event for event in heard if not isinstance(event, Appended)] == [
        before[0], Received(MESSAGE), before[1], Received(MESSAGE), Received(MESSAGE)
    ]  # fmt: skip


async def test_a_replica_that_has_ended_looks_at_its_disk_no_more() -> None:
    """A segment would be made in the folder of a log that is closed."""
    world = World(leads=False)
    world.replica.end()
    world.tight = True
    world.store = SimpleNamespace()
    world.replica.receive([MESSAGE])


async def test_what_a_follower_was_sent_goes_to_its_disk_at_once() -> None:
    world = World(leads=False)
    world.replica.receive([MESSAGE, MESSAGE])
    assert world.happened == ["to the disk"]
    await asyncio.sleep(0)
    assert len(world.happened) == 1, "a pass has no empty one behind it"


async def test_a_follower_learns_what_is_committed_after_it_has_flushed_and_acknowledged() -> None:
    world = World(leads=False)
    world.commit = Position(1)
    world.replica.disk.submit = lambda *, here: world.replica._flushed(1)  # type: ignore[method-assign]
    world.replica.receive([MESSAGE])
    assert world.happened == ["sent", "written", "committed 1"]


async def test_a_follower_that_has_nothing_to_flush_learns_what_is_committed_all_the_same() -> None:
    world = World(leads=False)
    world.commit = Position(1)
    world.replica.step(Appended())
    assert world.happened == ["sent", "committed 1"]


async def test_an_event_finds_what_earlier_steps_have_told_to_be_committed() -> None:
    world = World(leads=False)
    world.commit = Position(1)
    world.replica._feed(Received(MESSAGE))
    assert world.happened == []
    world.commit, world.events = Position(2), (Drained(),)
    world.replica._feed(Received(MESSAGE))
    assert world.happened == ["committed 1", "event", "committed 2"]


async def test_who_waits_at_a_leader_is_answered_at_once_and_before_anything_is_derived() -> None:
    world = World(leads=True)
    world.commit = Position(1)
    world.replica._feed(Received(MESSAGE))
    assert world.happened == ["answered 1", "derived", "committed 1"]


async def test_a_store_that_cannot_take_what_is_committed_fails_its_replica() -> None:
    world = World(leads=False)
    world.commit, failure = Position(1), RuntimeError("damaged")
    world.advance = Mock(side_effect=failure)  # type: ignore[method-assign]
    world.replica.receive([MESSAGE])
    assert world.replica.failure is failure


async def test_the_machine_hears_of_everything_that_happens_and_the_mode_of_messages_behind_it() -> None:
    world, heard = World(leads=False), list[object]()
    world.machine.step = lambda event, now: (heard.append(event), world.step(event, now))[1]
    world.replica.mode.received = lambda envelope: heard.append(f"mode: {envelope.sender}")  # type: ignore[method-assign]
    peer = MESSAGE.sender
    world.replica.linked(peer)
    world.replica.receive([MESSAGE])
    world.replica.unlinked(peer)
    world.replica.look()
    world.replica.drain()
    assert heard == [Linked(peer), Received(MESSAGE), f"mode: {peer}", Unlinked(peer), Tick(), Drain()]


@pytest.mark.parametrize(
    ("flush", "flushed", "busy", "told"),
    [
        ("sync", 0, False, False),
        ("sync", 1, True, True),
        ("async", 0, True, False),
        ("async", 0, False, True),
        ("async", 1, True, True),
    ],
)
async def test_all_counts_as_flushed_once_it_is_on_the_disk_or_is_written_where_nobody_is_told_of_more(
    flush: str, flushed: int, *, busy: bool, told: bool
) -> None:
    world = World(leads=False, flush=flush)
    world.store.flushed_position = flushed
    world.untaken = busy  # type: ignore[attr-defined]
    waiting = asyncio.ensure_future(world.replica.flushed())
    for _ in range(4):
        await asyncio.sleep(0)
    assert waiting.done() is told
    world.replica.end()
    await waiting


async def test_the_world_looks_at_what_changed_after_news_and_after_what_comes_seldom() -> None:
    world = World(leads=False)
    world.settle = lambda: world.happened.append("settled")  # type: ignore[method-assign]
    world.replica._feed(Received(MESSAGE))
    assert world.happened == []
    world.replica._feed(Tick())
    assert world.happened == ["settled"]
    world.events = (Drained(),)
    world.replica._feed(Received(MESSAGE))
    assert world.happened == ["settled", "event", "settled"]


async def test_a_rule_that_the_machine_finds_broken_fails_its_replica() -> None:
    world, failure = World(leads=False), RuntimeError("broken")
    world.machine.step = Mock(side_effect=failure)
    world.replica.receive([MESSAGE])
    assert world.replica.failure is failure


async def test_a_replica_that_has_ended_serves_nothing_takes_nothing_and_has_nothing_sent() -> None:
    world = World(leads=True)
    world.machine.serving = lambda now: Epoch(1)
    world.replica.disk.end = lambda: world.happened.append("disk ends")  # type: ignore[method-assign]
    assert world.replica.serving() == Epoch(1)
    world.replica.end()
    assert world.replica.serving() is None
    world.end = 5
    world.replica.step(Appended())
    await world.one_pass()
    assert world.happened == ["disk ends"]


async def test_after_a_failure_the_first_one_is_known_and_the_world_hears_of_it() -> None:
    world, failure = World(leads=True), RuntimeError("broken")
    world.settle = lambda: world.happened.append("settled")  # type: ignore[method-assign]
    world.replica.disk.end = lambda: world.happened.append("disk ends")  # type: ignore[method-assign]
    world.replica.fail(failure)
    world.replica.fail(RuntimeError("another"))
    world.replica.end()
    assert world.replica.failure is failure
    assert world.happened[:2] == ["disk ends", "settled"]


async def test_a_leader_that_answers_before_the_flush_writes_what_a_pass_has_appended_itself() -> None:
    world = World(leads=True, flush="async")
    world.end = 5
    await world.one_pass()
    assert world.happened == ["pass ends", "sent", "written", "to the disk"]


async def test_what_a_leader_hears_does_not_end_its_pass() -> None:
    world = World(leads=True)
    world.replica.receive([MESSAGE, MESSAGE])
    assert world.happened == []
    await asyncio.sleep(0)
    assert world.happened == ["pass ends", "to the writer"]


async def test_an_acknowledgement_is_written_as_soon_as_the_flush_is_told() -> None:
    world = World(leads=False)
    world.replica._flushed(1)
    assert world.happened == ["sent", "written"]


@pytest.mark.parametrize(("unfinished", "further"), [(True, ["pass ends", "to the writer"]), (False, [])])
async def test_a_flush_is_followed_by_a_pass_only_if_more_is_to_be_appended(
    unfinished: bool, further: list[str]
) -> None:
    world = World(leads=True)
    world.unfinished = unfinished
    world.replica._flushed(1)
    await asyncio.sleep(0)
    assert world.happened == ["sent", "written", *further]
