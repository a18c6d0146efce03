"""The shapes of what the admin port says, as JSON objects with the fields in camel case. Times are in milliseconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from logherd.replication.epochs import Point

__all__ = [
    "NOTHING_PENDING",
    "BrokerShape",
    "ConfigPage",
    "Document",
    "GroupPage",
    "GroupSummary",
    "GroupsPage",
    "HealthPage",
    "LeaderShape",
    "MasterShape",
    "MemberShape",
    "OptionShape",
    "PeerShape",
    "PointShape",
    "QuorumPage",
    "ReadyPage",
    "RulesShape",
    "StatusPage",
    "TransferShape",
    "error",
    "point_shape",
]  # fmt: skip

NOTHING_PENDING = "Nothing is pending."
"""Why a group is as it is, where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Document:
    """An HTTP status, and a body that msgspec can encode as JSON."""

    status: int
    body: object


class _Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class LeaderShape(_Shape, frozen=True, kw_only=True):
    """A controller, and where it is reached: by brokers and tools, and over HTTP."""

    node: str
    address: str | None
    admin: str | None


class PeerShape(_Shape, frozen=True, kw_only=True):
    node: str
    identity: str | None
    address: str | None
    admin: str | None
    connected: bool
    heard_ms: int | None
    refused: str | None


class StatusPage(_Shape, frozen=True, kw_only=True):
    """`GET /status`. `applied`, `committed` and `end` are positions of the controllers' log."""

    cluster: str
    node: str
    identity: str
    version: str
    pid: int
    role: str
    term: int
    leader: LeaderShape | None
    ready: bool
    why_not_ready: str | None
    applied: int
    committed: int
    end: int
    groups: int
    peers: Sequence[PeerShape]


class HealthPage(_Shape, frozen=True, kw_only=True):
    """`GET /health`, with 503 unless healthy."""

    healthy: bool
    faults: Sequence[str]


class ReadyPage(_Shape, frozen=True, kw_only=True):
    """`GET /ready`, with 503 unless ready."""

    ready: bool
    why_not: str | None


class MemberShape(_Shape, frozen=True, kw_only=True):
    """A member of the quorum, or who is heard by its leader and is none. The leader only knows `match`, `lag_bytes`."""

    node: str
    identity: str
    voter: bool
    connected: bool
    match: int | None
    lag_bytes: int | None
    heard_ms: int | None


class PointShape(_Shape, frozen=True, kw_only=True):
    """A place in a broker group's log."""

    epoch: int
    position: int


class QuorumPage(_Shape, frozen=True, kw_only=True):
    """`GET /quorum`, as this controller (`node`, `identity`) sees it.

    `reset`: how often an operator has rebuilt the quorum. `last`: this controller's last record.
    """

    node: str
    identity: str
    reset: int
    last: PointShape
    leader: LeaderShape | None
    term: int
    members: Sequence[MemberShape]


class MasterShape(_Shape, frozen=True, kw_only=True):
    """The broker that leads a group. `serving`: its lease runs; only the leading controller knows.

    `renewed_from`: the IP address from which it renews that lease; for whoever has to send packets to it now.
    """

    broker_id: int
    address: str
    registration: int
    serving: bool | None
    renewed_from: str | None = None


class BrokerShape(_Shape, frozen=True, kw_only=True):
    """A broker. `alive`, `heard_ms` and a moving `end` are known to the leading controller only."""

    broker_id: int
    address: str
    store_id: str
    registration: int
    alive: bool | None
    learner: bool
    exited: bool
    end: PointShape
    heard_ms: int | None


class RulesShape(_Shape, frozen=True, kw_only=True):
    replicas: int
    min_in_sync: int
    preferred: int | None


class TransferShape(_Shape, frozen=True, kw_only=True):
    """A planned hand-over that is under way."""

    target: int
    request_id: str


class GroupPage(_Shape, frozen=True, kw_only=True):
    """`GET /groups/{cluster}/{name}`: one broker group, as of `position` of the controllers' log.

    `confirmed`: it is as new as what was committed when it was asked for; else it is what is known here. `live`: the
    leading controller says it, which hears the brokers.
    """

    position: int
    confirmed: bool
    live: bool
    cluster: str
    name: str
    epoch: int
    version: int
    founded: bool
    leader: MasterShape | None
    in_sync: Sequence[int]
    eligible: Sequence[int]
    learners: Sequence[int]
    committed: PointShape
    brokers: Sequence[BrokerShape]
    rules: RulesShape
    transfer: TransferShape | None
    why: str


class GroupSummary(_Shape, frozen=True, kw_only=True):
    """One group in a list. Earlier controllers do not tell `min_in_sync`."""

    cluster: str
    name: str
    epoch: int
    leader: MasterShape | None
    in_sync: Sequence[int]
    min_in_sync: int = 1
    brokers: int
    alive: int | None
    why: str


class GroupsPage(_Shape, frozen=True, kw_only=True):
    """`GET /groups`: a page of the groups in order. `after`: ask with `?after=` this for the next, null at the end."""

    position: int
    confirmed: bool
    live: bool
    groups: Sequence[GroupSummary]
    after: str | None


class OptionShape(_Shape, frozen=True, kw_only=True):
    """An option that can be set while the controllers run. `set`: it was, and holds whatever a file says."""

    value: int
    minimum: int
    maximum: int
    set: bool


class ConfigPage(_Shape, frozen=True, kw_only=True):
    """`GET /config`. `process` is what this one was started with."""

    position: int
    confirmed: bool
    values: Mapping[str, OptionShape]
    process: Mapping[str, str]


def point_shape(point: Point) -> PointShape:
    """A place as it is shown."""
    return PointShape(epoch=point.epoch, position=point.position)


def error(status: int, reason: str, sentence: str, **more: object) -> Document:
    """A refusal: a name for programs, a sentence for people, and the values that it is about."""
    return Document(status, {"error": sentence, "reason": reason, **more})
