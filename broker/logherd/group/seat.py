"""Which replica of which group a process is, and the name that its replicas know it by."""

from dataclasses import dataclass, field
from hashlib import blake2b

from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["Process", "Seat", "cluster_of", "process_of", "replica_of", "voter_of"]

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Process:
    """One process of one broker; of two, the one with the higher registration is the later."""

    broker_id: BrokerId
    registration: Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a process knows of itself when it starts.

    `trusted`: all that this store has ever acknowledged was flushed, or the last stop was clean. `rules` count only for
    a group that the controllers do not know yet.
    """

    group: GroupKey
    broker_id: BrokerId
    store_id: str
    incarnation: str
    address: str
    rules: Rules = field(default_factory=Rules)
    learner: bool = False
    trusted: bool = True
    priority: int = 0


def cluster_of(group: GroupKey, reset: int = 0) -> ClusterId:
    """What the envelopes of a group name as their cluster."""
    return ClusterId(str(group), reset)


def replica_of(process: Process) -> ReplicaId:
    """BROKER "." 16 hex digits of the registration: a restarted process is another replica, and what an earlier one
    acknowledged is never counted for it (R4, R11)."""
    return ReplicaId(f"{process.broker_id}.{process.registration:0{_DIGITS}x}")


def voter_of(broker_id: BrokerId, store_id: str) -> ReplicaId:
    """The name in `raft` mode, where votes and copies outlive a process: of the same form, with 16 digits that stand
    for the store. A broker with another store is another replica, and has no vote until the group names it."""
    return ReplicaId(f"{broker_id}.{blake2b(store_id.encode(), digest_size=_DIGITS // 2).hexdigest()}")


def process_of(replica: ReplicaId) -> Process | None:
    """The process of that name; None if it is nobody's."""
    number, _, digits = replica.partition(".")
    if not number.isdecimal() or not number.isascii() or len(number) > _DIGITS or len(digits) != _DIGITS:
        return None
    try:
        process = Process(BrokerId(int(number)), Registration(int(digits, 16)))
    except ValueError:
        return None
    return process if replica_of(process) == replica else None
