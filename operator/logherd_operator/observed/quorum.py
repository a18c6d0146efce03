"""What the controllers say: of themselves (`GET /quorum`), and of the broker group (`GET /groups/CLUSTER/NAME`). Of a
group that leads itself its brokers say the same, and more.
"""

from dataclasses import dataclass

__all__ = ["Group", "Member", "Own", "Quorum", "Replica", "Rules", "Table", "controller_name"]


def controller_name(ordinal: int) -> str:
    """How the controller of a place is called among the controllers, whatever machine or pod that is."""
    return f"c{ordinal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A controller as the leading one sees it. `node` is its place's name; two identities of a node are two members."""

    node: str
    identity: str
    voter: bool
    connected: bool
    lag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The controllers; `leader` is None while nobody leads them."""

    leader: str | None
    term: int
    members: tuple[Member, ...] = ()

    @property
    def voters(self) -> tuple[Member, ...]:
        """Who counts."""
        return tuple(each for each in self.members if each.voter)

    def survives_without(self, node: str | None, *, lag_max: int) -> bool:
        """Would a majority of the voters remain without `node`, connected and at most `lag_max` behind?"""
        near = [each for each in self.voters if each.connected and (each.lag or 0) <= lag_max and each.node != node]
        return 2 * len(near) > len(self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A broker as the controllers know it. `alive` is None if they cannot tell; `lag`: bytes behind the longest log."""

    broker_id: int
    store_id: str
    alive: bool | None = None
    learner: bool = False
    lag: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the controllers hold the group to."""

    replicas: int
    min_in_sync: int
    preferred: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Mode static: who leads and whom a send waits for. `promotable`: who could be promoted now and nothing be lost."""

    number: int
    leader: int
    synchronous: tuple[int, ...]
    copies: int
    promotable: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Of a group that no controllers lead. `table`: None in mode raft. `keeping_up`: followers that have about
    everything, and that nobody counts on. `changing`: who belongs to the group is being changed.
    """

    table: Table | None = None
    keeping_up: tuple[int, ...] = ()
    changing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The broker group, confirmed by the quorum. Not `founded`: nobody has led it yet, or it is not known at all.

    `leader` leads and its lease runs (`serving`). `eligible`: out of sync, but may hold what is committed and nowhere
    else. `transfer`: the target of a hand-over that is under way. `why`: the controllers' own words for how it stands.
    `own`: None where controllers elect the leader.
    """

    epoch: int
    founded: bool
    rules: Rules
    leader: int | None = None
    serving: bool = False
    in_sync: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    replicas: tuple[Replica, ...] = ()
    transfer: int | None = None
    why: str = ""
    own: Own | None = None

    def settled(self, broker_id: int) -> bool:
        """Does it hold what it is there for?"""
        return broker_id in self.in_sync or (self.own is not None and broker_id in self.own.keeping_up)

    def replica(self, broker_id: int) -> Replica | None:
        """The broker of that number, if the controllers know one."""
        return next((each for each in self.replicas if each.broker_id == broker_id), None)

    @property
    def led(self) -> bool:
        """Is there a leader that may act?"""
        return self.leader is not None and self.serving
