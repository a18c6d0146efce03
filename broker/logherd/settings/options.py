"""The settings as the running broker holds them: frozen structs without defaults, units in the names.

Made only by this room from checked models, so a reader may trust every bound. Cheap to import: a broker process never
loads pydantic unless its configuration is changed at run time.
"""

from typing import Literal

import msgspec

__all__ = [
    "BrokerOptions", "ClassicHaOptions", "ControllerOptions", "ElectionOptions", "Endpoint", "GuardianOptions",
    "LimitOptions", "LogOptions", "MemberOptions", "NameServiceOptions", "OwnNameServiceOptions", "ReplicationOptions",
    "RetentionOptions", "RolesOptions", "StorageOptions", "TopicOptions", "VotingOptions",
]  # fmt: skip


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base: immutable, every field given by name."""


class Endpoint(Options, frozen=True):
    """Where to listen or connect; `str()` gives host:port. Port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NameServiceOptions(Options, frozen=True):
    mode: Literal["embedded", "external"]
    listen: Endpoint
    addresses: tuple[Endpoint, ...]


class RetentionOptions(Options, frozen=True):
    age_ms: int
    size_bytes: int | None


class StorageOptions(Options, frozen=True):
    segment_bytes: int
    queue_file_entries: int
    index_slots: int
    index_entries: int
    message_bytes_max: int
    batch_bytes_max: int
    async_flush_interval_ms: int
    reserved_percent: int
    retention: RetentionOptions


class TopicOptions(Options, frozen=True):
    auto_create: bool
    auto_create_groups: bool
    default_queues: int


class LimitOptions(Options, frozen=True):
    frame_bytes: int
    header_bytes: int
    connections: int
    connections_per_address: int
    requests_per_connection: int
    parked_pulls_per_connection: int
    request_bytes_per_connection: int
    unsent_bytes_per_connection: int
    buffered_bytes: int | None
    first_frame_ms: int
    frame_ms: int
    idle_ms: int


class LogOptions(Options, frozen=True):
    level: Literal["debug", "info", "warning", "error"]
    format: Literal["text", "json"]


class GuardianOptions(Options, frozen=True):
    relay_listen: Endpoint | None
    peers: tuple[Endpoint, ...]
    state_file: str | None
    stop_ms: int


class ClassicHaOptions(Options, frozen=True):
    """At most one of the addresses is given."""

    listen: Endpoint | None
    master: Endpoint | None
    metadata_interval_ms: int


class ElectionOptions(Options, frozen=True):
    timeout_ms: int
    spread_ms: int
    heartbeat_ms: int


class VotingOptions(Options, frozen=True):
    """Raft mode. `founders` are never empty in that mode, and sorted. No `members`: all of `peers`."""

    founders: tuple[int, ...]
    members: tuple[int, ...]
    election: ElectionOptions


class RolesOptions(Options, frozen=True):
    """Static mode, as it begins. Checked: `copies` is right for `synchronous`, of which the leader is none."""

    leader: int
    synchronous: tuple[int, ...]
    copies: int


class FollowerReadOptions(Options, frozen=True):
    """Whether followers answer pulls, and of which consumers; bytes."""

    follower_reads: bool
    follower_reads_behind: int


class ReplicationOptions(FollowerReadOptions, frozen=True):
    """`peers` may hold this broker's own address; in raft and static mode all have the same."""

    mode: Literal["alone", "controller", "raft", "static"]
    raft: VotingOptions
    static: RolesOptions | None
    controllers: tuple[Endpoint, ...]
    peer_listen: Endpoint
    peers: dict[int, Endpoint]
    leader_address: Endpoint | None
    replicas: int
    min_in_sync: int
    lag_timeout_ms: int
    heartbeat_ms: int
    learner: bool
    priority: int
    classic_ha: ClassicHaOptions


class BrokerOptions(Options, frozen=True):
    """Everything that one broker process needs to know from outside."""

    broker_group: str
    cluster_name: str
    broker_id: int
    listen: Endpoint
    advertised: Endpoint | None
    admin_listen: Endpoint
    admin_token_file: str | None
    data_dir: str
    name_service: NameServiceOptions
    flush: Literal["sync", "async"]
    replication: ReplicationOptions
    store: StorageOptions
    topics: TopicOptions
    limits: LimitOptions
    log: LogOptions
    guardian: GuardianOptions


class MemberOptions(Options, frozen=True):
    """One controller: where its `peer_listen`, its `listen` and its `admin_listen` are reached from elsewhere."""

    name: str
    peer: Endpoint
    address: Endpoint
    admin: Endpoint | None


class OwnNameServiceOptions(Options, frozen=True):
    mode: Literal["embedded", "none"]
    listen: Endpoint


class ControllerOptions(Options, frozen=True):
    """Everything that one controller process needs to know from outside."""

    cluster_name: str
    node_name: str
    controllers: tuple[MemberOptions, ...]
    """1, 3 or 5 with different names, `node_name` among them; in the order of the file, which founding goes by."""
    listen: Endpoint
    peer_listen: Endpoint
    admin_listen: Endpoint
    admin_token_file: str | None
    data_dir: str
    name_service: OwnNameServiceOptions
    lease_ms: int
    clock_drift_percent: int
    election: ElectionOptions
    snapshot_records: int
    snapshot_bytes: int
    limits: LimitOptions
    log: LogOptions
    guardian: GuardianOptions

    @property
    def clock_drift_ppm(self) -> int:
        """The same bound in millionths."""
        return self.clock_drift_percent * 10_000

    def member(self, name: str) -> MemberOptions | None:
        """The controller of this name."""
        return next((member for member in self.controllers if member.name == name), None)
