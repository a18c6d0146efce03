"""The follower: it presents itself to the leader, takes what is shipped, and says how far it is flushed."""

from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId
from logherd.group.ground import Ground
from logherd.group.inputs import ReadWanted, Unlinked
from logherd.group.messages import Contradicted, Presence
from logherd.group.output import Cut, Following, Installed, MustRebuild
from logherd.group.reading import Reading
from logherd.group.seat import Process, process_of, replica_of
from logherd.kit.errors import broken
from logherd.replication.log import Image, Span
from logherd.replication.messages import Append, CopyChunk, Envelope, Heartbeat, ReplicaId, ShippingRequest
from logherd.replication.receiver import Flushed, FromLeader, ReceiveOutput, Receiver

__all__ = ["Follows"]

_FLUSHED = Flushed()


class Follows:
    """Follows the leader of one epoch, once it is known; a later epoch begins with another object.

    Invariant: what is committed here is never cut. If the leader lacks it, an operator has accepted its loss, and this
    replica does not follow with its present log.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._leader: ReplicaId | None = None
        self._shown: Following | None = None
        self._receiver: Receiver | None = None
        self._greeted_at: int | None = None
        self._heard_at: int | None = None
        self._contradicted = False
        self._left = False
        self.reading = Reading(ground)

    @property
    def leader(self) -> ReplicaId | None:
        """Whom it follows."""
        return self._leader

    # ---- who leads -----------------------------------------------------------------------------------------------

    def learn(self, view: RoleView) -> None:
        """The controllers' view, of this epoch."""
        ground = self._ground
        me = ground.me.broker_id
        if view.master is None or view.master == me:
            self._show(None, "")
        else:
            self._follow(replica_of(Process(view.master, view.master_registration)))
            self._show(view.master, view.master_address)
        if me not in view.members:
            ground.be_drained()

    def _follow(self, leader: ReplicaId) -> None:
        if self._leader is None:
            self._leader = leader
            self._greet()
        elif self._leader != leader:
            broken("one leader in an epoch", self._leader, leader)

    def _show(self, leader: BrokerId | None, address: str) -> None:
        following = Following(self._ground.epoch, leader, address)
        if following != self._shown:
            self._shown = following
            self._ground.report(following)

    @property
    def _leaving(self) -> bool:
        """Whether the set should do without this replica: it is about to stop, or its store does not work."""
        return self._ground.departure.planned or not self._ground.fit

    @property
    def forsaken(self) -> bool:
        """Whether nobody is heard that leads, or it is not known where clients reach the leader."""
        ground, shown = self._ground, self._shown
        if shown is not None and shown.leader is not None and not shown.address:
            return True
        silence = ground.now - self._heard_at if self._heard_at is not None else None
        return silence is None or silence >= 2 * ground.options.ship.heartbeat_ms

    # ---- time ----------------------------------------------------------------------------------------------------

    def on_tick(self) -> None:
        """Greet the leader again while it is silent, and as long as it should not count on this replica."""
        ground, wait = self._ground, self._ground.options.retry_ms
        silent = self._heard_at is None or ground.now - self._heard_at >= 2 * wait
        if self._leaving != self._left:
            self._greet()
        if (silent or self._leaving) and (self._greeted_at is None or ground.now - self._greeted_at >= wait):
            self._greet()

    def stop(self) -> None:
        """The process is about to stop: the set should not wait for it."""
        view = self._ground.standing.view
        if view is None or self._ground.me.broker_id not in view.members:
            self._ground.be_drained()
        else:
            self._greet()

    def on_link(self, peer: ReplicaId) -> None:
        """A new connection: what the leader had sent is lost."""
        if peer == self._leader:
            self._greet()

    def on_shell(self, event: Unlinked | ReadWanted) -> None:
        """A connection broke, or somebody reads here."""
        if isinstance(event, ReadWanted):
            self.reading.want(self._leader)
        elif event.peer == self._leader:
            self._heard_at = None

    def _greet(self) -> None:
        """Say where this replica is."""
        ground, leader = self._ground, self._greeted
        if leader is None or self._contradicted:
            return
        self._greeted_at, self._left = ground.now, self._leaving
        committed = ground.log.epochs.point_at(ground.commit)
        ground.send(leader, Presence(committed, leaving=self._left))

    @property
    def _greeted(self) -> ReplicaId | None:
        """To whom this replica presents itself."""
        return self._leader

    # ---- what the leader says --------------------------------------------------------------------------------------

    def on_summons(self, leader: ReplicaId) -> None:
        """Somebody leads this epoch."""
        process = process_of(leader)
        known = self._leader
        self._follow(leader)
        if process is not None and self._shown is None:
            self._show(process.broker_id, "")
        if known is not None:
            self._greet()

    def on_contradicted(self, leader: ReplicaId, contradicted: Contradicted) -> None:
        """The leader lacks what is committed here."""
        if not self._contradicted:
            self._contradicted = True
            self.reading.end()
            self._follow(leader)
            self._ground.report(MustRebuild(contradicted.committed, leader))

    def on_leader(self, envelope: Envelope, body: ShippingRequest) -> None:
        """A request of the leader of this epoch."""
        ground = self._ground
        if self._leader is None:
            self.on_summons(envelope.sender)
        self._follow(envelope.sender)
        now = ground.clock.now
        if self._heard_at is not None and now - self._heard_at >= 2 * ground.options.retry_ms:
            self._greet()  # What the leader sent meanwhile is lost, and it may wait long before it asks again.
        self._heard_at = now
        if self._contradicted:
            return
        if self._contradicts(body):
            self.on_contradicted(envelope.sender, Contradicted(ground.log.epochs.point_at(ground.commit)))
            return
        if not isinstance(body, Heartbeat) and not ground.health.room:
            return
        busy = isinstance(body, Heartbeat) and (not ground.health.room or ground.stalled)
        self._carry_out(self._receiving().step(FromLeader(body, busy), now))

    def on_flushed(self) -> None:
        """Acknowledge what the flush covered, in one message."""
        if self._receiver is not None:
            self._carry_out(self._receiver.step(_FLUSHED, self._ground.clock.now))

    def _receiving(self) -> Receiver:
        ground = self._ground
        if self._receiver is None:
            self._receiver = Receiver(ground.log, ground.durable, ground.commit)
        return self._receiver

    def _contradicts(self, body: ShippingRequest) -> bool:
        """Whether the leader says that something else was written where this log is committed."""
        match body:
            case Append():
                return self._differs(body.span)
            case CopyChunk():
                return self._is_lost_by(body.image)
            case _:
                return False

    def _differs(self, span: Span) -> bool:
        ground = self._ground
        commit = ground.commit
        if span.previous.position > commit:
            return False
        history, end = ground.log.epochs, ground.log.end
        if history.refutes(span.previous, end):
            return True
        if span.end <= commit and history.refutes(span.history.point_at(span.end), end):
            return True
        start, stop = max(span.previous.position, history.base.position), min(span.end, commit)
        return start < stop and history.runs_between(start, stop) != span.history.runs_between(start, stop)

    def _is_lost_by(self, image: Image) -> bool:
        """Whether a log that begins with the image surely lacks what is committed here."""
        ground, at = self._ground, image.point
        if at.position <= ground.commit:
            return ground.log.epochs.refutes(at, ground.log.end)
        return at.epoch < ground.log.epochs.epoch_at(ground.commit)

    def _carry_out(self, done: ReceiveOutput) -> None:
        ground = self._ground
        if done.cut is not None:
            ground.report(Cut(done.cut))
        if done.installed is not None:
            ground.report(Installed(done.installed))
        if done.wrote:
            ground.wrote()
        ground.commit_to(done.commit)
        for answer in done.answers:
            if self._leader is not None:
                ground.confirm(self._leader, answer)
