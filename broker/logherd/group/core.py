"""One replica of a broker group in controller mode: `step(input, now) -> Output`.

`step` settles the lease and the epoch first, then the role's handler runs; roles change here and nowhere else.

    follows --granted a lease in a later epoch--> leads
       ^------ a later epoch, resigned, registered anew, store broken ---'

Source: controller-ha rules R1-R11, R13-R16; design H4-H6, H10, H14.
"""

from logherd.controller.reports import Granted, RoleView
from logherd.controller.values import Registration
from logherd.group.follower import Follows
from logherd.group.ground import Ground
from logherd.group.inputs import (
    Appended,
    Drain,
    Flushed,
    Health,
    Heard,
    Input,
    Linked,
    Noticed,
    ReadWanted,
    Received,
    Registered,
    SetAnswered,
    Tick,
    Unlinked,
)
from logherd.group.leader import Leader
from logherd.group.liaison import Liaison
from logherd.group.machine import Grounded
from logherd.group.messages import Contradicted, Presence, Summons
from logherd.group.options import GroupOptions
from logherd.group.output import Closed, Output, Strange
from logherd.group.seat import Seat
from logherd.group.solitude import Solitude
from logherd.kit.errors import broken, ensure
from logherd.model.names import Epoch, Position
from logherd.replication.log import ReplicaLog
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    Stale,
)

__all__ = ["GroupCore"]

_FROM_LEADER = (Append, Heartbeat, CopyChunk, Summons, Contradicted)
_LEAP = 1 << 20
"""No group elects so often between one thing that a replica hears and the next, and the controllers tell their epoch
all the same. One is kept for good, and with one that is too high they register nobody."""


class GroupCore(Grounded):
    """`now` is milliseconds of a monotonic clock that counts suspension. All messages that have arrived are fed before
    a tick. What is in the log when the core is made must be durable, and so must `epoch`, the highest one seen.
    `InvariantError` and `SpanDamagedError` mean: stop the process.
    """

    def __init__(
        self, seat: Seat, options: GroupOptions, log: ReplicaLog, *, epoch: Epoch, commit: Position, now: int
    ) -> None:
        """Start fenced (R3). `commit`: up to where the log is known to be committed, clamped to its end (#6703)."""
        self._ground = Ground(seat, options, log, epoch=max(epoch, log.epochs.last_epoch), commit=commit, now=now)
        self._liaison = Liaison(self._ground)
        self._solitude = Solitude(options)
        self._role: Follows | Leader = Follows(self._ground)
        """On each message's way it is asked whether it is `Follows`: a check against an abstract class takes long."""

    # ---- what the shell asks ---------------------------------------------------------------------------------------

    @property
    def leads(self) -> Epoch | None:
        """The epoch of this replica's own leadership, which may be fenced."""
        return self._role.epoch if not isinstance(self._role, Follows) else None

    @property
    def leading(self) -> Leader | None:
        """The leadership, while there is one; it may be fenced."""
        return self._role if not isinstance(self._role, Follows) else None

    @property
    def following(self) -> Follows | None:
        """The other role."""
        return self._role if isinstance(self._role, Follows) else None

    def serving(self, now: int) -> Epoch | None:
        """R1: the epoch in which this replica may answer as the leader at this moment. To be asked when a request is
        taken, and again when its answer leaves."""
        role = self._role
        return role.epoch if not isinstance(role, Follows) and role.serving(now) else None

    def closed(self, now: int) -> Closed | None:
        """Why a client's write may not be appended at this moment; None if it may."""
        return self._role.closed(now) if not isinstance(self._role, Follows) else Closed.NOT_SERVING

    def readable(self, now: int) -> Position | None:
        """Up to where this follower may answer reads itself at this moment; None: the leader must."""
        return self._role.reading.readable(now) if isinstance(self._role, Follows) else None

    # ---- what an operator changes while it runs ----------------------------------------------------------------------

    def retime(self, options: GroupOptions) -> None:
        """Go by other times from now on; what has begun to count goes on counting."""
        self._ground.retime(options)
        self._solitude.retime(options)
        if isinstance(self._role, Leader):
            self._role.retime()

    # ---- the one entry ---------------------------------------------------------------------------------------------

    def step(self, event: Input, now: int) -> Output:
        """Take one input; see output.py for what the caller owes.

        Raises: what the log raises. A log that has to begin again (R16) does so under another incarnation: what it
        acknowledged before is gone, and only a registration tells the controllers (R11).
        """
        grown = self._ground.begin(now)
        if not isinstance(self._role, Follows):
            self._role.look(grown=grown)
        elif grown:
            broken("ground 4: only a leader's services append", event)
        self._take(event)
        # What was only appended is flushed nowhere: nothing follows from it.
        if not isinstance(self._role, Follows) and not isinstance(event, Appended):
            self._advance()
        return self._ground.finish()

    def _take(self, event: Input) -> None:
        match event:
            case Received():
                self._on_envelope(event.envelope)
            case Flushed():
                self._ground.durable.flushed(event.token)
                if isinstance(self._role, Follows):
                    self._role.on_flushed()
            case Tick():
                self._on_tick()
            case Appended():
                pass  # look() has seen it.
            case Linked():
                self._role.on_link(event.peer)
            case Unlinked() | ReadWanted():
                if isinstance(self._role, Follows):
                    self._role.on_shell(event)
            case Health() | Drain():
                self._on_shell(event)
            case Heard() | SetAnswered() | Registered() | Noticed():
                self._on_controllers(event)
            case _:
                broken("an input of another mode", event)

    def _advance(self) -> None:
        if isinstance(self._role, Leader) and (cause := self._role.advance()) is not None:
            self._resign(cause)

    def _on_tick(self) -> None:
        role = self._role
        urgent = role.forsaken if isinstance(role, Follows) else self._liaison.missed
        self._liaison.on_tick(urgent=self._ground.departure.planned or urgent)
        if isinstance(self._role, Follows):
            self._role.on_tick()
        elif (cause := self._role.on_tick()) is not None:
            self._resign(cause)

    # ---- the shell -------------------------------------------------------------------------------------------------

    def _on_shell(self, event: Health | Drain) -> None:
        if isinstance(event, Health):
            self._on_health(event)
            return
        self._ground.departure.planned = True
        if isinstance(self._role, Leader):
            self._role.handover.stop()
        else:
            self._role.stop()

    def _on_health(self, health: Health) -> None:
        """R21, H4: a broken store lets go at once, a full one does not."""
        changed, self._ground.health = health != self._ground.health, health
        if isinstance(self._role, Leader) and not health.healthy:
            self._resign("the store does not work")
        elif changed and self._liaison.registered:
            self._liaison.speak()

    # ---- the controllers -------------------------------------------------------------------------------------------

    def _on_controllers(self, event: Heard | SetAnswered | Registered | Noticed) -> None:
        match event:
            case Noticed():
                self._liaison.hurry()
            case Heard():
                self._on_heard(event)
            case SetAnswered():
                if isinstance(self._role, Leader):
                    self._role.on_accepted(event.request, event.members, event.version)
                    self._liaison.note()
            case Registered():
                self._on_registered(event.registration)

    def _on_registered(self, registration: Registration) -> None:
        """Another name: whatever was agreed under the old one is void, but never the epoch, nor the log."""
        if registration == self._ground.me.registration:
            return
        if isinstance(self._role, Leader):
            self._ground.holder.resign(self._role.epoch)
            self._role.close("this process is registered anew")
        self._liaison.registered_as(registration)
        self._role = Follows(self._ground)

    def _on_heard(self, event: Heard) -> None:
        """A view, and perhaps a lease. Whatever is of an earlier epoch than is known here comes late."""
        ground, view = self._ground, event.answer.view
        self._liaison.heard(event.sent, event.number)
        if view is None:
            if not self._liaison.about_earlier_name(event.sent):
                self._on_registered(Registration(0))
            return
        if self._liaison.is_forgotten(view, event.sent):
            # Nothing of it can be led by. They hear of the epoch with the registration, and elect in a later one (R20).
            self._on_registered(Registration(0))
            self._liaison.begin_again()
            return
        if view.epoch < ground.epoch or not ground.standing.learn(view):
            return
        self._see(view.epoch, f"epoch {view.epoch} has begun")
        self._liaison.note()
        mine = view.master_registration == ground.me.registration and view.master == ground.me.broker_id
        if isinstance(event.answer, Granted) and mine:
            ground.holder.granted(event.answer, sent=event.sent)
            self._liaison.leased(event.answer.holder_ms)
            self._on_granted(event.answer, view)
        self._role.learn(view)

    def _on_granted(self, granted: Granted, view: RoleView) -> None:
        """Lead, or go on leading, if the lease runs."""
        ground = self._ground
        if isinstance(self._role, Leader):
            self._role.handover.order(granted.hand_over)
        elif ground.holder.epoch_at(ground.now) == view.epoch:
            if ground.departure.planned or not ground.may_begin:
                ground.holder.resign(view.epoch)
                self._liaison.release(view.epoch)
                # Whoever else could lead is gone, or is about to go: there is nobody to wait for.
                ground.be_drained()
                return
            ensure(ground.log.epochs.last_epoch < view.epoch, "an epoch is led once", ground.log.epochs, view)
            self._role = Leader(ground, view, self._solitude)
            self._role.start()

    # ---- the other replicas ----------------------------------------------------------------------------------------

    def _on_envelope(self, envelope: Envelope) -> None:
        """R4: whoever is of an earlier epoch hears of the later one; whoever hears of a later one goes there."""
        ground, body = self._ground, envelope.body
        if envelope.to != ground.standing.identity or envelope.cluster != ground.standing.cluster:
            reason = "for another process" if envelope.to != ground.standing.identity else f"of {envelope.cluster}"
            ground.report(Strange(envelope.sender, reason))
            return
        epoch = ground.epoch
        if envelope.epoch > epoch + _LEAP:
            ground.report(Strange(envelope.sender, f"says epoch {envelope.epoch}, and here it is {epoch}"))
            return
        if envelope.epoch > epoch:
            epoch = envelope.epoch
            self._see(epoch, f"{envelope.sender} knows epoch {epoch}")
        if isinstance(body, Presence):
            if isinstance(self._role, Leader):
                self._role.on_presence(envelope.sender, body)
        elif envelope.epoch == epoch:
            self._dispatch(envelope)
        elif isinstance(body, _FROM_LEADER):
            ground.confirm(envelope.sender, Stale())

    def _see(self, epoch: Epoch, cause: str) -> None:
        """Go to a later epoch, as a follower of whoever leads it."""
        ground = self._ground
        if epoch <= ground.epoch:
            return
        if isinstance(self._role, Leader):
            ground.holder.resign(self._role.epoch)
            self._role.close(cause)
        ground.promise(epoch)
        self._liaison.note()
        self._role = Follows(ground)

    def _dispatch(self, envelope: Envelope) -> None:
        role, body = self._role, envelope.body
        match body:
            case Append() | Heartbeat() | CopyChunk() | Summons() | Contradicted():
                if not isinstance(role, Follows):
                    broken("one leader in an epoch", envelope)
                elif isinstance(body, Summons):
                    role.on_summons(envelope.sender)
                elif isinstance(body, Contradicted):
                    role.on_contradicted(envelope.sender, body)
                else:
                    role.on_leader(envelope, body)
            case AppendAck() | AppendReject() | HeartbeatAck() | CopyAck():
                if not isinstance(role, Follows):
                    role.on_answer(envelope, body)
            case ReadAsk():
                if isinstance(role, Leader):
                    role.on_read_ask(envelope.sender, body)
            case ReadGrant():
                if isinstance(role, Follows) and envelope.sender == role.leader:
                    role.reading.on_grant(body)
            case Stale():
                pass
            case _:
                self._ground.report(Strange(envelope.sender, f"unknown message {type(body).__name__}"))

    # ---- the end of a leadership -----------------------------------------------------------------------------------

    def _resign(self, cause: str) -> None:
        """Let go, first here, then at the controllers (R2)."""
        ground, role = self._ground, self._role
        if isinstance(role, Leader):
            ground.holder.resign(role.epoch)
            role.close(cause)
            self._role = Follows(ground)
            self._liaison.release(role.epoch)
            ground.be_drained()
