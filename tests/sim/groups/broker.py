"""One simulated broker process: a GroupCore, and a shell that does its duties in their order."""

from collections import deque
from typing import TYPE_CHECKING

from logherd.controller.admission import admit_register, admit_sync_set
from logherd.controller.commands import AlterSyncSet, Register, Release
from logherd.controller.office import Office
from logherd.controller.reports import Granted, Report, Withheld
from logherd.controller.values import GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.group.core import GroupCore
from logherd.group.inputs import (
    Appended,
    Drain,
    Flushed,
    Health,
    Heard,
    Input,
    Linked,
    ReadWanted,
    Received,
    Registered,
    SetAnswered,
    Tick,
)
from logherd.group.output import Ask, Event, Fenced, Leading, MustRebuild, Output
from logherd.group.seat import Seat
from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.replication.messages import Envelope
from sim.groups.checks import check_commit, check_cut, check_fenced, check_read, check_sent
from sim.groups.volume import GroupVolume
from sim.leases.broker import Back, Broker

if TYPE_CHECKING:
    from sim.groups.world import GroupWorld
    from sim.leases.controller import Controller

__all__ = ["GroupBroker"]

TICK_US = 20_000


class GroupBroker(Broker):
    """A process under an id, with its volume; what `sim.leases` models of a broker is real here."""

    world: "GroupWorld"
    volume: GroupVolume  # type: ignore[assignment]
    core: GroupCore
    retimes = True
    """Whether some settings may change while it runs."""

    def __init__(self, world: "GroupWorld", key: GroupKey, name: str, number: int, *, learner: bool = False) -> None:
        self.stuck_until = self.cramped_until = 0
        self.cramp_known = False
        self.settings = world.settings
        super().__init__(world, key, name, number, learner=learner)

    def new_volume(self) -> None:
        """An empty disk."""
        self.volumes += 1
        self.volume = GroupVolume(f"{self.name}.s{self.volumes}", self.world.bases)
        self.trusted = True

    def started(self) -> None:
        """A new incarnation, fenced."""
        volume = self.volume
        self.incarnation = f"{self.name}.{self.life}.{self.volumes}"
        self.registration = Registration(0)
        self.granted = self.sick = self.room_lost = False
        self._health = Health()
        self._target = self.draw.choice(list(self.world.controllers))
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque()
        self._flushing, self._wanted = False, 0
        self.proposals: list[AlterSyncSet] = []
        self._replies: deque[Position] = deque()
        founders = self.world.shape.brokers
        seat = Seat(
            group=self.key, broker_id=self.id, store_id=volume.store_id, incarnation=self.incarnation,
            address=self.address, learner=self.learner, trusted=self.trusted,
            rules=Rules(replicas=founders, min_in_sync=min(self.world.shape.min_in_sync, founders)),
        )  # fmt: skip
        volume.store.before_cut = lambda count: check_cut(self, count)
        self.core = GroupCore(
            seat, self.settings.controlled, volume.store, epoch=volume.kept.epoch,
            commit=volume.position_of(volume.committed), now=self.now_ms(),
        )  # fmt: skip
        self.holder = self.core.ground.holder
        self.soon(self.draw.randrange(TICK_US), self._tick)

    def ended(self) -> None:
        """What was not flushed may be gone, and what was committed last may not have been noted."""
        super().ended()
        self.volume.lose(self.draw)
        volume = self.volume
        volume.committed -= self.draw.randint(0, min(3, volume.committed - volume.store.dropped))

    def resign(self, epoch: Epoch) -> None:
        """Its store does not work for a moment."""
        self._health = Health(healthy=False)
        self.feed(self._health)

    def retime(self) -> None:
        """Go by the present settings, as far as a process does that without a restart."""
        self.core.retime(self.settings.controlled)
        self.world.note_retimed(self)

    def drain(self) -> None:
        """An orderly stop begins."""
        self.feed(Drain())

    def serves(self) -> Epoch | None:
        """The epoch in which this process would answer clients now."""
        return self.core.serving(self.now_ms()) if self.alive else None

    # ---- the shell -----------------------------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A message of another replica has arrived."""
        if self.alive:
            self.soon(0, lambda: self.feed(Received(envelope)))

    def feed(self, event: Input) -> None:
        """One step, and what it asks for, in the order of `group.output`."""
        output = self.core.step(event, self.now_ms())
        follow_ups = [following for news in output.events for following in self._note(news)]
        self._send(output.messages)
        self._write(output)
        if output.commit is not None:
            self.judge_commit(output.commit)
            self._release_replies(output.commit)
        for ask in output.asks:
            self._ask(ask)
        for each in follow_ups:
            if self.alive:
                self.feed(each)

    def judge_commit(self, position: Position) -> None:
        """The core says that everything up to here is committed."""
        check_commit(self, position)

    def _note(self, news: Event) -> list[Input]:
        if isinstance(news, Leading):
            self.world.observer.on_begin(self, news.epoch)
            self._replies.clear()
            if self._cramped:
                self.cramp_known = True
                self.world.note_cramped(self, news.epoch)
            else:
                self._append(news.epoch)
            return [Appended()]
        if isinstance(news, MustRebuild):
            self.world.note(self.name, f"must be rebuilt: {news.committed} is not at {news.leader}")
            self.soon(100_000, self._rebuild)
        if isinstance(news, Fenced):
            check_fenced(self, news, len(self._replies))
            self._replies.clear()
        self.world.note_event(self, news)
        return []

    @property
    def _cramped(self) -> bool:
        """Whether no barrier can be appended."""
        return self.world.now_us < self.cramped_until

    def _rebuild(self) -> None:
        self.crash(500_000)
        self.new_volume()

    def _append(self, epoch: Epoch) -> Position:
        entry = self.world.observer.new_entry(epoch)
        return self.volume.store.append(Kind.DATA, epoch, str(entry[1]).encode())

    def _send(self, envelopes: tuple[Envelope, ...]) -> None:
        for envelope in envelopes:
            check_sent(self, envelope)
            self.world.carry(self, envelope)

    def _write(self, output: Output) -> None:
        if output.keep is not None:
            self.volume.store.keep(output.keep)
        if output.flush is not None:
            self._wanted = max(self._wanted, output.flush)
            self._held.append((output.flush, output.held))
            self._begin_flush()

    def _begin_flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        token, changes = self._wanted, self.volume.store.begin_flush()
        wait = 100 + int(self.draw.expovariate(1 / self.world.shape.flush_us))
        wait = max(wait, self.stuck_until - self.world.now_us)
        self.soon(wait, lambda: self._end_flush(token, changes))

    def _end_flush(self, token: int, changes: int) -> None:
        self.volume.store.flush(changes)
        self._flushing = False
        while self._held and self._held[0][0] <= token:
            self._send(self._held.popleft()[1])
        self.feed(Flushed(token))
        if self._wanted > token:
            self._begin_flush()

    def _release_replies(self, commit: Position) -> None:
        """R1: clients hear of their records while the lease runs, at this very moment."""
        while self._replies and self._replies[0] <= commit and (epoch := self.serves()) is not None:
            self.world.on_answered(self, epoch)
            self.world.note_told(self, self.volume.store.count_at(self._replies.popleft()))

    def _tick(self) -> None:
        lost = self.full and self.room_lost
        whole = not lost and self.id % 2 == 1  # the reserve, which a further segment would take of
        health = Health(
            space=not self.full or whole, messages=not self.full, room=not lost, healthy=not self.sick,
            barrier=not (self._cramped and self.cramp_known),
        )  # fmt: skip
        if health != self._health:
            self._health = health
            self.feed(health)
        if self.draw.random() < 0.005:
            self._link()
        self.feed(Tick())
        self._read()
        epoch = self.serves()
        if epoch is not None and self.core.closed(self.now_ms()) is None:
            count = self.draw.choice((0, 0, 1, 2))
            self._replies += [self._append(epoch) for _ in range(count)]
            if count:
                self.feed(Appended())
        self.soon(TICK_US, self._tick)

    def _read(self) -> None:
        """Clients ask this process for records, as they ask any broker that they know."""
        if self.core.leads is not None or self.draw.random() < 0.5:
            return
        position = self.core.readable(self.now_ms())
        if position is not None:
            check_read(self, position)
        self.feed(ReadWanted())

    def _link(self) -> None:
        """A connection to somebody was made anew."""
        others = [other for other in self.world.group(self.key) if other is not self and other.alive]
        if others:
            other = self.draw.choice(others)
            self.feed(Linked(other.core.identity))  # type: ignore[attr-defined]

    # ---- talking to controllers --------------------------------------------------------------------------------

    def _ask(self, ask: Ask) -> None:
        match ask:
            case Report():
                self._report_now(ask)
            case Register():
                self._register_now(ask)
            case AlterSyncSet():
                self.proposals.append(ask)
                self.alter(ask)
            case Release():
                self.world.observer.on_resigned(self, self.core.ground.holder.resigned)
                self.submit(ask)

    def _report_now(self, report: Report) -> None:
        sent, who = self.now_ms(), (self.name, self.life)

        def work(at: "Controller", office: Office, back: Back) -> None:
            at.hear_beat(report, who, report.number, back)

        def done(answer: object) -> None:
            if isinstance(answer, Granted):
                self.granted = True
            if isinstance(answer, (Granted, Withheld)):
                self.feed(Heard(answer, sent, report.number))

        self.ask(work, done)

    def _register_now(self, wish: Register) -> None:
        def work(at: "Controller", office: Office, back: Back) -> None:
            admitted = admit_register(office, wish, at.now_ms())
            if isinstance(admitted, Refusal):
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        def done(answer: object) -> None:
            if isinstance(answer, Verdict) and answer.refusal is None and answer.group is not None:
                replica = answer.group.replica(self.id)
                if replica is not None and replica.incarnation == self.incarnation:
                    self.registration = replica.registration
                    self.trusted = True
                    self.feed(Registered(replica.registration))

        self.ask(work, done)

    def alter(self, command: AlterSyncSet) -> None:
        """Send a proposal, perhaps not for the first time."""

        def work(at: "Controller", office: Office, back: Back) -> None:
            admitted = admit_sync_set(office, command, at.now_ms())
            if isinstance(admitted, Refusal):
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        def done(answer: object) -> None:
            if isinstance(answer, Verdict) and answer.refusal is None and answer.group is not None:
                sync = answer.group.sync
                self.feed(SetAnswered(command.request, sync.members, sync.version))

        self.ask(work, done)
