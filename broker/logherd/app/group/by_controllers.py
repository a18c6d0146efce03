"""Controller mode: the controllers elect the leader, and every duty of it rests on the lease that they grant."""

from collections.abc import Sequence

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import boot_ms
from logherd.app.group.about import About, encode_about
from logherd.app.group.asking import Answered, ControllersClient
from logherd.app.group.endpoint import Endpoint
from logherd.app.group.mode import FollowerState, Greeting, Host, Lease, ModeName, follower_states
from logherd.app.group.roster import Roster
from logherd.app.group.timing import group_options
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.controller.commands import AlterSyncSet
from logherd.controller.reports import Granted, Report, Withheld
from logherd.controller.values import BrokerId
from logherd.group.core import GroupCore
from logherd.group.inputs import Heard, Noticed, Registered, SetAnswered
from logherd.group.leader import Leader
from logherd.group.output import Ask, Event
from logherd.group.seat import Seat, process_of
from logherd.model.names import Epoch, Position
from logherd.peers.hello import Hello
from logherd.replica import ReplicaStore
from logherd.replication.messages import Envelope
from logherd.service.controllers.asking import Joined, SetChanged
from logherd.service.replica_view import InSyncView, PendingView
from logherd.settings.options import ReplicationOptions

__all__ = ["ByControllers"]

_TOO_FEW = "fewer replicas are in sync than replication.minInSync asks for"


class ByControllers:
    """See Mode. The others are linked with once the controllers have given this process a number."""

    def __init__(
        self, seat: Seat, options: ReplicationOptions, log: ReplicaStore, *, epoch: Epoch, keeper: LeaseKeeper,
        roster: Roster,
    ) -> None:  # fmt: skip
        self.name: ModeName = "controller"
        self.seat = seat
        self.roster = roster
        self._keeper = keeper
        self._host: Host | None = None
        self._endpoint = Endpoint()
        self.machine = GroupCore(
            seat, group_options(options), log, epoch=epoch, commit=Position(log.store.committed_position),
            now=boot_ms(),
        )  # fmt: skip
        self._controllers = ControllersClient(
            options.controllers, now_ms=boot_ms, on_answer=self._answered, on_notice=self._noticed
        )

    # ---- what it is ------------------------------------------------------------------------------------------------

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
        """See Mode."""
        until, leading = self.machine.ground.holder.until, self.machine.leading
        return Lease(leading.epoch, until) if until is not None and leading is not None else None

    @property
    def obstacle(self) -> str:
        """See Mode."""
        leading = self.machine.leading
        return _TOO_FEW if leading is not None and not leading.insync.enough else ""

    @property
    def accounted(self) -> bool:
        """See Mode: this process has told them."""
        return self.machine.ground.me.registration != 0

    @property
    def awaited(self) -> Sequence[int]:
        """See Mode."""
        leading = self.machine.leading
        return leading.insync.members if leading is not None else ()

    @property
    def leader(self) -> BrokerId | None:
        """See Mode."""
        known = self.machine.ground.standing.view
        return known.master if known is not None else None

    def rules(self, now: int) -> Epoch | None:
        """See Mode: its lease says so, whether its barrier is committed or not."""
        leading = self.machine.leading
        return leading.epoch if leading is not None and leading.leased(now) else None

    def found_at_leaders(self, epoch: Epoch) -> bool:
        """See Mode."""
        return self._endpoint.holds(epoch, boot_ms())

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self, host: Host, guard: TaskGuard) -> None:
        """See Mode."""
        self._host, seat = host, self.seat
        self._keeper.identify(
            cluster=seat.group.cluster, group=seat.group.name, broker_id=seat.broker_id, store_id=seat.store_id
        )
        self._controllers.start(guard)

    async def stop(self) -> None:
        """See Mode."""
        await self._controllers.stop()

    def ask(self, question: Ask) -> None:
        """See Mode."""
        self._controllers.ask(question)

    def _answered(self, question: Ask, answer: Answered, sent: int) -> None:
        host = self._host
        if host is None:
            return
        match answer:
            case Granted() | Withheld():
                if isinstance(answer, Granted):
                    self._endpoint.granted(answer, sent)
                host.step(Heard(answer, sent, question.number if isinstance(question, Report) else 0))
            case Joined():
                before = self.machine.identity
                host.step(Registered(answer.registration))
                self._keeper.registered()
                if self.machine.identity != before:  # who has to wait asks again, and is answered as often
                    host.join(f"registered anew as {answer.registration}")
            case SetChanged():
                if isinstance(question, AlterSyncSet):
                    host.step(SetAnswered(question.request, answer.members, answer.version))

    def _noticed(self) -> None:
        if self._host is not None:
            self._host.step(Noticed())

    # ---- what others say and are told --------------------------------------------------------------------------------

    def greet(self) -> Greeting:
        """See Mode."""
        return Greeting(about=encode_about(About(mode=self.name, address=self.seat.address)))

    def heard(self, hello: Hello) -> None:
        """The controllers tell everything; who is there is kept for the case that they lose it."""
        process = process_of(hello.sender)
        if process is not None:
            self._note(process.broker_id)

    def _note(self, broker_id: BrokerId) -> None:
        try:
            self.roster.meet(broker_id)
        except Exception as error:  # the file could not be written: the process ends and says why
            if self._host is not None:
                self._host.fail(error)

    def received(self, envelope: Envelope) -> None:
        """The machine needs no help."""

    def told(self, event: Event) -> None:
        """The machine needs no help."""

    def retime(self, options: ReplicationOptions) -> None:
        """See Mode."""
        self.machine.retime(group_options(options))

    def tick(self) -> None:
        """Try again what could not be kept of who is there: no later process would learn it."""
        self._note(self.seat.broker_id)

    def address_of(self, broker_id: BrokerId) -> str:
        """The controllers tell it with the leader."""
        del broker_id
        return ""

    # ---- how it looks ----------------------------------------------------------------------------------------------

    def members(self) -> InSyncView:
        """See Mode."""
        leading, known = self.machine.leading, self.machine.ground.standing.view
        members = leading.insync.members if leading is not None else known.members if known is not None else ()
        version, least = (known.version, known.min_in_sync) if known is not None else (0, 0)
        return InSyncView(members=members, version=version, min_in_sync=least)

    def followers(self) -> Sequence[FollowerState]:
        """See Mode: all that the controllers know, and who has come and they have not told yet."""
        leading, view = self.machine.leading, self.machine.ground.standing.view
        if leading is None or view is None:
            return ()
        came = (each.process.broker_id for each in leading.attendance)
        there = filter(leading.attendance.hears, came)
        others = {*there, *view.members, *(broker_id for broker_id, _ in view.others)} - {self.seat.broker_id}
        return follower_states(leading, others, in_sync=leading.insync.members, awaited=others - {*view.learners})

    def pending(self, now: int) -> PendingView | None:
        """See Mode."""
        leading = self.machine.leading
        return _pending(leading, now) if leading is not None else None


def _pending(leader: Leader, now: int) -> PendingView | None:
    sets = leader.insync.pending
    if not sets:
        return None
    wanted, present = sets[-1], leader.insync.members
    left, joined = sorted(set(present) - set(wanted)), sorted(set(wanted) - set(present))
    why = [f"{broker_id} does not keep up or asks to leave" for broker_id in left]
    why += [f"{broker_id} has caught up" for broker_id in joined]
    asked_at = leader.insync.asked_at
    return PendingView(members=wanted, why="; ".join(why), age_ms=0 if asked_at is None else max(0, now - asked_at))
