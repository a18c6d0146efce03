"""What differs between the modes of a group, for the one shell that runs a replica: which machine leads it, whom that
machine asks, what it lets others know, and how its group looks from here.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group.roster import Roster
from logherd.controller.values import BrokerId
from logherd.group.inputs import Input
from logherd.group.leading import Leadership
from logherd.group.machine import GroupMachine
from logherd.group.output import Ask, Event
from logherd.group.seat import Seat
from logherd.model.names import Epoch, Position
from logherd.peers.hello import Hello
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import Envelope, ReplicaId
from logherd.service.replica_view import InSyncView, PendingView
from logherd.settings.options import ReplicationOptions

__all__ = ["FollowerState", "Greeting", "Host", "Lease", "Mode", "ModeName", "follower_states"]

ModeName = Literal["controller", "raft", "static"]


@dataclass(frozen=True, slots=True)
class Greeting:
    """The part of a hello that the mode decides; see peers.hello."""

    founded: tuple[ReplicaId, ...] | None = None
    nodes: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """Until when, by CLOCK_BOOTTIME in milliseconds, the guardian may expect this process to lead an epoch."""

    epoch: Epoch
    until: int


@dataclass(frozen=True, slots=True)
class FollowerState:
    """A follower as its leader knows it. `in_step_at`: when it last had everything; None: not yet, or not known.
    `awaited`: it is to be in sync; not so without a vote, or if the table of roles does not name it.
    """

    broker_id: BrokerId
    in_sync: bool
    flushed: Position | None
    in_step_at: int | None
    awaited: bool = True


def follower_states(
    leading: Leadership, broker_ids: Iterable[BrokerId], *, in_sync: Collection[BrokerId], awaited: Collection[BrokerId]
) -> list[FollowerState]:
    """What a leader knows of these followers: nothing of who has not come since it leads."""
    found = []
    for broker_id in sorted(broker_ids):
        known = leading.follower_state(broker_id)
        flushed = known[1] if known is not None and known[1] != NOWHERE else None
        in_step_at = known[0].in_step_at if known is not None else None
        found.append(FollowerState(broker_id, broker_id in in_sync, flushed, in_step_at, broker_id in awaited))
    return found


@dataclass(frozen=True, slots=True)
class Host:
    """What a mode may do with the replica that it belongs to."""

    step: Callable[[Input], None]
    fail: Callable[[BaseException], None]
    join: Callable[[str], None]
    """This process has its name: link up with the others, or link up anew, for this reason."""
    announce: Callable[[], None]
    """What a hello says has changed."""
    linked: Callable[[], Sequence[ReplicaId]]
    """To whom there is a connection."""


class Mode(Protocol):
    """Belongs to the replica's loop. Nothing here waits but `stop`."""

    @property
    def name(self) -> ModeName:
        """As in the settings."""

    @property
    def machine(self) -> GroupMachine:
        """Whoever leads this replica. It may become another one, once, when the group is founded."""

    @property
    def seat(self) -> Seat:
        """What this process knows of itself."""

    @property
    def stalled(self) -> bool:
        """Whether a flush has been waiting for too long."""

    @property
    def pinned(self) -> Position | None:
        """Records that end above this must be kept; None: the mode needs none."""

    @property
    def lease(self) -> Lease | None:
        """What the guardian is told while this replica leads."""

    @property
    def obstacle(self) -> str:
        """Why a leader can commit nothing at this moment, so that sends are refused at once; empty if it can. Also why
        this replica does not lead, though its settings say that it does."""

    @property
    def accounted(self) -> bool:
        """Whether it is known by now, here or at the controllers, what this store is worth, if it may have lost its end
        when its machine went down."""

    @property
    def awaited(self) -> Sequence[int]:
        """Whose acknowledgements a leader needs."""

    @property
    def leader(self) -> BrokerId | None:
        """Who leads, as far as is known here; asked of who does not lead itself."""

    def rules(self, now: int) -> Epoch | None:
        """The epoch in which this replica, and nobody else, leads at this moment, though it may not serve yet: what was
        committed before and is not in its log was given up by an operator."""

    @property
    def roster(self) -> Roster | None:
        """Beyond whom no broker is known that could hold what is committed here; None if the mode cannot tell."""

    def found_at_leaders(self, epoch: Epoch) -> bool:
        """Whether clients find this replica, which leads in this epoch, at `replication.leaderAddress`."""

    def start(self, host: Host, guard: TaskGuard) -> None:
        """The port for the others is bound. Raises: what ends the process."""

    async def stop(self) -> None:
        """Ask nobody any more."""

    def ask(self, question: Ask) -> None:
        """The machine wants to know."""

    def greet(self) -> Greeting:
        """What a hello says at this moment."""

    def heard(self, hello: Hello) -> None:
        """Another replica has said who it is."""

    def received(self, envelope: Envelope) -> None:
        """The machine has taken this message."""

    def told(self, event: Event) -> None:
        """The machine has reported this, and the shell has done about it what it must."""

    def retime(self, options: ReplicationOptions) -> None:
        """Times that can change while a replica runs have changed."""

    def tick(self) -> None:
        """About once a second."""

    def address_of(self, broker_id: BrokerId) -> str:
        """Where clients reach a broker of the group; empty while that is not known."""

    def members(self) -> InSyncView:
        """Who is in sync, or has a vote."""

    def followers(self) -> Sequence[FollowerState]:
        """At the leader."""

    def pending(self, now: int) -> PendingView | None:
        """A change of the set that is on its way."""
