"""The values of which the replicated state is made. All immutable; collections are sorted tuples, so that equal states
have equal bytes. What a later release has added to one of them is not read over: a controller that did would go on with
another state than the others.

A *registration* is the number of one process of one broker within its group: every start that registers gets the next
one. It stands for (store, incarnation) wherever others must name a process, because the incarnation is a secret between
a process, its guardian and the controllers (H14).
"""

from typing import NewType

from msgspec import Struct
from msgspec.structs import replace

from logherd.kit.errors import ensure
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point

__all__ = [
    "BrokerId", "Group", "GroupKey", "Registration", "Replica", "Roles", "Rules", "SyncSet", "Tenure", "Transfer",
]  # fmt: skip

BrokerId = NewType("BrokerId", int)
"""A replica's number in its group, from 1."""

Registration = NewType("Registration", int)
"""The number of a broker process in its group, from 1; 0 is an id that was claimed and never used."""


class GroupKey(Struct, frozen=True, order=True, cache_hash=True, forbid_unknown_fields=True):
    """A broker group's name, with its cluster: two clusters may share controllers."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class Replica(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker as it registered last. `end` is the end of its log then, not now."""

    broker_id: BrokerId
    store_id: str = ""
    incarnation: str = ""
    registration: Registration = Registration(0)
    address: str = ""
    check_code: str = ""
    learner: bool = False
    exited: bool = False
    """The process of this registration is known to have ended."""
    end: Point = ORIGIN


class SyncSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who must acknowledge, and who else holds everything committed.

    `eligible` left the set while it was below the minimum: the committed position has not moved since, so they still
    hold all of it. `doubted` were members or eligible until their machine went down before it had flushed everything
    (`flush: async`); they matter when nobody else is left. `committed` is a lower bound of the committed end, for
    finding out about lost data.
    """

    members: tuple[BrokerId, ...] = ()
    eligible: tuple[BrokerId, ...] = ()
    doubted: tuple[BrokerId, ...] = ()
    version: int = 0
    committed: Point = ORIGIN
    request: str = ""

    @property
    def holders(self) -> tuple[BrokerId, ...]:
        """Who holds everything that is committed."""
        return (*self.members, *self.eligible)

    def without(self, broker_id: BrokerId, *, doubted: bool = False) -> "SyncSet":
        """The set when this member's data is not to be trusted any more; the same if it was not part of it.
        `doubted`: the end of its log may be missing, and no more."""
        members = tuple(member for member in self.members if member != broker_id)
        eligible = tuple(member for member in self.eligible if member != broker_id)
        doubtful = {*self.doubted, broker_id} if doubted else set(self.doubted) - {broker_id}
        after = replace(self, members=members, eligible=eligible, doubted=tuple(sorted(doubtful)))
        return self if after == self else replace(after, version=self.version + 1, request="")

    def changed(self, members: tuple[BrokerId, ...], *, minimum: int, keep: bool = True) -> "SyncSet":
        """The set with these members; who leaves while it is below the minimum stays eligible if `keep`."""
        rest: set[BrokerId] = set()
        doubted: set[BrokerId] = set()
        if keep and len(members) < minimum:
            rest = {*self.holders} - set(members)
            doubted = set(self.doubted) - set(members)
        return replace(
            self, members=members, eligible=tuple(sorted(rest)), doubted=tuple(sorted(doubted)),
            version=self.version + 1, request="",
        )  # fmt: skip


class Tenure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latest leadership. `ended`: it gets no lease any more. `released`: and it holds none, so nobody need wait."""

    broker_id: BrokerId
    store_id: str
    incarnation: str
    registration: Registration
    epoch: Epoch
    ended: bool = False
    released: bool = False
    request: str = ""


class Transfer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned hand-over: the master stops writes, waits until the target has all of them, and releases its lease."""

    target: BrokerId
    request: str


class Roles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Static mode: who leads a group by the latest promotion by hand, and the table of roles that this made.

    `table` is the brokers' own text, of which the controllers know nothing. Such a group is none of the others here:
    nobody is elected in it, and nobody reports.
    """

    group: GroupKey
    number: int
    broker_id: BrokerId
    table: str


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a group is configured. The master takes `min_in_sync` from here, because eligibility depends on it."""

    replicas: int = 3
    min_in_sync: int = 2
    preferred: BrokerId | None = None


class Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker group.

    Invariants: (1) the master is a member of the in-sync set; (2) members and eligible are disjoint, registered and no
    learners; (3) no tenure is of a later epoch than the group's; (4) ids and registrations are unique and below the
    next ones; (5) a released tenure has ended.
    """

    key: GroupKey
    epoch: Epoch = Epoch(0)
    tenure: Tenure | None = None
    sync: SyncSet = SyncSet()
    replicas: tuple[Replica, ...] = ()
    next_id: BrokerId = BrokerId(1)
    registrations: int = 0
    rules: Rules = Rules()
    transfer: Transfer | None = None
    founded: bool = False

    @property
    def master(self) -> Replica | None:
        """Who leads, as far as it is decided; whether it lives is another question."""
        if self.tenure is None or self.tenure.ended:
            return None
        return self.replica(self.tenure.broker_id)

    @property
    def outrun(self) -> bool:
        """Whether a broker has a log of a later leadership than the latest on record: controllers have lost decisions,
        as where all of their disks are older ones. So the in-sync set is an old one, too: who has left it since may
        lack what was acknowledged. Until the next election."""
        tenure = self.tenure
        if tenure is None or self.epoch <= tenure.epoch or not self.founded:
            return False
        return any(tenure.epoch < each.end.epoch <= self.epoch for each in self.replicas)

    def replica(self, broker_id: BrokerId) -> Replica | None:
        """The broker of this id."""
        replicas = self.replicas
        # Ids are given from 1 on, and the replicas stand in their order: mostly this one's place is known.
        if 0 < broker_id <= len(replicas) and replicas[broker_id - 1].broker_id == broker_id:
            return replicas[broker_id - 1]
        for replica in replicas:
            if replica.broker_id == broker_id:
                return replica
        return None

    def having(self, replica: Replica) -> "Group":
        """The group with this replica added or replaced."""
        rest = [other for other in self.replicas if other.broker_id != replica.broker_id]
        ordered = tuple(sorted([*rest, replica], key=lambda each: each.broker_id))
        return replace(self, replicas=ordered, next_id=max(self.next_id, BrokerId(replica.broker_id + 1)))

    def ending_tenure(self, *, released: bool = False) -> "Group":
        """The group whose latest leadership is over; without `released` its lease must still be waited out."""
        if self.tenure is None or (self.tenure.ended and self.tenure.released >= released):
            return self
        tenure = replace(self.tenure, ended=True, released=released or self.tenure.released)
        return replace(self, tenure=tenure)

    def check(self) -> None:
        """Stop when the state is not one that the rules allow. Raises: InvariantError."""
        sync, tenure = self.sync, self.tenure
        trusted = {each.broker_id for each in self.replicas if not each.learner and each.registration}
        ids = [each.broker_id for each in self.replicas]
        ensure(self.master is None or self.master.broker_id in sync.members, "group 1: the master is in sync", self)
        ensure(tenure is None or tenure.ended or self.master is not None, "group 1: the master is registered", self)
        ensure({*sync.holders, *sync.doubted} <= trusted, "group 2: who is in sync is registered", self)
        ensure(not set(sync.members) & set(sync.eligible), "group 2: members are not also eligible", self)
        ensure(not set(sync.holders) & set(sync.doubted), "group 2: who is in sync is not doubted", self)
        ensure(tenure is None or tenure.epoch <= self.epoch, "group 3: the epoch is the highest", self)
        ensure(len(set(ids)) == len(ids) and all(each < self.next_id for each in ids), "group 4: ids", self)
        ensure(all(each.registration <= self.registrations for each in self.replicas), "group 4: registrations", self)
        ensure(tenure is None or tenure.ended or not tenure.released, "group 5: released means ended", self)
