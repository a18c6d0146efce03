"""One simulated process: the shell around a core, its disk, its clock and its state machine."""

from collections import deque
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING
from zlib import crc32

from logherd.model.names import Position
from logherd.raft.core import RaftCore, found_group, make_image
from logherd.raft.inputs import Applied, DiskFull, Flushed, ImageKept, Input, Received, Tick
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output
from logherd.raft.store import HardState
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, Envelope, ReplicaId
from logherd.store.errors import ReplicaDamaged, StoreFull, StoreStopped
from sim.consensus.disk import copy_of
from sim.consensus.machine import Machine
from sim.consensus.streams import stream
from sim.consensus.words import say_answer, say_event

if TYPE_CHECKING:
    from sim.consensus.world import World

__all__ = ["CLUSTER", "Member"]

CLUSTER = ClusterId("sim")
TICK_US = 50_000


class Member:
    """A process under one name; a wipe gives it a new identity and an empty disk."""

    knows_rest = False
    """Whether a new life knows when the last one ended, as after an orderly stop."""

    def __init__(self, world: "World", name: str, founders: tuple[ReplicaId, ...]) -> None:
        self.world = world
        self.name = name
        self.draw: Random = stream(world.seed, f"disk:{name}")
        clock = stream(world.seed, f"clock:{name}")
        self.rate_ppm = clock.randint(-world.shape.drift_ppm, world.shape.drift_ppm)
        self.clock_start = clock.randint(0, 10**9)
        self.wipes = 0
        self.life = 0
        self.alive = False
        self.paused_until = 0
        self.stalled_until = 0
        self.told_full = False
        self.told_ms = 0
        """What others may count on, as the shell keeps it."""
        self._make_disk(founders)

    def _make_disk(self, founders: tuple[ReplicaId, ...]) -> None:
        self.identity = ReplicaId(f"{self.name}.{self.wipes}")
        self.ended_ms: int | None = None
        self.store = self.world.make_store(self.world.shape.segment_bytes, self.draw)
        hard = HardState(CLUSTER, self.identity)
        if self.identity in founders:
            found_group(self.store, hard, founders)
        else:
            self.store.keep_hard_state(hard)
        self.store.flush(self.store.begin_flush())
        self._boot()

    # ---- life --------------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.life += 1
        self.alive = True
        self.told_full = False
        self.paused_until = 0
        self.inbox: list[Input] = []
        self.told: dict[ReplicaId, int] = {}
        self.flushing = False
        self.flush_wanted = 0
        self.held: deque[tuple[int, tuple[Envelope, ...]]] = deque()
        self.machine = Machine()
        image = self.store.image()
        if image is not None:
            self.load(image)
        self.imaged = self.machine.count
        self.store.on_truncate = lambda at, gone: self.world.observer.on_truncate(self, at, gone)
        seed = self.draw.getrandbits(64)
        hard = HardState(CLUSTER, self.identity)
        options = self.options()
        self.told_ms = max(self.told_ms, options.election_ms)
        self.core = RaftCore(
            self.store, options, hard=hard, seed=seed, now=self.now_ms(),
            silent_since=self.ended_ms if self.knows_rest else None, owed_ms=self.told_ms,
        )  # fmt: skip
        self.world.observer.on_boot(self)
        self._plan_tick()

    def options(self) -> RaftOptions:
        options, patience = self.world.options, self.world.shape.patience
        if patience:
            options = replace(options, election_ms=patience[(int(self.name[1:]) + self.life) % len(patience)])
        return replace(options, first_election_ms=200) if self.knows_rest else options

    def _end(self) -> None:
        self.alive = False
        self.ended_ms = self.now_ms()
        self.life += 1
        if not self.core.ground.quarantined:
            self.told_ms = self.core.ground.options.election_ms

    def stop(self, *, power: bool) -> None:
        """The process is gone; after power loss, so is some of what was not flushed."""
        self._end()
        if power:
            self.store.lose(self.draw)
            self.world.observer.marks.on_power_loss(self)
        self.store = self.store.reopened()
        torn = power and self.store.files is not None and self.store.recovered.doubtful
        self.world.observer.marks.hits["slot-torn"] += torn
        self.world.note(self.name, "power lost" if power else "crashed")

    def stop_damaged(self) -> None:
        """Power loss that also takes flushed things. If that is refused by name, somebody new starts here."""
        self._end()
        self.world.note(self.name, "power lost, disk damaged")
        ghost = copy_of(self.store.disk)
        try:
            self.store.lose_and_damage(self.draw)
        except ReplicaDamaged as error:
            self.world.note(self.name, f"refused: {error}")
            self.world.observer.marks.hits["refused-start"] += 1
            self.wipe()
            self.world.relink(self.name)
            return
        self.store = self.store.reopened()
        self.world.observer.on_damage(self, ghost)

    def start(self) -> None:
        """A new process finds the old disk."""
        if not self.alive:
            self.world.note(self.name, "started")
            self._boot()
            self.world.relink(self.name)

    def wipe(self) -> None:
        """The disk is gone for good; somebody new starts under the old name."""
        self.world.observer.on_wipe(self)
        self.alive = False
        self.wipes += 1
        self.world.note(self.name, "wiped")
        self._make_disk(())

    # ---- time --------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The member's own clock: drifting, started at any number."""
        return self.clock_start + self.world.now_us * (1_000_000 + self.rate_ppm) // 1_000_000_000

    def _plan_tick(self) -> None:
        life = self.life

        def tick() -> None:
            if self.life == life:
                self.feed(Tick())
                self.world.after(TICK_US, tick)

        self.world.after(self.draw.randrange(TICK_US), tick)

    def pause(self, lasts_us: int) -> None:
        """SIGSTOP: everything waits; the clock runs on."""
        until = self.world.now_us + lasts_us
        if self.alive and until > self.paused_until:
            self.paused_until = until
            life = self.life
            self.world.note(self.name, "paused")
            self.world.after(lasts_us, lambda: self._resume(life))

    def _resume(self, life: int) -> None:
        if self.life != life or self.world.now_us < self.paused_until:
            return
        self.paused_until = 0
        self.world.note(self.name, "resumed")
        self.world.observer.marks.on_resume(self, self.world.leader())
        waiting, self.inbox = self.inbox, []
        ticks = [event for event in waiting if isinstance(event, Tick)]
        for event in [event for event in waiting if not isinstance(event, Tick)] + ticks[:1]:
            if self.life == life:
                self.feed(event)

    # ---- the shell ---------------------------------------------------------------------------------------------

    def feed(self, event: Input) -> None:
        """Give the core an input, and do what its output asks."""
        if not self.alive:
            return
        if self.paused_until:
            self.inbox.append(event)
            return
        if type(event) is Received:
            self.world.observer.before_message(self, event.envelope)
        output = self.core.step(event, self.now_ms())
        self.world.observer.after_step(self, output)
        self._carry_out(output)

    def _carry_out(self, output: Output) -> None:
        world = self.world
        for event in output.events:
            world.note(self.name, say_event(event))
        for envelope in output.messages:
            world.send(self, envelope)
        if output.flush is not None:
            self.flush_wanted = max(self.flush_wanted, output.flush)
            if output.held:
                self.held.append((output.flush, output.held))
            if not self.flushing:
                self._begin_flush()
        for answer in output.answers:
            world.note(self.name, say_answer(answer))
            world.answered(self, answer)
        if output.load is not None:
            self.load(output.load)
            self.imaged = self.machine.count
            self.feed(Applied(output.load.point.position))
        if output.apply_to is not None:
            self._plan_apply(output.apply_to)

    def _begin_flush(self) -> None:
        self.flushing = True
        life, token, changes = self.life, self.flush_wanted, self.store.begin_flush()
        latency = 50 + int(self.draw.expovariate(1 / self.world.shape.flush_mean_us))
        at = max(self.world.now_us + latency, self.stalled_until)

        def done() -> None:
            if self.life == life:
                self._end_flush(token, changes)

        self.world.at(at, done)

    def _end_flush(self, token: int, changes: int) -> None:
        if self.paused_until:
            life = self.life
            self.world.at(self.paused_until, lambda: self._end_flush(token, changes) if self.life == life else None)
            return
        try:
            self.store.flush(changes)
        except StoreFull:
            self._await_space(token, changes)
            return
        except StoreStopped:
            self.world.faults.disk_failed(self)
            return
        self.flushing = False
        self._tell_full()
        while self.held and self.held[0][0] <= token:
            for envelope in self.held.popleft()[1]:
                self.world.send(self, envelope)
        self.feed(Flushed(token))
        if self.alive and self.flush_wanted > token and not self.flushing:
            self._begin_flush()

    def _await_space(self, token: int, changes: int) -> None:
        """The same batch again, a little later."""
        life = self.life
        self.world.observer.marks.hits["no-space"] += 1
        self._tell_full()
        self.world.after(100_000, lambda: self._end_flush(token, changes) if self.life == life else None)

    def _tell_full(self) -> None:
        if self.store.full != self.told_full:
            self.told_full = self.store.full
            self.feed(DiskFull(full=self.told_full))

    # ---- the state machine -------------------------------------------------------------------------------------

    def load(self, image: Image) -> None:
        data = self.store.image_chunk(image, 0, image.size) or b""
        self.machine.load(data, image.point.position)
        self.world.observer.on_applied(self)

    def _plan_apply(self, upto: Position) -> None:
        delay = self.world.shape.apply_delay_ms
        if delay == 0:
            self._apply(upto)
            return
        life = self.life
        self.world.after(
            self.draw.randrange(delay) * 1000, lambda: self._apply(upto) if self.life == life and self.alive else None
        )

    def _apply(self, upto: Position) -> None:
        if upto <= self.machine.position:
            return
        for record in self.store.records(self.machine.position, upto):
            self.machine.apply(record)
        self.world.observer.on_applied(self)
        self.feed(Applied(upto))
        if self.machine.count - self.imaged >= self.world.shape.image_every and not self.paused_until:
            self._keep_image()

    def _keep_image(self) -> None:
        self.imaged = self.machine.count
        data = self.machine.save(self.draw.randrange(300))
        image = make_image(self.core, self.machine.position, data, crc32(data))
        self.store.keep_image(image, data)
        self.feed(ImageKept(image))
