"""What every leadership does, whoever gave it: it ships its log, commits what counts as safe, and may serve.

One object holds everything that ends with the leadership, so that nothing of it can survive it. Whoever is told why it
ends (`str`) carries that out: the core.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from logherd.controller.values import BrokerId
from logherd.group.attendance import Attendance, Follower
from logherd.group.ground import Ground
from logherd.group.messages import Presence, Summons
from logherd.group.output import Closed, Fenced, Leading, Serving, StorageStalled, Strange
from logherd.group.seat import Process, process_of, replica_of
from logherd.kit.errors import broken
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.messages import Envelope, ReadAsk, ReadGrant, ReplicaId, ShippingAnswer
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import (
    Committed,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    ShipInput,
    ShipperTick,
)

__all__ = ["Leadership"]


class Leadership(ABC):
    """Invariants: (1) the first record of the epoch is its barrier; (2) `commit` moves only to a record of this epoch,
    the barrier first; (3) it serves only while `leased` and after the barrier is committed.
    """

    def __init__(self, ground: Ground, epoch: Epoch) -> None:
        self._ground = ground
        self.epoch = epoch
        self._ship = Shipper(ground.log, ground.options.ship, commit=ground.commit, now=ground.now)
        self.attendance = Attendance(ground, self._ship)
        self._began = ground.log.end
        self._barrier: Position | None = None
        self._serving = False
        self._summoned_at: int | None = None

    def retime(self) -> None:
        """The ground's options have changed."""
        self._ship.retime(self._ground.options.ship)

    # ---- what differs ----------------------------------------------------------------------------------------------

    _unleased = "the lease is over"
    """Why service has ended, where `leased` says so."""

    @abstractmethod
    def leased(self, now: int) -> bool:
        """Whether nobody else can lead at this moment."""

    @property
    @abstractmethod
    def draining(self) -> bool:
        """Whether no more writes are taken."""

    @property
    @abstractmethod
    def enough(self) -> bool:
        """Whether as many as must be take part."""

    @abstractmethod
    def _committable(self) -> Position:
        """How far the log is committed; not less than before."""

    @abstractmethod
    def _wanted(self) -> Iterable[BrokerId]:
        """Who should be here."""

    @abstractmethod
    def _contradict(self, sender: ReplicaId, committed: Point) -> None:
        """A follower knows something to be committed that is not in this log."""

    @property
    def _begins_with(self) -> tuple[BrokerId, ...]:
        """The in-sync set, where one is kept."""
        return ()

    # ---- may it serve --------------------------------------------------------------------------------------------

    def serving(self, now: int) -> bool:
        """R1: whether it may answer as the leader at this moment."""
        return self._serving and self.leased(now)

    def closed(self, now: int) -> Closed | None:
        """Why a client's write is not taken at this moment."""
        if not self.serving(now):
            return Closed.NOT_SERVING
        if self.draining:
            return Closed.DRAINING
        if not self._ground.health.space:
            return Closed.NO_SPACE
        return None if self.enough else Closed.TOO_FEW

    def follower_state(self, broker_id: BrokerId) -> tuple[Follower, Position] | None:
        """A follower and how far it has flushed; for status and tests."""
        each = self.attendance.of(broker_id)
        return (each, self._ship.match(each.replica)) if each is not None else None

    # ---- beginning, time, disk -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Have the barrier appended, and find out where the others are."""
        self._ground.report(Leading(self.epoch, self._began, in_sync=self._begins_with))
        self._summon()

    def look(self, *, grown: bool) -> None:
        """Done before every input: a lease that is over ends all duties first, and the log may have grown."""
        ground = self._ground
        leased = self.leased(ground.clock.now)
        if not (leased and self._serving):  # else nothing changes: what is committed stays so
            self._mind_service(leased=leased)
        if grown:
            self._take_growth()

    def _take_growth(self) -> None:
        """The services have appended."""
        ground = self._ground
        if ground.log.epochs.last_epoch != self.epoch:
            broken("leader 1: the barrier comes first", ground.log.epochs)
        if self._barrier is None:
            self._barrier = ground.log.end
        ground.wrote()
        self._shipped(Grown())

    def on_tick(self) -> str | None:
        """Look after the disk and the others."""
        ground = self._ground
        if ground.stalled:
            ground.report(StorageStalled(ground.durable.waiting_since or ground.now))
        if not ground.fit:
            return "the store does not work"
        if self._barrier is None:
            return "its barrier was not appended"  # It is appended as soon as the shell hears of the leadership.
        self._shipped(ShipperTick())
        if self._summoned_at is None or ground.now - self._summoned_at >= ground.options.retry_ms:
            self._summon()
        return None

    def _summon(self) -> None:
        """Ask those that have not presented themselves; they may not have heard who leads."""
        ground = self._ground
        self._summoned_at = ground.now
        for member in self._wanted():
            process = Process(member, ground.standing.latest(member))
            known = self.attendance.of(member)
            if member != ground.me.broker_id and (known is None or known.process != process):
                ground.send(replica_of(process), Summons())

    # ---- the others ----------------------------------------------------------------------------------------------

    def on_link(self, peer: ReplicaId) -> None:
        """A new connection: what was under way is lost."""
        if self.attendance.named(peer) is not None:
            self._shipped(Connected(peer))
        else:
            self._ground.send(peer, Summons())

    def on_presence(self, sender: ReplicaId, presence: Presence) -> None:
        """A process says that it follows, of whatever epoch it is: the answer tells it the present one."""
        ground, process = self._ground, process_of(sender)
        if process is None or process.broker_id == ground.me.broker_id:
            ground.report(Strange(sender, "presents itself under this broker's id"))
            return
        if process.registration < ground.standing.latest(process.broker_id):
            ground.report(Strange(sender, "a former process"))
            return
        if ground.log.epochs.refutes(presence.committed, ground.log.end):
            self._contradict(sender, presence.committed)
            return
        if self.attendance.welcome(process):
            self._shipped(FollowersSet(self.attendance.replicas))
        elif not presence.leaving:
            self._shipped(Connected(sender))
        follower = self.attendance.of(process.broker_id)
        if follower is not None:
            follower.leaving_at = ground.now if presence.leaving else None

    def on_answer(self, envelope: Envelope, body: ShippingAnswer) -> None:
        """An answer to shipping, in this epoch; of a follower's latest process only."""
        follower = self.attendance.named(envelope.sender)
        if follower is not None and self._shipped(FromFollower(envelope.sender, body)):
            self.attendance.heard(follower)

    def on_read_ask(self, sender: ReplicaId, ask: ReadAsk) -> None:
        """A follower wants to answer reads: what this leader shows is all that it has told anybody. Before its barrier
        is shown a former one may have told more."""
        ground, shown = self._ground, min(self._ground.commit, self._ground.log.shown)
        may = self.serving(ground.now) and self._barrier is not None and shown >= self._barrier
        ground.send(sender, ReadGrant(ask.number, shown if may else None))

    # ---- what follows --------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Commit what may be; R8: nothing of an earlier epoch but together with this one's barrier."""
        ground = self._ground
        if self._barrier is None:
            return
        reached = self._committable()
        if reached >= self._barrier and ground.commit_to(reached):
            self._shipped(Committed(reached))

    def _mind_service(self, *, leased: bool) -> None:
        """Say at once when service begins or ends."""
        ground = self._ground
        may = leased and self._barrier is not None and ground.commit >= self._barrier
        if may and not self._serving:
            ground.report(Serving(self.epoch))
        elif self._serving and not may:
            ground.report(Fenced(self.epoch, self._unleased))
        self._serving = may

    def close(self, cause: str) -> None:
        """The leadership ends."""
        self._serving = False
        self._ground.report(Fenced(self.epoch, cause))

    def _shipped(self, event: ShipInput) -> bool:
        """Let shipping take an input and send what it wants; True if somebody's answer was news."""
        ground = self._ground
        out = self._ship.step(event, ground.clock.now)
        for peer, body in out.messages:
            ground.send(peer, body)
        for news in out.events:
            ground.report(news)
        return out.moved
