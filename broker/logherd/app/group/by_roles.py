"""Static mode: a table says who leads and whose copies count; an operator gives the next one, at the broker to lead.

The first table is that of the configuration, unless this store is empty and a replica whose store is not knows another
one. Each replica keeps the latest one that it has heard of, and tells it to whoever it is linked with. An order names
the table that it replaces, and a broker that knows another one refuses it. Where there are controllers, they compare
all orders (promoting.py). Without them, two orders that replace the same table on two brokers that do not hear each
other are an operator's mistake; no record of one is ever taken for the other's (H7).
"""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import UNSET

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import boot_ms
from logherd.app.group.about import About, decode_about, encode_about, recorded_of, shape_of
from logherd.app.group.first_table import FirstTable
from logherd.app.group.mode import FollowerState, Greeting, Host, Lease, ModeName, follower_states
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.group.roles_file import RolesFile
from logherd.app.group.roster import Roster
from logherd.app.group.timing import group_options
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Assigned, Registered
from logherd.group.messages import Presence
from logherd.group.output import Ask, Event, Serving
from logherd.group.seat import Seat, process_of
from logherd.group.static_core import StaticCore
from logherd.group.table import (
    Promotion,
    PromotionRefusedError,
    Recorded,
    Table,
    first_epoch,
    found,
    is_near,
    promote,
    served,
    table_number,
)
from logherd.kit.errors import InvariantError, ensure
from logherd.model.names import Epoch, Position
from logherd.peers.hello import Hello
from logherd.replica import ReplicaStore
from logherd.replication.epochs import Point
from logherd.replication.messages import Append, Envelope, Heartbeat, ReplicaId
from logherd.service.replica_orders import Promote as PromoteShape
from logherd.service.replica_view import InSyncView, PendingView
from logherd.settings.options import ReplicationOptions, RolesOptions
from logherd.telemetry.log import Log

__all__ = ["ByRoles", "first_roles"]

_log = Log("logherd.group")


def first_roles(options: RolesOptions) -> Recorded:
    """Table number 1, as configured."""
    synchronous = tuple(map(BrokerId, options.synchronous))
    return found(Table(number=1, leader=BrokerId(options.leader), synchronous=synchronous, copies=options.copies))


class ByRoles:
    """See Mode."""

    def __init__(
        self, seat: Seat, options: ReplicationOptions, log: ReplicaStore, file: ReplicaFile, roles: RolesFile
    ) -> None:
        self.name: ModeName = "static"
        self.seat = seat
        self.recorders = options.controllers
        """The controllers that record promotions; none: nobody does."""
        self._log = log
        self._roles = roles
        self._host: Host | None = None
        self._registration = Registration(file.starts)
        self._addresses: dict[BrokerId, str] = {}
        self._others = frozenset(map(BrokerId, options.peers)) - {seat.broker_id}
        self._first: FirstTable | None = None
        """While this broker may not yet lead, though its table says that it does."""
        self.machine = StaticCore(
            seat, group_options(options), log, epoch=file.promise.epoch,
            commit=Position(log.store.committed_position), now=boot_ms(),
        )  # fmt: skip

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def recorded(self) -> Recorded:
        """The latest table that is known here."""
        return self._roles.recorded

    @property
    def stalled(self) -> bool:
        """See Mode."""
        return self.machine.ground.stalled

    @property
    def pinned(self) -> Position | None:
        """See Mode."""
        return None

    @property
    def lease(self) -> Lease | None:
        """There is none: nobody takes over by itself, so however long a leader sleeps, no moment comes from which on
        another one may lead. Whom an operator has promoted is told by hello, and ends its duties then."""
        return None

    @property
    def obstacle(self) -> str:
        """See Mode."""
        leading = self.machine.leading
        if leading is None:
            return self._first.obstacle if self._first is not None else ""
        if leading.enough:
            return ""
        return f"synchronous followers do not keep up: {', '.join(map(str, leading.behind))}"

    @property
    def accounted(self) -> bool:
        """Whoever is to lead hears the others first, at each start, until it has served; and so does who may have been
        ordered to before, for without a loss that is recorded of those that hold everything, maybe unheard of here."""
        return self._roles.complete or self.seat.broker_id not in {self.recorded.table.leader, *self.recorded.eligible}

    @property
    def awaited(self) -> Sequence[int]:
        """See Mode."""
        return self.recorded.table.synchronous

    @property
    def leader(self) -> BrokerId | None:
        """See Mode."""
        return self.recorded.table.leader

    def rules(self, now: int) -> Epoch | None:
        """See Mode: not before those that it waits for have followed, for nobody tells one that was replaced."""
        return self.machine.serving(now)

    @property
    def roster(self) -> Roster | None:
        """There is none: the table does not name who copies without being awaited, nor who led before."""
        return None

    def found_at_leaders(self, epoch: Epoch) -> bool:
        """There is nobody to ask: that address is believed."""
        del epoch
        return True

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self, host: Host, guard: TaskGuard) -> None:
        """See Mode."""
        del guard
        self._host = host
        host.step(Registered(self._registration))
        table = self.recorded.table
        if self._alone or self._unsure or (self._empty and table.leader == self.seat.broker_id):
            self._first = self._first_table()
            self._begin()
        else:
            host.step(Assigned(table))
        host.join("")

    @property
    def _empty(self) -> bool:
        """Whether nothing was ever stored here, so that any table is as good as the settings'."""
        return self._log.end == 0

    @property
    def _alone(self) -> bool:
        """Whether this broker would lead without being told before it acknowledges anything what its store may lack."""
        table = self.recorded.table
        unsure = self._empty or not self.seat.trusted
        return table.leader == self.seat.broker_id and table.copies == 1 and unsure

    @property
    def _unsure(self) -> bool:
        """Whether this broker leads by its table and may have lost what the others still have that sends waited for."""
        table, held = self.recorded.table, self.seat.trusted or self._roles.complete
        return table.leader == self.seat.broker_id and table.copies > 1 and not held

    def _first_table(self) -> FirstTable:
        table, until = self.recorded.table, boot_ms() + self.machine.ground.options.bound_ms
        if self._unsure:
            return FirstTable(table.synchronous, until=None if table.everybody else until, ends=True)
        return FirstTable(self._others, until=until)

    def _begin(self) -> None:
        """Lead, once nothing speaks against it."""
        if self._first is not None and self._host is not None and self._first.settled(boot_ms()):
            self._first = None
            self._host.step(Assigned(self.recorded.table))

    async def stop(self) -> None:
        """Nobody is asked."""

    def ask(self, question: Ask) -> None:
        """Nobody is there to be asked."""
        ensure(False, "static mode asks nobody", question)  # noqa: FBT003

    @property
    def why_not(self) -> str:
        """Why a promotion of this broker may lose what was acknowledged; empty if it cannot."""
        eligible = self.recorded.eligible
        if self.seat.broker_id not in eligible:
            return f"what was acknowledged is with {', '.join(f'broker {each}' for each in eligible) or 'nobody known'}"
        return "" if self._roles.complete else "this store has not had everything yet that was acknowledged"

    @property
    def lacking(self) -> bool:
        """Whether this log surely does not hold what its table says that the leader's held when it was chosen."""
        return self._log.epochs.refutes(self.recorded.table.holds, self._log.end)

    def prepare(self, wanted: PromoteShape) -> Recorded:
        """What an operator's order to lead from now on makes of the table that it replaces. Nothing changes yet.

        Raises: PromotionRefusedError.
        """
        me, recorded, after, loss = self.seat.broker_id, self.recorded, wanted.after, wanted.loss
        if not self._is_near(after):
            raise PromotionRefusedError(f"no group comes from table {recorded.table.number} to table {after}")
        # Of a cut the store knows once it is flushed; with flush `async` the machine counts what is only written.
        flushed = min(Position(self._log.store.flushed_position), self.machine.ground.durable.position)
        if after == recorded.table.number and not loss and self.why_not:
            raise PromotionRefusedError(self.why_not)
        copies = len(wanted.synchronous) + 1 if wanted.copies is UNSET else wanted.copies
        unknown = {*wanted.synchronous} - {*self._others, me}
        if unknown and copies > len(wanted.synchronous) + 1 - len(unknown):
            named = ", ".join(f"broker {each}" for each in sorted(unknown))
            raise PromotionRefusedError(f"replication.peers lacks {named} here: sends would wait for that for ever")
        order = Promotion(
            after=after, leader=me, synchronous=tuple(map(BrokerId, wanted.synchronous)), copies=copies, loss=loss,
            holds=self._log.epochs.point_at(flushed),
        )  # fmt: skip
        try:
            if loss and after > recorded.table.number:
                # Of the tables between nothing is known here, so of what was committed under them neither.
                recorded = Recorded(replace(recorded.table, number=after), ())
            return promote(recorded, order)
        except InvariantError as error:
            raise PromotionRefusedError(f"these roles do not fit together: {error}") from error

    def enforce(self, recorded: Recorded, *, told: bool = False) -> None:
        """Another table is in force: it is kept before anything is done about it. `told`: another replica says so, and
        may lack as much as this one. Blocks for a flush. Raises: StoreFull, OSError."""
        self._roles.record(recorded)
        table = recorded.table
        _log.info(
            "roles", table=table.number, leader=table.leader, synchronous=",".join(map(str, table.synchronous)) or None,
            copies=table.copies, loss_accepted=table.forgiven == table.number or None,
        )  # fmt: skip
        self._first = self._first_table() if told and (self._alone or self._unsure) else None
        if self._host is not None:
            self._host.step(Assigned(table, waits=self._first is not None))
            self._host.announce()

    # ---- what others say and are told --------------------------------------------------------------------------------

    def greet(self) -> Greeting:
        """See Mode."""
        end = self._log.epochs.point_at(self._log.end)
        about = About(
            mode=self.name, address=self.seat.address, learner=self.seat.learner, roles=shape_of(self.recorded),
            begun=not self._empty, end=(end.epoch, end.position),
        )  # fmt: skip
        return Greeting(about=encode_about(about))

    def heard(self, hello: Hello) -> None:
        """See Mode."""
        process, about, host = process_of(hello.sender), decode_about(hello.about), self._host
        if process is None or about is None or about.roles is None or host is None:
            _log.error("a replica of another mode", replica=hello.sender)
            return
        self._addresses[process.broker_id] = about.address
        try:
            theirs = recorded_of(about.roles)
        except ValueError as error:
            _log.error("a replica tells no table of roles", replica=hello.sender, reason=error)
            return
        try:
            self._compare(process.broker_id, theirs, begun=about.begun)
            self._compare_end(process.broker_id, theirs, about.end)
            self._begin()
        except Exception as error:  # the file could not be written: the process ends and says why
            host.fail(error)

    def _greeted(self, sender: ReplicaId) -> None:
        process = process_of(sender)
        if self._first is not None and process is not None:
            self._first.greeted(process.broker_id)
            self._begin()

    def _compare(self, broker_id: BrokerId, theirs: Recorded, *, begun: bool) -> None:
        ours = self.recorded
        if self._first is not None:  # an earlier table is no other one: whoever knows that takes ours, and may be gone
            self._first.heard(broker_id, agrees=theirs.table.number < ours.table.number or theirs.table == ours.table)
        if not self._is_near(theirs.table.number):
            _log.error("a table to which no group comes", ours=ours.table.number, theirs=str(theirs.table))
        elif theirs.table.number > ours.table.number:
            self.enforce(theirs, told=True)
        elif theirs.table.number == ours.table.number and theirs.table != ours.table:
            if begun and self._empty:
                self.enforce(theirs, told=True)
                return
            _log.error("two tables of one number", ours=str(ours.table), theirs=str(theirs.table), replica=broker_id)
        elif theirs.table == ours.table and broker_id == ours.table.leader and theirs.eligible != ours.eligible:
            self._roles.record(theirs)

    def _compare_end(self, broker_id: BrokerId, theirs: Recorded, end: tuple[int, int] | None) -> None:
        if self._first is None or not self._unsure:
            return
        table, ahead = self.recorded.table, False
        if end is not None:
            point = Point(Epoch(end[0]), Position(end[1]))
            # Given up with this promotion: what this log held then is here, or this broker does not lead.
            given_up = table.forgiven == table.number > table_number(point.epoch)
            ahead = not given_up and self._log.epochs.refutes(point, self._log.end)
        # Who knows an earlier table may still follow its leader; once it has taken this one it says hello again.
        self._first.compared(broker_id, ahead=ahead, final=theirs.table == table)

    def _is_near(self, number: int) -> bool:
        """Whether a group that has come to where this broker is can be at this table. It would be kept for good."""
        return is_near(first_epoch(number), max(first_epoch(self.recorded.table.number), self.machine.epoch))

    def received(self, envelope: Envelope) -> None:
        """Whoever has had all that its leader has committed is complete, for the leader commits nothing without it; but
        not before a record of this very leadership: what was acknowledged in an earlier one, to which this broker's
        former store belonged, may be more than the leader knew when it began."""
        body = envelope.body
        if isinstance(body, Presence):
            self._greeted(envelope.sender)
        if self._roles.complete or not isinstance(body, (Append, Heartbeat)) or self._host is None:
            return
        table = self.recorded.table
        of_table = envelope.epoch == self.machine.epoch and table_number(envelope.epoch) == table.number
        awaited = table.everybody and self.seat.broker_id in table.synchronous
        here = min(self.machine.commit, Position(self._log.store.flushed_position))
        if of_table and awaited and self._log.epochs.matches(Point(envelope.epoch, body.commit), here):
            try:
                self._be_complete()
            except Exception as error:  # the file could not be written: the process ends and says why
                self._host.fail(error)

    def told(self, event: Event) -> None:
        """See Mode: who serves has everything, and whoever it waits for has had its barrier."""
        if not isinstance(event, Serving) or table_number(event.epoch) != self.recorded.table.number:
            return
        recorded = served(self.recorded)
        if recorded != self.recorded:
            self._roles.record(recorded)
            if self._host is not None:
                self._host.announce()
        if not self._roles.complete:
            self._be_complete()

    def _be_complete(self) -> None:
        self._roles.be_complete()
        _log.info("this store has everything that the group has acknowledged", table=self.recorded.table.number)

    def retime(self, options: ReplicationOptions) -> None:
        """See Mode."""
        self.machine.retime(group_options(options))

    def tick(self) -> None:
        """See Mode."""
        self._begin()

    def address_of(self, broker_id: BrokerId) -> str:
        """See Mode."""
        return self._addresses.get(broker_id, "")

    # ---- how it looks ----------------------------------------------------------------------------------------------

    def members(self) -> InSyncView:
        """See Mode."""
        table, leading = self.recorded.table, self.machine.leading
        behind = leading.behind if leading is not None else ()
        members = sorted({table.leader, *table.synchronous} - {*behind})
        return InSyncView(members=members, version=table.number, min_in_sync=table.copies)

    def followers(self) -> Sequence[FollowerState]:
        """See Mode."""
        leading = self.machine.leading
        if leading is None:
            return ()
        awaited = {*leading.table.synchronous}
        others = awaited | {each.process.broker_id for each in leading.attendance}
        return follower_states(leading, others, in_sync=awaited - {*leading.behind}, awaited=awaited)

    def pending(self, now: int) -> PendingView | None:
        """The set changes by promotion alone."""
        del now
        return None
