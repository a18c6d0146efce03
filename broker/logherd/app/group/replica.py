"""One replica of a group as it runs: the machine of its mode, and around it the log, the disk and the peers.

The order of duties is that of group/output.py. A pass of the loop handles what has arrived; at its end everything that
the services have appended is shipped, then handed to the writer thread.

What must be durable before what is sent: an acknowledgement leaves after the flush of what it acknowledges, and nothing
is said in an epoch before that epoch is in the replica's file (`Flushing`). An answer to a client leaves when its
record is committed, and only while the lease runs (`Duties.committed`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from logherd.app.clock import boot_ms
from logherd.app.group.flushing import Flushing
from logherd.app.group.mode import Mode
from logherd.app.group.replica_file import ReplicaFile
from logherd.group.inputs import Appended, Drain, Flushed, Health, Input, Linked, Received, Tick, Unlinked
from logherd.group.machine import GroupMachine
from logherd.group.output import Event, Output
from logherd.model.names import Epoch, Position
from logherd.replica import ReplicaStore
from logherd.replication.messages import Envelope, ReplicaId
from logherd.store import QueueLog

__all__ = ["Duties", "Replica"]

_TICK_SECONDS = 0.05
_FREQUENT = (Appended, Flushed, Received)
"""What comes with each message. What the world is told changes with these only if there are events, or at a tick."""


class Duties(Protocol):
    """What a replica's broker does about it. Nothing of it may raise but what ends the process."""

    def before_batch(self) -> None:
        """The pass ends: append what was gathered, if this replica leads."""

    def hold(self) -> bool:
        """Whether what clients have appended is to wait for more, if this replica leads; `schedule` is called then."""

    @property
    def unfinished(self) -> bool:
        """Whether `before_batch` has more to append, in passes to come."""

    @property
    def may_lead(self) -> bool:
        """Whether what a leader appends first would not fail for want of a descriptor or memory, as it just did."""

    def take(self, event: Event) -> bool:
        """Something has changed. True: the log was appended to."""

    def answer(self, position: int) -> None:
        """What is below `position` is committed, and is readable before anything else is asked: whoever waits for that
        alone may be told now. It goes in whole batches, so that it may end below what is known to be committed."""

    def committed(self, touched: list[QueueLog], position: Position) -> None:
        """Everything below `position` is committed here; these queues have new messages."""

    def settle(self) -> None:
        """A step that had news, or a tick, has been carried out whole."""


class Links(Protocol):
    """The way to the other replicas."""

    def send(self, envelope: Envelope) -> bool:
        """Put a message on its way, or drop it."""

    def flush(self) -> None:
        """Write now what waits for the end of the pass."""


class _NoLinks:
    """Before this process has its name: nobody knows it."""

    def send(self, envelope: Envelope) -> bool:
        del envelope
        return False

    def flush(self) -> None:
        pass


@dataclass(slots=True)
class _Reached:
    """The log's end after the latest step, and how far it is known to be committed while the store was not told."""

    end: Position
    committed: Position | None = None


class Replica:
    """Belongs to the loop on which it is made. After a failure it does nothing any more."""

    def __init__(
        self, mode: Mode, log: ReplicaStore, file: ReplicaFile, *, duties: Duties, flush: str = "sync"
    ) -> None:  # fmt: skip
        """`log` is as it was opened: all of it is durable, and the mode's machine knows it. `flush`: as the store's."""
        self.mode = mode
        self.log = log
        self.links: Links = _NoLinks()
        self.failure: BaseException | None = None
        self._duties = duties
        self._flushes_later = flush == "async"
        self._reached = _Reached(log.end)
        self.disk = Flushing(
            log, file, hold=self._held, send=self._send, on_flushed=self._flushed, on_failure=self.fail
        )  # fmt: skip
        self._health = Health()
        self._idle: list[asyncio.Future[None]] = []
        self._pass: asyncio.Handle | None = None
        """The end of this pass of the loop, if there is something to do then."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def machine(self) -> GroupMachine:
        """Whoever leads this replica, to be asked."""
        return self.mode.machine

    # ---- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin: the writer thread and the ticks."""
        self.disk.start()
        self._tick()

    async def stop(self, seconds: float) -> bool:
        """End the writer after the batch in flight; whether it has ended in time."""
        self.end()
        await self.mode.stop()
        return await self.disk.stop(seconds)

    def end(self) -> None:
        """Do nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.failure is None:
            self.failure = RuntimeError("the replica was stopped")
        self.disk.end()
        self._release_idle()

    def fail(self, error: BaseException) -> None:
        """Nothing that this replica would say may be believed any more."""
        if self.failure is None:
            self.failure = error
            self.end()
            self._duties.settle()

    def serving(self) -> Epoch | None:
        """The epoch in which this replica may answer as the leader at this very moment."""
        return self.mode.machine.serving(boot_ms()) if self.failure is None else None

    def drain(self) -> None:
        """The process is about to stop: hand over, or leave the in-sync set."""
        self.step(Drain())

    async def flushed(self) -> None:
        """Wait until everything appended so far is on this disk (with flush `async`: is written, for that is all that
        anybody is told of), or nothing can be written any more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        self.schedule()
        await waiter

    # ---- what happens -------------------------------------------------------------------------------------------

    def receive(self, envelopes: Sequence[Envelope]) -> None:
        """Messages of other replicas have arrived."""
        for envelope in envelopes:
            if self.log.tight and self.failure is None:  # a tick comes too late
                self._look_at_disk()
            self._feed(Received(envelope))
            self.mode.received(envelope)
        if self._pass is not None and self.mode.machine.leads is None:
            self._pass.cancel()
            self._end_pass()  # nobody else appends to a follower's log, so its flush need not wait for the pass to end
        self._learn()

    def linked(self, peer: ReplicaId) -> None:
        """There is a new connection to a replica."""
        self.step(Linked(peer))

    def unlinked(self, peer: ReplicaId) -> None:
        """The connection to a replica broke."""
        self.step(Unlinked(peer))

    def schedule(self) -> None:
        """Say that something may have been appended in this pass. Cheap; may be called for every request."""
        if self._pass is None:
            self._pass = asyncio.get_running_loop().call_soon(self._end_pass)

    def look(self) -> None:
        """Let the machine see what time it is: a lease that is over ends all duties before this returns."""
        self.step(Tick())

    def step(self, event: Input) -> None:
        """Feed the machine, and carry out what it asks for."""
        self._feed(event)
        self._learn()

    def _feed(self, event: Input) -> None:
        """Do that, but leave what a follower has learnt to be committed to `_learn`: it has something more urgent."""
        if self.failure is not None:
            return
        try:
            output = self.mode.machine.step(event, boot_ms())
            self._reached.end = self.log.end
            self._carry_out(output, news=bool(output.events) or not isinstance(event, _FREQUENT))
        except Exception as error:  # a broken rule, or a log that cannot go on
            self.fail(error)

    # ---- passes -------------------------------------------------------------------------------------------------

    def _held(self) -> bool:
        return self.mode.machine.leads is not None and not self._idle and self._duties.hold()

    def _end_pass(self) -> None:
        try:
            if not self.disk.promises and self._held():
                return
            if self.failure is None and self.mode.machine.leads is not None:
                self._duties.before_batch()
                if self.log.end != self._reached.end:
                    self.step(Appended())
                    self.links.flush()  # before the writer thread, once woken, takes its turns with this one
        finally:
            self._pass = None  # not before: what these wanted is handed over here and now
        if self.failure is not None:
            return
        # A follower has little else to do than to acknowledge, and if its disk hangs it may as well: the leader goes on
        # without it. A leader ships, takes requests and hears acknowledgements meanwhile, unless it need not flush.
        self.disk.submit(here=self.mode.machine.leads is None or self._flushes_later)
        if self._idle and self._written:
            self._release_idle()

    @property
    def _written(self) -> bool:
        """See flushed."""
        store = self.log.store
        return store.flushed_position >= store.end_position or (self._flushes_later and not self.disk.busy)

    def _release_idle(self) -> None:
        waiters, self._idle = self._idle, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)
        self._look_at_disk()
        self.step(Tick())

    def _look_at_disk(self) -> None:
        store = self.log.store
        health = Health(
            space=store.accepts_messages, room=store.has_room, healthy=self.disk.failure is None,
            barrier=store.has_room_to_lead and self._duties.may_lead, messages=store.disk.accepts_messages,
        )  # fmt: skip
        if health != self._health:
            self._health = health
            self.step(health)

    def _flushed(self, token: int) -> None:
        self._feed(Flushed(token))
        self.links.flush()
        self._learn()
        if self._idle or (self.mode.machine.leads is not None and self._duties.unfinished):
            self.schedule()

    def _send(self, envelope: Envelope) -> bool:
        return self.links.send(envelope)

    # ---- what a step wants --------------------------------------------------------------------------------------

    def _carry_out(self, output: Output, *, news: bool) -> None:
        appended = False
        if output.events:
            self._apply()  # each event finds what steps before it have said
        for event in output.events:
            appended |= self._duties.take(event)
            self.mode.told(event)
        for envelope in output.messages:
            self.links.send(envelope)
        if output.flush is not None:
            self.disk.want(output)
            self.schedule()
        if output.commit is not None:
            self._reached.committed = output.commit
            if output.events or self.mode.machine.leads is not None:
                self._apply()  # somebody waits for it
        for question in output.asks:
            self.mode.ask(question)
        if news:
            self._duties.settle()
        if appended:
            self.step(Appended())

    def _apply(self) -> None:
        """Tell the store, and who waits for it, how far the log is committed."""
        position, self._reached.committed = self._reached.committed, None
        if position is not None:
            if self.mode.machine.leads is not None:
                # A sender waits for its answer, and nobody for what is derived from its message in the same callback.
                self._duties.answer(self.log.readable_to(position))
            self._duties.committed(self.log.advance(position), position)

    def _learn(self) -> None:
        """Do so, if it is still to be done: a follower's flush and its acknowledgement went first, because its leader
        waits for them, and nobody for this."""
        if self._reached.committed is None or self.failure is not None:
            return
        try:
            self._apply()
        except Exception as error:  # a log that cannot go on
            self.fail(error)
