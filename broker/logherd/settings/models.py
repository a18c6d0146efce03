"""The groups of the broker's configuration file: names, defaults, bounds, and what each value means. Some of them are
the controller's too.

`docs/settings.md` is generated from here. A key that is not here is refused by its path.
"""

from typing import Literal

from pydantic import Field, model_validator

from logherd.settings.base import Group
from logherd.settings.guardian import GuardianSettings
from logherd.settings.quantities import (
    EVERY_INTERFACE,
    Bytes,
    EndpointText,
    Milliseconds,
    PathText,
    Whole,
    split_endpoint,
)
from logherd.settings.replication import ReplicationSettings

__all__ = [
    "NAME", "BrokerSettings", "LimitSettings", "LogSettings", "NameServiceSettings",
    "RetentionSettings", "StoreSettings", "TopicSettings",
]  # fmt: skip

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_HOUR = 3_600_000
_RECORD_OVERHEAD = 128 * _KIB
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"


class NameServiceSettings(Group):
    """Where clients ask for routes."""

    mode: Literal["embedded", "external"] = Field(
        default="embedded",
        description="`embedded` runs the name service in this process; `external` registers with others.",
    )
    listen: EndpointText = Field(default="127.0.0.1:9876", description="Address of the embedded name service.")
    addresses: tuple[EndpointText, ...] = Field(
        default=(), max_length=16, description="Name servers to register with when the mode is `external`."
    )

    @model_validator(mode="after")
    def _addresses_fit_mode(self) -> "NameServiceSettings":
        if (self.mode == "external") != bool(self.addresses):
            right = "at least one address" if self.mode == "external" else "no addresses"
            raise ValueError(f"mode {self.mode} needs {right}")
        return self


class RetentionSettings(Group):
    """When old messages go. A segment is deleted as a whole, and never while a consumer reads it."""

    age_ms: Milliseconds = Field(
        default=72 * _HOUR,
        alias="age",
        ge=1000,
        description="Segments last written longer ago are deleted.",
    )
    size_bytes: Bytes | None = Field(
        default=None,
        alias="size",
        ge=_MIB,
        description="Delete the oldest segments above this total; none: no limit.",
    )


class StoreSettings(Group):
    """The message store. Sizes that shape files must stay as they were when the store was made."""

    segment_bytes: Bytes = Field(
        default=_GIB,
        alias="segmentSize",
        ge=_MIB,
        le=_GIB,
        description="Size of one commit log file; a multiple of 4 KiB.",
        multiple_of=4096,
    )
    queue_file_entries: Whole = Field(
        default=300_000, ge=1000, le=10_000_000, description="Entries in one consume queue file."
    )
    index_slots: Whole = Field(default=5_000_000, ge=16, le=50_000_000, description="Hash slots of one key index file.")
    index_entries: Whole = Field(
        default=20_000_000, ge=64, le=200_000_000, description="Entries of one key index file."
    )
    message_bytes_max: Bytes = Field(
        default=4 * _MIB,
        alias="messageSizeMax",
        ge=1024,
        le=15 * _MIB,  # brokers and stock clients take frames of 16 MiB from each other
        description="Largest body that is accepted.",
    )
    batch_bytes_max: Bytes = Field(
        default=4 * _MIB,
        alias="batchSizeMax",
        ge=64 * _KIB,
        le=64 * _MIB,
        description="Most bytes in one write and flush.",
    )
    async_flush_interval_ms: Milliseconds = Field(
        default=500,
        alias="asyncFlushInterval",
        ge=10,
        le=60_000,
        description="With `flush: async`, how often written data is flushed: the most time that a power cut can lose.",
    )
    reserved_percent: Whole = Field(
        default=10,
        ge=0,
        le=50,
        description="Client writes are refused while less than this share of the disk is free; reads go on.",
    )
    retention: RetentionSettings = Field(default_factory=RetentionSettings, description="When old messages go.")

    @model_validator(mode="after")
    def _sizes_fit(self) -> "StoreSettings":
        # A record and the blank that ends a segment must fit into one segment, and a batch holds at least one record.
        if self.message_bytes_max + _RECORD_OVERHEAD > self.segment_bytes:
            raise ValueError("messageSizeMax and 128 KiB for the rest of a record must fit into segmentSize")
        return self


class TopicSettings(Group):
    """What happens with topics and groups that nobody has made."""

    auto_create: bool = Field(default=True, description="Make a topic on its first send.")
    auto_create_groups: bool = Field(default=True, description="Make a consumer group on its first heartbeat or pull.")
    default_queues: Whole = Field(
        default=8,
        ge=1,
        le=1024,
        description="Queues of a topic made by a send; the client may ask for fewer.",
    )


class LimitSettings(Group):
    """What one peer may ask for before it is refused, slowed down or disconnected."""

    frame_bytes: Bytes = Field(
        default=16 * _MIB,
        alias="frameSize",
        ge=64 * _KIB,
        le=256 * _MIB,
        description="Largest frame; checked before any of it is kept.",
    )
    header_bytes: Bytes = Field(
        default=256 * _KIB, alias="headerSize", ge=4 * _KIB, description="Largest frame header."
    )
    connections: Whole = Field(default=5000, ge=1, le=100_000, description="Open client connections in total.")
    connections_per_address: Whole = Field(
        default=200, ge=1, le=100_000, description="Open connections from one address."
    )
    requests_per_connection: Whole = Field(default=256, ge=1, description="Requests in work on one connection.")
    parked_pulls_per_connection: Whole = Field(
        default=4096, ge=1,
        description="Waiting pulls on one connection; more are refused (2), and tried again by clients each second.",
    )  # fmt: skip
    request_bytes_per_connection: Bytes = Field(
        default=32 * _MIB, alias="requestSizePerConnection", ge=_MIB, description="Bytes in work before reading stops."
    )
    unsent_bytes_per_connection: Bytes = Field(
        default=32 * _MIB,
        alias="unsentSizePerConnection",
        ge=_MIB,
        description="Unread answers before the peer is disconnected; at a broker at least the largest message.",
    )
    buffered_bytes: Bytes | None = Field(
        default=None,
        alias="bufferedSize",
        ge=16 * _MIB,
        description="Bytes held for all peers together before reading stops; none: a quarter of the memory that the "
        "process can have (its control group's limit, or the machine's), at most 256MiB.",
    )
    first_frame_ms: Milliseconds = Field(
        default=5000,
        alias="firstFrameTime",
        ge=100,
        description="Time for the first frame; at a name service `idleTime`, if that is longer.",
    )
    frame_ms: Milliseconds = Field(
        default=10_000, alias="frameTime", ge=100, description="Time for the rest of a begun frame."
    )
    idle_ms: Milliseconds = Field(
        default=120_000, alias="idleTime", ge=1000, description="Silence after which a peer is gone."
    )

    @model_validator(mode="after")
    def _header_fits_frame(self) -> "LimitSettings":
        if self.header_bytes + 4 > self.frame_bytes:
            raise ValueError("headerSize and 4 bytes must fit into frameSize")
        return self


class LogSettings(Group):
    """The process's own log lines, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is written."
    )
    format: Literal["text", "json"] = Field(default="text", description="`json` writes one object per line.")


class BrokerSettings(Group):
    """One broker process."""

    broker_group: str = Field(pattern=NAME, description="Name of the replication group; RocketMQ's brokerName.")
    cluster_name: str = Field(
        default="DefaultCluster", pattern=NAME, description="Name of the cluster that the group is in."
    )
    broker_id: Whole = Field(
        default=0,
        ge=0,
        le=999,
        description="Number of this broker in its group: 0 for a broker alone, from 1 on in a replicated group.",
    )
    listen: EndpointText = Field(
        default="127.0.0.1:10911", description="Address for clients and mqadmin. Port 0: any free port."
    )
    advertised: EndpointText | None = Field(
        default=None, description="Address that routes tell clients; none: the listen address."
    )
    admin_listen: EndpointText = Field(
        default="127.0.0.1:10913", description="Address of the admin HTTP: /status /health /ready."
    )
    admin_token_file: PathText | None = Field(
        default=None,
        description="File with the secret that changes over the admin HTTP must bring: settings, and in the modes raft "
        "and static who leads. None: they are refused.",
    )
    data_dir: PathText = Field(description="Folder of the store; made if it is not there.")
    name_service: NameServiceSettings = Field(
        default_factory=NameServiceSettings, description="Where clients ask for routes."
    )
    flush: Literal["sync", "async"] = Field(
        default="sync",
        description="`sync`: a send is answered after its record is on disk. `async`: before; a crash of the machine "
        "then loses up to `store.asyncFlushInterval` of answered messages (a crash of the process alone loses none).",
    )
    replication: ReplicationSettings = Field(
        default_factory=ReplicationSettings, description="How this broker and others keep one log."
    )
    store: StoreSettings = Field(default_factory=StoreSettings, description="The message store.")
    topics: TopicSettings = Field(default_factory=TopicSettings, description="Topics and groups that nobody has made.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="What one peer may ask for.")
    log: LogSettings = Field(default_factory=LogSettings, description="The broker's own log lines.")
    guardian: GuardianSettings = Field(
        default_factory=GuardianSettings, description="The parent process, and what peers do for each other."
    )

    properties: dict[str, str] = Field(
        default_factory=dict, max_length=200, description="Settings by their RocketMQ names; they win over the others."
    )

    @model_validator(mode="after")
    def _parts_agree(self) -> "BrokerSettings":
        if self.store.message_bytes_max + self.limits.header_bytes + _RECORD_OVERHEAD > self.limits.frame_bytes:
            raise ValueError(
                "store.messageSizeMax and limits.headerSize must fit into limits.frameSize with 128 KiB left"
            )
        self.replication.check_broker(self.broker_id, self.name_service.mode, self.flush)
        self.replication.classic_ha.check_broker(
            self.replication.mode, self.listen, follower_reads=self.replication.follower_reads
        )
        told_host, told_port = split_endpoint(self.advertised or self.listen)
        if told_host in EVERY_INTERFACE:
            raise ValueError("advertised is needed, because clients cannot connect to a wildcard listen address")
        if self.advertised is not None and told_port == 0:
            raise ValueError("advertised needs a real port, because clients are told it")
        return self
