"""RocketMQ's names for our settings: what `getBrokerConfig` prints and what `updateBrokerConfig` may change.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/BrokerConfig.java
Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/config/MessageStoreConfig.java
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from logherd.settings.errors import SettingsError
from logherd.settings.options import BrokerOptions

__all__ = ["change_options", "describe_options", "property_names"]

_HOUR_MS = 3_600_000
_QUEUE_UNIT_BYTES = 20


class _Property(NamedTuple):
    """One name: where its value stands, how RocketMQ writes it, how to read it back, and when it may be given."""

    path: str
    show: Callable[[Any], str] = str
    read: Callable[[str], object] | None = None
    """None: another key of the configuration owns it."""
    live: bool = False
    """May be changed while the broker runs."""


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _read_bool(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("write true or false")
    return text == "true"


def _read_hours(text: str) -> int:
    return int(text) * _HOUR_MS


def _read_queue_bytes(text: str) -> int:
    entries, rest = divmod(int(text), _QUEUE_UNIT_BYTES)
    if rest:
        raise ValueError(f"write a multiple of {_QUEUE_UNIT_BYTES}")
    return entries


def _show_addresses(addresses: tuple[object, ...]) -> str:
    return ";".join(str(address) for address in addresses)


_PROPERTIES: dict[str, _Property] = {
    "autoCreateSubscriptionGroup": _Property("topics.auto_create_groups", _show_bool, _read_bool, live=True),
    "autoCreateTopicEnable": _Property("topics.auto_create", _show_bool, _read_bool, live=True),
    "brokerClusterName": _Property("cluster_name"),
    "brokerId": _Property("broker_id"),
    "brokerName": _Property("broker_group"),
    "defaultTopicQueueNums": _Property("topics.default_queues", str, int, live=True),
    "deleteWhen": _Property("store.retention.delete_hour", "{:02d}".format, int, live=True),
    "diskMaxUsedSpaceRatio": _Property(
        "store.reserved_percent", lambda percent: str(100 - percent), lambda text: 100 - int(text), live=True
    ),
    "fileReservedTime": _Property("store.retention.age_ms", lambda ms: str(ms // _HOUR_MS), _read_hours, live=True),
    "flushDiskType": _Property("flush", lambda flush: f"{flush.upper()}_FLUSH"),
    "flushIntervalCommitLog": _Property("store.async_flush_interval_ms", str, int),
    "listenPort": _Property("listen.port"),
    "mappedFileSizeCommitLog": _Property("store.segment_bytes", str, int),
    "mappedFileSizeConsumeQueue": _Property(
        "store.queue_file_entries", lambda entries: str(entries * _QUEUE_UNIT_BYTES), _read_queue_bytes
    ),
    "maxHashSlotNum": _Property("store.index_slots", str, int),
    "maxIndexNum": _Property("store.index_entries", str, int),
    "maxMessageSize": _Property("store.message_bytes_max", str, int),
    "namesrvAddr": _Property("name_service.addresses", _show_addresses),
    "storePathRootDir": _Property("data_dir"),
}


def property_names() -> dict[str, bool]:
    """Names that can be given, and whether each can be changed while the broker runs."""
    return {name: entry.live for name, entry in _PROPERTIES.items() if entry.read is not None}


def describe_options(options: BrokerOptions) -> dict[str, str]:
    """Every known property with its value in RocketMQ's spelling, sorted by name."""
    return {name: entry.show(_value_at(options, entry.path)) for name, entry in _PROPERTIES.items()}


def change_options(options: BrokerOptions, changes: Mapping[str, str], *, live: bool = True) -> BrokerOptions:
    """New options with all `changes`, or none of them; `live` refuses what needs a restart.

    Loads pydantic on its first use, which blocks for about 0.2 s; it is called when an administrator asks.
    Raises: SettingsError for an unknown name, a wrong value, or a property that cannot be changed this way.
    """
    from logherd.settings.checked import check_options

    document = msgspec.to_builtins(options)
    for name, text in changes.items():
        path, read = _changeable(name, live=live)
        try:
            _set_at(document, path, read(text.strip()))
        except ValueError as error:
            raise SettingsError(f"{name}: {text!r} is not right: {error}") from error
    return check_options(document)


def _changeable(name: str, *, live: bool) -> tuple[str, Callable[[str], object]]:
    entry = _PROPERTIES.get(name)
    known = ", ".join(each for each, p in _PROPERTIES.items() if p.read and (p.live or not live))
    if entry is None:
        raise SettingsError(f"{name}: unknown property; known here: {known}")
    if entry.read is None:
        raise SettingsError(f"{name}: belongs to another key of the configuration file; known here: {known}")
    if live and not entry.live:
        raise SettingsError(f"{name}: needs a restart with another configuration file; can be changed now: {known}")
    return entry.path, entry.read


def _value_at(options: object, path: str) -> Any:
    for part in path.split("."):
        options = getattr(options, part)
    return options


def _set_at(document: dict[str, Any], path: str, value: object) -> None:
    *groups, key = path.split(".")
    for group in groups:
        document = document[group]
    document[key] = value
