"""Every metric of LogHerd: name, kind, labels and what it means; and a scrape's readings of them.

Names end in their base unit, counters in `_total`. Labels have few values, known beforehand: request and answer codes,
ports, positions, roles, and the brokers or controllers of one group. docs/metrics.md is generated from this module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from logherd.kit.errors import ensure
from logherd.telemetry.spread import Spread

__all__ = ["PROCESS", "SECTIONS", "Kind", "Metric", "Reading", "Readings"]


class Kind(StrEnum):
    """What can be done with the values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is the exposed one."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


Reading = tuple[tuple[str, ...], float | Spread]
"""Values of the labels, and the value or, for a histogram, the spread."""


class Readings:
    """What one scrape found. A metric that was not told is left out: it means nothing here."""

    def __init__(self) -> None:
        self._told: dict[Metric, list[Reading]] = {}

    def tell(self, metric: Metric, value: float | Spread, *labels: str) -> None:
        """One value; `labels` in the metric's order."""
        ensure(len(labels) == len(metric.labels), "one value for each label", metric.name, labels)
        self._told.setdefault(metric, []).append((labels, value))

    def one_of(self, metric: Metric, values: type[StrEnum] | tuple[str, ...], current: str) -> None:
        """1 for the current of all values of the metric's label, 0 for the others."""
        for value in values:
            self.tell(metric, float(value == current), str(value))

    def __iter__(self) -> Iterator[tuple[Metric, list[Reading]]]:
        return iter(self._told.items())


def _counter(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"logherd_{name}_total", Kind.COUNTER, help_, labels)


def _gauge(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"logherd_{name}", Kind.GAUGE, help_, labels)


def _histogram(name: str, help_: str) -> Metric:
    return Metric(f"logherd_{name}", Kind.HISTOGRAM, help_)


# ---- any process

BUILD_INFO = _gauge("build_info", "Always 1; the version stands in the label.", "version")
READY = _gauge("ready", "1 while the process should be asked, as GET /ready says.")
HEALTHY = _gauge("healthy", "1 unless a restart could help, as GET /health says.")
MEMORY = _gauge("memory_anonymous_bytes", "Memory of the process without mapped files, which the log's reads are.")
REQUESTS = _counter(
    "requests", "Requests by their code. At a broker all but sends and pulls, which have counters of their own.", "code"
)
REFUSALS = _counter("refusals", "Requests that were answered at once with another code than success.", "code", "answer")
CONNECTIONS = _gauge("connections", "Open connections by port: broker, controller or names.", "port")
ACCEPTED = _counter("connections_accepted", "Connections that were accepted.", "port")
TURNED_AWAY = _counter("connections_refused", "Connections that were refused because too many were open.", "port")
RECEIVED = _counter("network_received_bytes", "Bytes that clients have sent.", "port")
SENT = _counter("network_sent_bytes", "Bytes that were sent to clients.", "port")
HELD_BYTES = _gauge("network_held_bytes", "Memory that requests, half frames and unsent answers take.", "port")
FLUSH_SECONDS = _histogram("flush_seconds", "Time to write and flush one batch of the log.")

PROCESS: Final = (
    Metric("process_cpu_seconds_total", Kind.COUNTER, "Time on processors, user and system."),
    Metric("process_max_fds", Kind.GAUGE, "Descriptors that the process may open."),
    Metric("process_open_fds", Kind.GAUGE, "Open descriptors."),
    Metric("process_resident_memory_bytes", Kind.GAUGE, "Resident memory, mapped files included."),
    Metric("process_start_time_seconds", Kind.GAUGE, "Start of the process, seconds since 1970."),
    Metric("process_virtual_memory_bytes", Kind.GAUGE, "Address space."),
)
"""What the Prometheus client library reads of /proc, under its names."""

# ---- brokers

MESSAGES_IN = _counter("messages_in", "Messages that were appended for producers.")
BYTES_IN = _counter("message_in_bytes", "Bytes of the messages that were appended for producers, as they are stored.")
MESSAGES_OUT = _counter("messages_out", "Messages that pulls have taken, counted again for each group.")
BYTES_OUT = _counter("message_out_bytes", "Bytes of the messages that pulls have taken.")
SENDS = _counter("send_requests", "Requests that appended messages.")
PULLS = _counter("pull_requests", "Pulls by result: found, or missed when nothing was there at first.", "result")
LONG_POLLS = _gauge("long_polls", "Pulls that wait for messages.")
ANSWERS_WAITING = _gauge("answers_waiting", "Answers that wait for a commit.")
TOPICS = _gauge("topics", "Topics, those of the system included.")
SUBSCRIPTION_GROUPS = _gauge("subscription_groups", "Consumer groups that have settings.")
BATCH_BYTES = _histogram("flush_batch_bytes", "Size of one batch of the log.")
POSITION = _gauge(
    "store_position_bytes", "Positions of the log: start (oldest kept), committed, flushed, end (appended).", "position"
)
UNWRITTEN = _gauge("store_unwritten_bytes", "Appended and not yet taken by the writer.")
LOG_BYTES = _gauge("store_log_bytes", "Size of all segments of the log.")
SEGMENTS_DELETED = _counter("store_segments_deleted", "Segments that retention has deleted since the start.")
RETENTION = _gauge("store_retention_seconds", "Age at which messages are deleted; 0: never because of age.")
ACCEPTS = _gauge(
    "store_accepts_messages", "1 while all messages find room above the disk's reserve, and the disk has not failed."
)
DISK_TOTAL = _gauge("disk_total_bytes", "Size of the file system that holds the data.")
DISK_FREE = _gauge("disk_free_bytes", "Free space of that file system.")
DISK_RESERVE = _gauge("disk_reserve_bytes", "Free space below which client writes are refused.")

# ---- brokers with replicas

ROLE = _gauge(
    "replication_role",
    "1 for the role that this replica has: leader, follower or none.",
    "role",
)
SERVING = _gauge("replication_serving", "1 while this replica leads, its barrier is committed and its lease runs.")
EPOCH = _gauge("replication_epoch", "The newest epoch that this replica knows.")
LEASE = _gauge("replication_lease_seconds", "How long the leader's lease still runs.")
IN_SYNC = _gauge(
    "replication_in_sync_replicas", "Members of the in-sync set; who of them has fallen behind, the leader alone knows."
)
MIN_IN_SYNC = _gauge("replication_min_in_sync_replicas", "With fewer members nothing is committed.")
PENDING = _gauge("replication_pending_change", "1 while a change of the in-sync set is proposed and not answered.")
CLOSED = _gauge("replication_writes_closed", "1 while the leader takes no writes of clients.")
FOLLOWER_IN_SYNC = _gauge("replication_follower_in_sync", "At the leader: 1 for each follower in sync.", "broker")
FOLLOWER_AWAITED = _gauge(
    "replication_follower_awaited",
    "At the leader: 1 for each follower that is to be in sync; 0 without a vote, and in mode static for whom the table "
    "of roles does not name.",
    "broker",
)
FOLLOWER_CONNECTED = _gauge("replication_follower_connected", "At the leader: 1 for each follower linked.", "broker")
FOLLOWER_LAG_BYTES = _gauge(
    "replication_follower_lag_bytes", "At the leader: bytes of the log that a follower has not flushed.", "broker"
)
FOLLOWER_LAG_SECONDS = _gauge(
    "replication_follower_lag_seconds", "At the leader: time since a follower last had everything.", "broker"
)
FORWARDED = _counter("forwarded_requests", "Clients' requests that this broker took while it did not lead.")
HELD = _gauge("held_requests", "Requests of clients that wait for a leader.")
DAMAGE_MET = _gauge("store_damage_places", "Places of its store at which this process has met damage.")
DAMAGED = _gauge("store_damaged_bytes", "While a replica heals: bytes of its log that were found damaged.")
MENDED = _counter("store_mended_bytes", "While a replica heals: bytes that it has fetched in place of damaged ones.")

# ---- controllers

RAFT_ROLE = _gauge("raft_role", "1 for the role that this controller has in the quorum.", "role")
RAFT_TERM = _gauge("raft_term", "Term of this controller in the quorum.")
RAFT_POSITION = _gauge("raft_position_bytes", "Positions of the controllers' log: applied, committed, end.", "position")
RAFT_DISK_FULL = _gauge("raft_disk_full", "1 while it takes no records, for want of disk space or of descriptors.")
RAFT_CANDIDACIES = _counter("raft_candidacies", "How often this controller stood for election.")
RAFT_LEADERSHIPS = _counter("raft_leaderships", "How often it was elected and became ready.")
RAFT_CONNECTED = _gauge("raft_member_connected", "1 for each other controller that is linked.", "node")
RAFT_LAG = _gauge("raft_member_lag_bytes", "At the leader: bytes of the log that a member has not flushed.", "node")
OFFICE = _gauge("controller_serving", "1 at the controller that decides and grants leases.")
GROUPS = _gauge(
    "controller_groups",
    "Broker groups; at the deciding controller by state: serving, waiting (a lease may run), leaderless, new (never "
    "led) or empty; elsewhere unknown.",
    "state",
)
BROKERS = _gauge(
    "controller_brokers",
    "Brokers; at the deciding controller by state: alive, silent or exited; elsewhere unknown.",
    "state",
)
LEASES = _gauge("controller_leases", "At the deciding controller: groups whose leader holds a lease that runs.")
ELECTIONS = _counter("controller_elections", "Leaders of broker groups elected, as applied here since the start.")
NAMES_BROKERS = _gauge("names_brokers", "Broker names that the name service of this process has routes of.")
NAMES_TOPICS = _gauge("names_topics", "Topics that the name service of this process has routes of.")

SECTIONS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "Every process": (
        BUILD_INFO, READY, HEALTHY, MEMORY, REQUESTS, REFUSALS, CONNECTIONS, ACCEPTED, TURNED_AWAY, RECEIVED, SENT,
        HELD_BYTES, FLUSH_SECONDS, NAMES_BROKERS, NAMES_TOPICS, *PROCESS,
    ),
    "Brokers": (
        MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, SENDS, PULLS, LONG_POLLS, ANSWERS_WAITING, TOPICS,
        SUBSCRIPTION_GROUPS, BATCH_BYTES, POSITION, UNWRITTEN, LOG_BYTES, SEGMENTS_DELETED, RETENTION, ACCEPTS,
        DISK_TOTAL, DISK_FREE, DISK_RESERVE,
    ),
    "Brokers of a replicated group": (
        ROLE, SERVING, EPOCH, LEASE, IN_SYNC, MIN_IN_SYNC, PENDING, CLOSED, FOLLOWER_IN_SYNC, FOLLOWER_AWAITED,
        FOLLOWER_CONNECTED, FOLLOWER_LAG_BYTES, FOLLOWER_LAG_SECONDS, FORWARDED, HELD,
    ),
    "Replicas and damage": (DAMAGE_MET, DAMAGED, MENDED),
    "Controllers": (
        RAFT_ROLE, RAFT_TERM, RAFT_POSITION, RAFT_DISK_FULL, RAFT_CANDIDACIES, RAFT_LEADERSHIPS, RAFT_CONNECTED,
        RAFT_LAG, OFFICE, GROUPS, BROKERS, LEASES, ELECTIONS,
    ),
}  # fmt: skip
"""All metrics, as the page lists them."""
