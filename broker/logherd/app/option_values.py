"""From the checked settings to the option values of each room."""

from collections.abc import Iterable
from dataclasses import replace

from logherd.app.memory import buffers_for, granted_memory
from logherd.model.host import encode_host
from logherd.net.intake import HEADER_SIZE
from logherd.net.limits import AdmissionLimits, FlowLimits, NetLimits, PatienceLimits
from logherd.net.server import Server
from logherd.service.metadata.defaults import DefaultsOptions
from logherd.service.pull.options import PullOptions
from logherd.service.send.options import SendOptions
from logherd.settings.options import BrokerOptions, LimitOptions, StorageOptions
from logherd.store import FOLLOWER_CACHED_BYTES, DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = [
    "defaults_options", "host_of", "names_limits", "net_limits", "pull_options", "relimit", "reserve_bytes",
    "retention_options", "send_options", "store_options",
]  # fmt: skip

_RECORD_OVERHEAD = 128 * 1024
"""What a record may need beside its body: properties (32 KiB), topic, fixed fields."""

_WAITING_PULLS_PARTS = (3, 4)
"""How much of the memory for clients their waiting pulls may take: 1 KiB each, as `net` counts them."""

_WAITING_BESIDE_PULLS = 256
"""At the limit of what waits on a connection it is not read any more, neither are its sends and heartbeats. Pulls alone
never come to that: they are refused before."""

_SLOW_CLIENTS = 64
"""So many clients may leave as many answers unread as one may before the memory of all is used up."""


def store_options(options: BrokerOptions, *, store_host: bytes, disk_bytes: int, cached_files: int) -> StoreOptions:
    """`disk_bytes` is the size of the file system, of which a share is the reserve."""
    storage = options.store
    return StoreOptions(
        store_host=store_host,
        log=LogOptions(
            segment_bytes=storage.segment_bytes,
            record_bytes_max=storage.message_bytes_max + _RECORD_OVERHEAD,
            batch_bytes_max=storage.batch_bytes_max,
            flush=options.flush,
            async_flush_ms=storage.async_flush_interval_ms,
            reserve_bytes=reserve_bytes(storage, disk_bytes),
            follower_cached_bytes=None if options.replication.follower_reads else FOLLOWER_CACHED_BYTES,
        ),
        derived=DerivedOptions(
            queue_file_units=storage.queue_file_entries,
            index_slots=storage.index_slots,
            index_entries=storage.index_entries,
            open_files_max=cached_files,
        ),
        retention=retention_options(storage),
        replicated=options.replication.mode != "alone",
    )


def reserve_bytes(storage: StorageOptions, disk_bytes: int) -> int:
    """What clients' messages leave free."""
    return disk_bytes * storage.reserved_percent // 100


def retention_options(storage: StorageOptions) -> RetentionOptions:
    """What may be deleted."""
    return RetentionOptions(age_ms=storage.retention.age_ms, bytes_max=storage.retention.size_bytes)


def defaults_options(options: BrokerOptions) -> DefaultsOptions:
    """What a new broker group begins with."""
    queues = options.topics.default_queues if options.topics.auto_create else 0
    return DefaultsOptions(options.cluster_name, options.broker_group, auto_create_queues=queues)


def send_options(options: BrokerOptions, *, store_host: bytes) -> SendOptions:
    return SendOptions(
        cluster_name=options.cluster_name,
        broker_name=options.broker_group,
        store_host=store_host,
        auto_create_topics=options.topics.auto_create,
        body_bytes_max=options.store.message_bytes_max,
    )


def pull_options(options: BrokerOptions) -> PullOptions:
    """Once the memory of all is used up nobody is read, whoever used it: so pulls that wait leave a part of it."""
    share = _buffers(options.limits) // HEADER_SIZE * _WAITING_PULLS_PARTS[0] // _WAITING_PULLS_PARTS[1]
    return PullOptions(
        auto_create_groups=options.topics.auto_create_groups,
        parked_max=min(PullOptions().parked_max, share),
        session_parked_max=options.limits.parked_pulls_per_connection,
    )


def net_limits(limits: LimitOptions, *, connections: int, body_bytes_max: int = 0) -> NetLimits:
    """`connections` is what the process has descriptors for, at most what the settings allow. A client may leave one
    answer unread whatever they say, also with the largest message, whose body has `body_bytes_max`: else it could never
    read that. What the settings leave open goes by the memory that the process can have; to find that out blocks for a
    few reads."""
    buffers = _buffers(limits)
    return NetLimits(
        admission=AdmissionLimits(connections, limits.connections_per_address),
        patience=PatienceLimits(
            first_frame_seconds=limits.first_frame_ms / 1000,
            frame_seconds=limits.frame_ms / 1000,
            idle_seconds=limits.idle_ms / 1000,
        ),
        flow=FlowLimits(
            running_max=limits.requests_per_connection,
            parked_max=limits.parked_pulls_per_connection + _WAITING_BESIDE_PULLS,
            request_bytes_max=limits.request_bytes_per_connection,
            unsent_bytes_soft=min(FlowLimits().unsent_bytes_soft, buffers // _SLOW_CLIENTS),
            unsent_bytes_max=max(limits.unsent_bytes_per_connection, body_bytes_max + _RECORD_OVERHEAD),
            total_bytes_max=buffers,
        ),
        wire=WireLimits(
            frame_bytes_max=limits.frame_bytes,
            header_bytes_max=limits.header_bytes,
            value_bytes_max=min(limits.header_bytes, DEFAULT_LIMITS.value_bytes_max),
        ),
    )


def _buffers(limits: LimitOptions) -> int:
    return buffers_for(granted_memory()) if limits.buffered_bytes is None else limits.buffered_bytes


def names_limits(limits: LimitOptions, *, connections: int) -> NetLimits:
    """The same for a name service: who has not asked yet may wait as long as who has. Java clients connect to all name
    servers when they start, ask one of them, and connect anew, within seconds, to another that ends its connection."""
    told = net_limits(limits, connections=connections)
    first = max(told.patience.first_frame_seconds, told.patience.idle_seconds)
    return replace(told, patience=replace(told.patience, first_frame_seconds=first))


def relimit(server: Server | None, names: Iterable[Server], limits: LimitOptions, *, body_bytes_max: int = 0) -> None:
    """Let those that listen go by these limits from now on, each with the number of connections that it was given."""
    if server is not None:
        server.relimit(net_limits(limits, connections=server.connections_max, body_bytes_max=body_bytes_max))
    for each in names:
        each.relimit(names_limits(limits, connections=each.connections_max))


def host_of(ip: str, port: int) -> bytes:
    """The address that records carry. A host name is written as loopback: the format holds nothing but IP addresses."""
    try:
        return encode_host(ip, port)
    except ValueError:
        return encode_host("127.0.0.1", port)
