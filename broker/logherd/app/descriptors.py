"""Descriptors: what the system grants this process, divided so that clients cannot take those that the store needs.

A store without a descriptor cannot write what it derives from the log, and stops. So connections get what is left after
the store's share, however many the settings allow.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

from logherd.app.guarded.relay import WAITING_MAX
from logherd.kit.errors import LogHerdError
from logherd.settings.options import BrokerOptions, GuardianOptions
from logherd.store.index_set import INDEX_FILES_OPEN_MAX

__all__ = [
    "DescriptorShares", "TooFewDescriptors", "grant_descriptors", "relays_for", "share_descriptors", "shares_for",
]  # fmt: skip

_CACHED_FILES_MAX = 512
_CACHED_FILES_MIN = 4
_OWN = 24
"""Standard streams, event loop, listeners, probes, and the files that every store keeps open."""
_PER_SEGMENT = 2
"""Its file and its mapping."""
_CONNECTIONS_MIN = 8


class TooFewDescriptors(LogHerdError):
    """The system grants this process too few descriptors for its store and a handful of clients."""


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """Most files that each of the store's two caches keeps open, and most connections of broker and name service."""

    cached_files: int
    broker_connections: int
    name_connections: int


def grant_descriptors() -> int:
    """Raise the process' limit as far as it may raise it; returns how many descriptors it can have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # a hard limit beyond what the kernel allows
            return soft
    return hard


def shares_for(options: BrokerOptions, *, links: int = 0) -> DescriptorShares:
    """The shares of a broker with these settings, whose store holds the files that it holds now, and which takes so
    many links of other brokers beyond its clients. Raises the limit.

    Raises: TooFewDescriptors.
    """
    granted = grant_descriptors()
    directory = Path(options.data_dir)
    segments, indexed = (
        len(list(path.iterdir())) if path.is_dir() else 0 for path in (directory / "commitlog", directory / "index")
    )
    held = segments + min(indexed, INDEX_FILES_OPEN_MAX)
    return share_descriptors(
        granted, segments=held + max(4, granted // 64), connections=options.limits.connections,
        kept=links + relays_for(options.guardian),
    )  # fmt: skip


def relays_for(options: GuardianOptions) -> int:
    """Descriptors of connections to the relay port that are no client's yet."""
    return 0 if options.relay_listen is None else WAITING_MAX


def share_descriptors(granted: int, *, segments: int, connections: int, kept: int = 0) -> DescriptorShares:
    """Divide `granted` descriptors: the store and its `segments` files first, then up to `connections` clients.

    `kept` are those of connections that are no client's: to the relay port, and of other brokers to a full one.

    Raises: TooFewDescriptors.
    """
    if granted < 0:  # no limit at all
        return DescriptorShares(_CACHED_FILES_MAX, connections, connections)
    left = granted - _OWN - kept - _PER_SEGMENT * segments
    cached = max(_CACHED_FILES_MIN, min(_CACHED_FILES_MAX, left // 8))
    for_clients = left - 2 * cached
    if for_clients < 2 * _CONNECTIONS_MIN:
        needed = granted + 2 * _CONNECTIONS_MIN - for_clients
        raise TooFewDescriptors(
            f"this process may open {granted} descriptors, with {segments} log files it needs {needed}: raise the "
            "limit (ulimit -n, LimitNOFILE)"
        )
    names = max(_CONNECTIONS_MIN, min(connections, for_clients // 4))
    return DescriptorShares(cached, min(connections, for_clients - names), names)
