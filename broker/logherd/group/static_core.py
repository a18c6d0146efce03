"""One replica of a broker group in static mode: roles as a table says, promotion by hand only.

    follows --the table names this broker, and 3.--> leads
       ^---- a later table, a store that is broken or lacks records, registered anew ----'

What differs from controller mode, where a lease says who leads:

1. Whoever has seen a table refuses every leader of an earlier one, also after a crash. A synchronous follower that is
   promoted is the end of the old leader's commits, wherever that one is and whatever it knows.
2. Within its table a leader is followed only if the table names it. Each start of it is another epoch; two leaders of
   one table, by mistake, cannot have the same epoch (H7, table.py).
3. Who has answered a leader neither follows nor becomes another one for `bound_ms`; a leader with synchronous followers
   serves only while so many of them are bound to it as must have a copy (R1, R2). Asynchronous it serves on.

With all synchronous followers needed for a copy this promises what controller mode promises, but for a leader that
replaces itself: nothing is acknowledged while one of them is away. With fewer, or none, what was acknowledged may be
lost by a promotion, and only by one that says so. Source: design H7; controller-ha R1 to R8, R13, R14.
"""

from dataclasses import dataclass

from logherd.controller.values import BrokerId, Registration
from logherd.group.ground import Ground
from logherd.group.inputs import (
    Appended,
    Assigned,
    Drain,
    Flushed,
    HandOver,
    Health,
    Heard,
    Input,
    Linked,
    MembersWanted,
    Noticed,
    Patience,
    ReadWanted,
    Received,
    Registered,
    SetAnswered,
    Tick,
    Unlinked,
)
from logherd.group.machine import Grounded
from logherd.group.messages import Contradicted, Presence, Summons
from logherd.group.options import GroupOptions
from logherd.group.output import Closed, Output, Strange
from logherd.group.seat import Process, Seat, process_of
from logherd.group.static_follower import StaticFollows
from logherd.group.static_leader import StaticLeader
from logherd.group.table import Table, first_epoch, is_near, is_worn_out, next_epoch, table_number
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point
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
    ReplicaId,
    Stale,
)

__all__ = ["StaticCore"]

_OTHERS = (Heard, Noticed, SetAnswered, HandOver, MembersWanted, Patience)
_FROM_LEADER = (Append, Heartbeat, CopyChunk, Summons, Contradicted)


@dataclass(slots=True)
class _Bound:
    """Whom this replica has answered, and until when that one may rely on it; None: whoever its former process did."""

    leader: BrokerId | None
    until: int
    settled: int
    """The latest table in which it may follow or lead, because whoever led before cannot rely on it any more."""


class StaticCore(Grounded):
    """See GroupMachine. What is in the log when the core is made must be durable, and so must `epoch`, the highest one
    seen. `Registered` gives this process a number that is higher than that of any earlier process of this broker.
    """

    def __init__(
        self, seat: Seat, options: GroupOptions, log: ReplicaLog, *, epoch: Epoch, commit: Position, now: int
    ) -> None:
        """Start fenced, without a table. `commit`: up to where the log is known to be committed."""
        self._ground = Ground(seat, options, log, epoch=max(epoch, log.epochs.last_epoch), commit=commit, now=now)
        seen = self._ground.epoch
        led = seen > first_epoch(table_number(seen))
        self._bound = _Bound(None, now + options.bound_ms if seen else now, table_number(seen) if led else 0)
        self._table: Table | None = None
        self._unfit: Table | None = None
        """The table that this process shall not lead: it lacks what was committed under it."""
        self._waits = False
        """Whether this process shall not lead by its table yet."""
        self._role: StaticFollows | StaticLeader = StaticFollows(self._ground, None)
        self._reached = ORIGIN
        """The latest that others have said to be committed, while this replica did not lead."""
        self._refused: dict[BrokerId, tuple[ReplicaId, int]] = {}
        """Of each broker that leads though the table names another one: the process, and the table, that was told."""

    # ---- what the shell asks ---------------------------------------------------------------------------------------

    @property
    def table(self) -> Table | None:
        """The latest table."""
        return self._table

    @property
    def leads(self) -> Epoch | None:
        """The epoch of this replica's own leadership, which may be fenced."""
        return self._role.epoch if isinstance(self._role, StaticLeader) else None

    @property
    def leading(self) -> StaticLeader | None:
        """The leadership, while there is one."""
        return self._role if isinstance(self._role, StaticLeader) else None

    def serving(self, now: int) -> Epoch | None:
        """R1: the epoch in which this replica may answer as the leader at this moment."""
        role = self._role
        return role.epoch if isinstance(role, StaticLeader) and role.serving(now) else None

    def closed(self, now: int) -> Closed | None:
        """Why a client's write may not be appended at this moment; None if it may."""
        if isinstance(self._role, StaticLeader):
            return self._role.closed(now)
        unfit = self._table is not None and self._table == self._unfit
        return Closed.LACKING if unfit else Closed.NOT_SERVING

    def readable(self, now: int) -> Position | None:
        """Up to where this follower may answer reads itself at this moment; None: the leader must."""
        return self._role.reading.readable(now) if isinstance(self._role, StaticFollows) else None

    # ---- what an operator changes while it runs ----------------------------------------------------------------------

    def retime(self, options: GroupOptions) -> None:
        """Go by other times from now on; what has begun to count goes on counting."""
        self._ground.retime(options)
        if isinstance(self._role, StaticLeader):
            self._role.retime()

    # ---- the one entry ---------------------------------------------------------------------------------------------

    def step(self, event: Input, now: int) -> Output:
        """Take one input; see output.py. Raises: what the log raises."""
        ensure(not isinstance(event, _OTHERS), "an input of another mode", event)
        grown = self._ground.begin(now)
        if isinstance(self._role, StaticLeader):
            self._role.look(grown=grown)
        else:
            ensure(not grown, "ground 4: only a leader's services append", event)
        match event:
            case Received():
                self._on_envelope(event.envelope)
            case Flushed():
                self._on_flushed(event.token)
            case Tick():
                self._on_tick()
            case Appended():
                pass  # look() has seen it.
            case Linked():
                self._on_link(event.peer)
            case Unlinked() | ReadWanted():
                if isinstance(self._role, StaticFollows):
                    self._role.on_shell(event)
            case Health() | Drain() | Registered() | Assigned():
                self._on_shell(event)
        self._advance()
        return self._ground.finish()

    def _advance(self) -> None:
        if isinstance(self._role, StaticLeader) and (cause := self._role.advance()) is not None:
            self._unfit = self._role.table if self._role.lost is not None else self._unfit
            self._resign(cause)

    def _on_flushed(self, token: int) -> None:
        self._ground.durable.flushed(token)
        if isinstance(self._role, StaticFollows):
            self._role.on_flushed()

    def _on_tick(self) -> None:
        if isinstance(self._role, StaticFollows):
            self._role.on_tick()
            self._lead_if_due()
        elif (cause := self._role.on_tick()) is not None:
            self._resign(cause)

    # ---- who leads -------------------------------------------------------------------------------------------------

    def _lead_if_due(self) -> None:
        """Become the leader that the table names, with a log that holds what it must."""
        ground, table = self._ground, self._table
        me = ground.me
        if table is None or table.leader != me.broker_id or me.registration == 0:
            return
        if self._waits or table == self._unfit:
            return
        if table_number(ground.epoch) > table.number or not ground.may_begin or ground.departure.planned:
            return
        if (lacking := self._lacking(table)) is not None:
            ground.report(Strange(ground.standing.identity, f"named as leader, but lacks {lacking}"))
            self._unfit = table
        elif is_worn_out(table.number, ground.epoch):
            ground.report(Strange(ground.standing.identity, f"table {table.number} has no epoch left: promote again"))
            self._unfit = table
        elif self._is_free(table.number, me.broker_id):
            ground.promise(next_epoch(table.number, ground.epoch, ground.seat.incarnation))
            self._role = StaticLeader(ground, ground.epoch, table)
            self._role.start()

    def _lacking(self, table: Table) -> Point | None:
        """What the table's leader must hold and this log does not: what the operator saw of it, and what was committed
        under the table. Without followers that are awaited nobody else would tell it before it serves."""
        history, end = self._ground.log.epochs, self._ground.log.end
        under = self._reached if table_number(self._reached.epoch) == table.number else ORIGIN
        return next((point for point in (table.holds, under) if history.refutes(point, end)), None)

    def _is_free(self, number: int, leader: BrokerId | None) -> bool:
        """Whether nobody else can rely on this replica any more, so that it may follow or lead in this table."""
        bound = self._bound
        same = leader is not None and leader == bound.leader
        if number > bound.settled and (same or self._ground.now >= bound.until):
            bound.settled = number
        return number <= bound.settled

    def _see(self, epoch: Epoch, leader: BrokerId | None, cause: str) -> None:
        """Refuse everything earlier. While somebody relies on this replica, it enters a table, but no leadership."""
        ground, number = self._ground, table_number(epoch)
        epoch = epoch if self._is_free(number, leader) else first_epoch(number)
        if epoch <= ground.epoch:
            return
        if isinstance(self._role, StaticLeader):
            self._role.close(cause)
        ground.promise(epoch)
        self._role = StaticFollows(ground, self._table)

    def _on_assigned(self, table: Table) -> None:
        known = self._table
        if known is not None and (table.number < known.number or table == known):
            return
        if known is not None and table.number == known.number and (self.leads is not None or self._ground.log.end > 0):
            self._ground.report(Strange(self.identity, f"table {table.number} is said to be {known}, and {table}"))
            return
        self._table = table
        self._see(first_epoch(table.number), None, f"table {table.number} is in force")
        if isinstance(self._role, StaticFollows):
            self._role.assigned(table)

    def _on_link(self, peer: ReplicaId) -> None:
        process = process_of(peer)
        if process is None:
            return
        news = process.registration > self._ground.standing.latest(process.broker_id)
        self._ground.standing.meet(process)
        self._role.on_link(peer)
        if news and isinstance(self._role, StaticFollows):
            self._role.greet()

    # ---- the shell -------------------------------------------------------------------------------------------------

    def _on_shell(self, event: Health | Drain | Registered | Assigned) -> None:
        ground = self._ground
        match event:
            case Registered():
                self._on_registered(event.registration)
            case Assigned():
                self._waits = event.waits
                self._on_assigned(event.table)
            case Health():
                ground.health = event
                if isinstance(self._role, StaticLeader) and not event.healthy:
                    self._resign("the store does not work")
            case Drain():
                ground.departure.planned = True
                if isinstance(self._role, StaticLeader):
                    self._role.drain()
                else:
                    self._role.stop()

    def _on_registered(self, registration: Registration) -> None:
        """Another name for this process."""
        if registration != self._ground.me.registration:
            self._resign("this process is registered anew")
            self._ground.standing.register(registration)
            self._ground.standing.meet(self._ground.me)

    def _resign(self, cause: str) -> None:
        """Lead no more; in the same table it may again, as another epoch."""
        if isinstance(self._role, StaticLeader):
            self._role.close(cause)
            self._role = StaticFollows(self._ground, self._table)

    # ---- the other replicas ----------------------------------------------------------------------------------------

    def _on_envelope(self, envelope: Envelope) -> None:
        ground, body = self._ground, envelope.body
        if envelope.to != ground.standing.identity or envelope.cluster != ground.standing.cluster:
            reason = "for another process" if envelope.to != ground.standing.identity else f"of {envelope.cluster}"
            ground.report(Strange(envelope.sender, reason))
            return
        sender = process_of(envelope.sender)
        if sender is None:
            ground.report(Strange(envelope.sender, "is no process of a broker"))
        elif not is_near(envelope.epoch, ground.epoch):
            ground.report(Strange(envelope.sender, f"says epoch {envelope.epoch}, and here it is {ground.epoch}"))
        elif isinstance(body, _FROM_LEADER):
            self._on_leader(envelope, sender)
        else:
            self._see(envelope.epoch, None, f"{envelope.sender} knows epoch {envelope.epoch}")
            self._on_follower(envelope)

    def _on_leader(self, envelope: Envelope, sender: Process) -> None:
        """Somebody leads, or thinks so."""
        ground, table, epoch = self._ground, self._table, envelope.epoch
        number = table_number(epoch)
        if table is not None and number == table.number and sender.broker_id != table.leader:
            if self._refused.get(sender.broker_id) != (envelope.sender, number):  # it says so several times a second
                self._refused[sender.broker_id] = (envelope.sender, number)
                ground.report(Strange(envelope.sender, f"leads, but table {number} names broker {table.leader}"))
            return
        self._see(epoch, sender.broker_id, f"{envelope.sender} leads epoch {epoch}")
        if epoch == ground.epoch and isinstance(self._role, StaticFollows):
            self._bound.leader, self._bound.until = sender.broker_id, ground.now + ground.options.bound_ms
            ground.standing.meet(sender)
            self._tell(self._role, envelope)
        elif epoch < ground.epoch:
            ground.confirm(envelope.sender, Stale())
        elif epoch == ground.epoch:
            ground.report(Strange(envelope.sender, f"leads epoch {epoch}, as does this process"))

    def _tell(self, role: StaticFollows, envelope: Envelope) -> None:
        match envelope.body:
            case Append() | Heartbeat() | CopyChunk():
                role.on_leader(envelope, envelope.body)
            case Summons():
                role.on_summons(envelope.sender)
            case Contradicted():
                role.on_contradicted(envelope.sender, envelope.body)

    def _on_follower(self, envelope: Envelope) -> None:
        role, body = self._role, envelope.body
        match body:
            case Presence():
                if isinstance(role, StaticLeader):
                    role.on_presence(envelope.sender, body)
                elif body.committed > self._reached:
                    self._reached = body.committed
            case AppendAck() | AppendReject() | HeartbeatAck() | CopyAck():
                if isinstance(role, StaticLeader) and envelope.epoch == role.epoch:
                    role.on_answer(envelope, body)
            case ReadAsk():
                if isinstance(role, StaticLeader) and envelope.epoch == role.epoch:
                    role.on_read_ask(envelope.sender, body)
            case ReadGrant():
                if isinstance(role, StaticFollows) and (envelope.epoch, envelope.sender) == (self.epoch, role.leader):
                    role.reading.on_grant(body)
            case Stale():
                pass
            case _:
                self._ground.report(Strange(envelope.sender, f"unknown message {type(body).__name__}"))
