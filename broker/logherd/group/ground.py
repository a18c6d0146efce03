"""What both roles of a replica share: its log, the epoch it has promised, what it knows of its group, how far it is."""

from dataclasses import dataclass, field

from logherd.controller.holder import LeaseHolder
from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Health
from logherd.group.options import GroupOptions
from logherd.group.output import Ask, Drained, Event, Outbox, Output, Promise
from logherd.group.seat import Process, Seat, cluster_of, replica_of
from logherd.kit.errors import broken, ensure
from logherd.model.names import Epoch, Position
from logherd.replication.durable import DurableEnd
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import ReplicaLog
from logherd.replication.messages import ClusterId, Envelope, ReplicaId

__all__ = ["Ground", "Standing"]


@dataclass(slots=True)
class _Clock:
    """Milliseconds of a clock that runs on during suspension and never goes back.

    `gap_at`: when a gap was noticed last, so that silence before it is not held against anybody.
    """

    now: int
    gap_at: int


@dataclass(slots=True)
class _Promised:
    """The highest epoch seen, and the token of the flush that makes it durable."""

    epoch: Epoch
    token: int = 0


@dataclass(slots=True)
class _Progress:
    """How far things are: committed, shown to the shell as committed, and the log's end after the latest step."""

    commit: Position
    shown: Position
    end: Position


@dataclass(slots=True)
class _Departure:
    """Whether the process is about to stop, and whether the shell has been told that nobody waits for it."""

    planned: bool = False
    told: bool = False


@dataclass(slots=True)
class Standing:
    """What the controllers have told. Invariant: (epoch, version) of the view never falls while they forget nothing,
    nor does any process."""

    cluster: ClusterId
    me: Process
    """This process; its registration is 0 until the controllers have given it one."""
    identity: ReplicaId
    view: RoleView | None = None
    processes: dict[BrokerId, Registration] = field(default_factory=dict)

    def register(self, registration: Registration) -> None:
        """This process goes by this number from now on."""
        self.me = Process(self.me.broker_id, registration)
        self.identity = replica_of(self.me)

    def learn(self, view: RoleView) -> bool:
        """Take a view unless a later one is known; answers overtake each other."""
        known = self.view
        for member, process in zip(view.members, view.processes, strict=True):
            self.meet(Process(member, process))
        if known is not None and (view.epoch, view.version) < (known.epoch, known.version):
            return False
        self.view = view
        return True

    def forget(self) -> None:
        """They have forgotten themselves what they had told, and give the numbers of processes anew."""
        self.view = None
        self.processes.clear()

    def meet(self, process: Process) -> None:
        """Note a process, if it is the latest of its broker."""
        self.processes[process.broker_id] = max(process.registration, self.latest(process.broker_id))

    def latest(self, broker_id: BrokerId) -> Registration:
        """The latest process of a broker that is known; 0 if none is."""
        return self.processes.get(broker_id, Registration(0))


class Ground:
    """Invariants: (1) the epoch never falls; (2) `commit` never falls and never exceeds the log's end; (3) what is
    shown is committed, and durable here; (4) the log grows only by shipping, or by a leader's services.
    """

    def __init__(
        self, seat: Seat, options: GroupOptions, log: ReplicaLog, *, epoch: Epoch, commit: Position, now: int
    ) -> None:
        ensure(log.epochs.base.position <= commit <= log.end, "ground 2: what is committed is here", commit, log.end)
        self.seat = seat
        self.options = options
        self.log = log
        self.out = Outbox()
        self.holder = LeaseHolder()
        self.durable = DurableEnd(log.end)
        me = Process(seat.broker_id, Registration(0))
        self.standing = Standing(cluster_of(seat.group), me, replica_of(me))
        self.health = Health()
        self.departure = _Departure()
        self.clock = _Clock(now, now)
        self._promise = _Promised(epoch)
        self._progress = _Progress(commit, commit, log.end)

    def retime(self, options: GroupOptions) -> None:
        """Other times from now on."""
        self.options = options

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def me(self) -> Process:
        """This process."""
        return self.standing.me

    @property
    def epoch(self) -> Epoch:
        """The highest epoch seen."""
        return self._promise.epoch

    @property
    def now(self) -> int:
        """The time of this step."""
        return self.clock.now

    @property
    def stalled(self) -> bool:
        """Whether a flush has been waiting for too long. A sleep of this process is not held against its disk."""
        since = self.durable.waiting_since
        return since is not None and self.now - max(since, self.clock.gap_at) >= self.options.stall_ms

    @property
    def fit(self) -> bool:
        """Whether the store works (R21)."""
        return self.health.healthy and not self.stalled

    @property
    def may_begin(self) -> bool:
        """Whether a leadership can begin here: the store works, and has room for its barrier."""
        return self.fit and self.health.barrier

    def known_point(self, position: Position) -> Point:
        """A point to tell the controllers: below what is kept here, nothing is known of it."""
        return self.log.epochs.point_at(position) if position >= self.log.epochs.base.position else ORIGIN

    @property
    def commit(self) -> Position:
        """How far the log is known to be committed."""
        return self._progress.commit

    @property
    def told(self) -> Position:
        """How far the shell has been told, in earlier steps, that the log is committed."""
        return self._progress.shown

    @property
    def shown(self) -> Position:
        """How far the log is committed, and durable here; nothing new while a log that begins anew is not flushed."""
        progress, durable = self._progress, self.durable.position
        position = progress.commit if progress.commit < durable else durable
        if position <= progress.shown:
            return progress.shown
        return position if position >= self.log.epochs.base.position else progress.shown

    # ---- what it does --------------------------------------------------------------------------------------------

    def begin(self, now: int) -> bool:
        """Note the time, and whether this process has slept; True if the log has another end than the latest step left
        it with."""
        clock = self.clock
        if now < clock.now:
            broken("the clock never goes back", now, clock.now)
        if now - clock.now >= min(self.options.lag_ms, self.options.stall_ms) // 2:
            clock.gap_at = now
        clock.now = now
        return self.log.end != self._progress.end

    def promise(self, epoch: Epoch) -> None:
        """Refuse all earlier epochs from now on; what is answered in this one waits until that is durable (R4)."""
        ensure(epoch > self.epoch, "ground 1: epochs rise", epoch, self.epoch)
        self._promise = _Promised(epoch, self.wrote())
        self.out.keep = Promise(epoch)

    def wrote(self) -> int:
        """Note a change of the log or of the epoch; gives the token that covers everything so far."""
        self.out.flush = self.durable.wrote(self.log.end, self.clock.now)
        return self.out.flush

    def commit_to(self, position: Position) -> bool:
        """Take a commit position; True if it is news."""
        if position <= self._progress.commit:
            return False
        if position > self.log.end:
            broken("ground 2: what is committed is here", position, self.log.end)
        self._progress.commit = position
        return True

    def report(self, event: Event) -> None:
        """Tell the shell what has changed."""
        self.out.events.append(event)

    def be_drained(self) -> None:
        """Nobody waits for this process any more; said once, and only to who asked."""
        if self.departure.planned and not self.departure.told:
            self.departure.told = True
            self.report(Drained())

    def ask(self, question: Ask) -> None:
        """Ask the controllers."""
        self.out.asks.append(question)

    def send(self, to: ReplicaId, body: object) -> None:
        """A message that depends on nothing that is not durable yet."""
        self.out.messages.append(self._envelope(to, body))

    def confirm(self, to: ReplicaId, body: object) -> None:
        """An answer given in this epoch: the epoch must be durable first."""
        if self.durable.flushed_token >= self._promise.token:
            self.send(to, body)
        else:
            self.out.flush = self.durable.token
            self.out.held.append(self._envelope(to, body))

    def _envelope(self, to: ReplicaId, body: object) -> Envelope:
        standing = self.standing
        return Envelope(standing.cluster, standing.identity, to, self._promise.epoch, body)

    def finish(self) -> Output:
        """The output of the step."""
        progress, commit = self._progress, None
        if progress.commit > progress.shown and (shown := self.shown) > progress.shown:
            progress.shown = commit = shown
        progress.end = self.log.end
        return self.out.drain(commit)
