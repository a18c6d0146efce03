"""Which settings a running process takes, by their keys in the file. Every other one needs a restart.

A setting stands here only if whoever uses it can take another value between two passes of the event loop, and if no
answer that was given before would mean something else. Sizes that shape files, addresses, identities, what a send's
answer promises (`flush`) and what descriptors were shared for (`limits.connections`) do not.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from logherd.settings.errors import SettingsError
from logherd.settings.properties import describe_options, property_paths

if TYPE_CHECKING:
    from logherd.settings.load import Kind
    from logherd.settings.options import BrokerOptions, ControllerOptions

__all__ = ["HOT", "Hot", "digest_of", "hot_properties", "hot_values", "keys_of", "value_at"]


class Hot(NamedTuple):
    """A setting: where its value stands in the option structs, and how a value is told."""

    path: str
    show: Callable[[Any], str] = str


def _show_flag(value: bool) -> str:
    return "true" if value else "false"


def _show_time(milliseconds: int) -> str:
    return f"{milliseconds}ms"


def _show_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _show_size(size: int | None) -> str:
    return "none" if size is None else str(size)


_PEERS: Final = {
    "limits.connectionsPerAddress": Hot("limits.connections_per_address"),
    "limits.requestsPerConnection": Hot("limits.requests_per_connection"),
    "limits.parkedPullsPerConnection": Hot("limits.parked_pulls_per_connection"),
    "limits.requestSizePerConnection": Hot("limits.request_bytes_per_connection"),
    "limits.unsentSizePerConnection": Hot("limits.unsent_bytes_per_connection"),
    "limits.bufferedSize": Hot("limits.buffered_bytes", _show_size),
    "limits.firstFrameTime": Hot("limits.first_frame_ms", _show_time),
    "limits.frameTime": Hot("limits.frame_ms", _show_time),
    "limits.idleTime": Hot("limits.idle_ms", _show_time),
    "log.level": Hot("log.level"),
}

HOT: Final[dict[str, dict[str, Hot]]] = {
    "broker": {
        "replication.lagTimeout": Hot("replication.lag_timeout_ms", _show_time),
        "replication.heartbeat": Hot("replication.heartbeat_ms", _show_time),
        "replication.raft.members": Hot("replication.raft.members", _show_numbers),
        "store.asyncFlushInterval": Hot("store.async_flush_interval_ms", _show_time),
        "store.reservedPercent": Hot("store.reserved_percent"),
        "store.retention.age": Hot("store.retention.age_ms", _show_time),
        "store.retention.size": Hot("store.retention.size_bytes", _show_size),
        "topics.autoCreate": Hot("topics.auto_create", _show_flag),
        "topics.autoCreateGroups": Hot("topics.auto_create_groups", _show_flag),
        **_PEERS,
    },
    "controller": _PEERS,
}
"""By kind of process."""


def hot_properties() -> dict[str, str]:
    """RocketMQ's names of hot settings, with the key that each of them is."""
    keys = {hot.path: key for key, hot in HOT["broker"].items()}
    return {name: keys[path] for name, path in property_paths().items() if path in keys}


def keys_of(kind: "Kind", names: Iterable[str]) -> dict[str, str]:
    """The key in the file of each of these names; RocketMQ's names are known, too.

    Raises: SettingsError that begins with the first name that is none of a hot setting, or of one that is named twice.
    """
    aliases = hot_properties() if kind == "broker" else {}
    found: dict[str, str] = {}
    for name in names:
        key = aliases.get(name, name)
        if key not in HOT[kind]:
            known = ", ".join(sorted([*HOT[kind], *aliases]))
            raise SettingsError(f"{name}: cannot be changed while this process runs; what can: {known}")
        if key in found.values():
            raise SettingsError(f"{name}: is the same setting as another one that is given; give one of them")
        found[name] = key
    return found


def hot_values(kind: "Kind", options: "BrokerOptions | ControllerOptions") -> dict[str, str]:
    """All hot settings as they are in `options`; a broker's also by RocketMQ's names, in RocketMQ's units."""
    values = {key: hot.show(value_at(options, hot.path)) for key, hot in HOT[kind].items()}
    if kind == "broker":
        told = describe_options(options)  # type: ignore[arg-type]
        values |= {name: told[name] for name in hot_properties()}
    return values


def digest_of(values: dict[str, str]) -> str:
    """Twelve hexadecimal digits that name these values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def value_at(options: object, path: str) -> Any:
    """What stands at a path of the option structs."""
    for part in path.split("."):
        options = getattr(options, part)
    return options
