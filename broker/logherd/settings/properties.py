"""RocketMQ's names for our settings: what a configuration may hold under `properties`, and `getBrokerConfig` prints.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/BrokerConfig.java
Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/config/MessageStoreConfig.java
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from logherd.settings.errors import SettingsError

if TYPE_CHECKING:
    from logherd.settings.options import BrokerOptions

__all__ = ["describe_options", "property_names", "property_paths", "set_properties"]

_HOUR_MS = 3_600_000
_HOURS_MAX = 999_999_999_999_999_999 // _HOUR_MS
_USED_PERCENT = (50, 100)
_QUEUE_UNIT_BYTES = 20
_QUEUE_BYTES = (1000 * _QUEUE_UNIT_BYTES, 10_000_000 * _QUEUE_UNIT_BYTES)


class _Property(NamedTuple):
    """One name: where its value stands, how RocketMQ writes it, and how to read it back."""

    path: str
    show: Callable[[Any], str] = str
    read: Callable[[str], object] | None = None
    """None: another key of the configuration owns it."""


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _read_bool(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("write true or false")
    return text == "true"


def _read_number(text: str, least: int | None = None, most: int | None = None) -> int:
    """With its bounds where its unit is not that of the setting, whose own would mean nothing to who wrote it."""
    bounds = "" if least is None else f" from {least} to {most}"
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"write a whole number{bounds}") from None
    if least is not None and most is not None and not least <= number <= most:
        raise ValueError(f"write a whole number{bounds}")
    return number


def _read_hours(text: str) -> int:
    return _read_number(text, 1, _HOURS_MAX) * _HOUR_MS


def _read_used_percent(text: str) -> int:
    return 100 - _read_number(text, *_USED_PERCENT)


def _read_queue_bytes(text: str) -> int:
    entries, rest = divmod(_read_number(text, *_QUEUE_BYTES), _QUEUE_UNIT_BYTES)
    if rest:
        raise ValueError(f"write a multiple of {_QUEUE_UNIT_BYTES}")
    return entries


def _show_addresses(addresses: tuple[object, ...]) -> str:
    return ";".join(str(address) for address in addresses)


_PROPERTIES: dict[str, _Property] = {
    "autoCreateSubscriptionGroup": _Property("topics.auto_create_groups", _show_bool, _read_bool),
    "autoCreateTopicEnable": _Property("topics.auto_create", _show_bool, _read_bool),
    "brokerClusterName": _Property("cluster_name"),
    "brokerId": _Property("broker_id"),
    "brokerName": _Property("broker_group"),
    "defaultTopicQueueNums": _Property("topics.default_queues", str, _read_number),
    "diskMaxUsedSpaceRatio": _Property(
        "store.reserved_percent", lambda percent: str(100 - percent), _read_used_percent
    ),
    "fileReservedTime": _Property("store.retention.age_ms", lambda ms: str(ms // _HOUR_MS), _read_hours),
    "flushDiskType": _Property("flush", lambda flush: f"{flush.upper()}_FLUSH"),
    "flushIntervalCommitLog": _Property("store.async_flush_interval_ms", str, _read_number),
    "listenPort": _Property("listen.port"),
    "mappedFileSizeCommitLog": _Property("store.segment_bytes", str, _read_number),
    "mappedFileSizeConsumeQueue": _Property(
        "store.queue_file_entries", lambda entries: str(entries * _QUEUE_UNIT_BYTES), _read_queue_bytes
    ),
    "maxHashSlotNum": _Property("store.index_slots", str, _read_number),
    "maxIndexNum": _Property("store.index_entries", str, _read_number),
    "maxMessageSize": _Property("store.message_bytes_max", str, _read_number),
    "namesrvAddr": _Property("name_service.addresses", _show_addresses),
    "storePathRootDir": _Property("data_dir"),
}


def property_names() -> list[str]:
    """Names that can be given in a configuration."""
    return [name for name, entry in _PROPERTIES.items() if entry.read is not None]


def property_paths() -> dict[str, str]:
    """Where in the option structs stands what each of these names is."""
    return {name: entry.path for name, entry in _PROPERTIES.items() if entry.read is not None}


def describe_options(options: "BrokerOptions") -> dict[str, str]:
    """Every known property with its value in RocketMQ's spelling, sorted by name."""
    return {name: entry.show(_value_at(options, entry.path)) for name, entry in _PROPERTIES.items()}


def set_properties(document: dict[str, Any], properties: Mapping[str, str]) -> None:
    """Put the values of `properties` into a document with the option structs' names; their bounds are not checked.

    Raises: SettingsError for a name that is unknown or belongs to another key, or a value that cannot be read.
    """
    for name, text in properties.items():
        entry = _PROPERTIES.get(name)
        if entry is None:
            close = get_close_matches(name, property_names(), n=1)
            known = f"did you mean {close[0]}?" if close else f"known here: {', '.join(property_names())}"
            raise SettingsError(f"{name}: unknown property; {known}")
        if entry.read is None:
            raise SettingsError(f"{name}: belongs to the key {entry.path}; known here: {', '.join(property_names())}")
        try:
            _set_at(document, entry.path, entry.read(text.strip()))
        except ValueError as error:
            raise SettingsError(f"{name}: {text!r} is not right: {error}") from error


def _value_at(options: object, path: str) -> Any:
    for part in path.split("."):
        options = getattr(options, part)
    return options


def _set_at(document: dict[str, Any], path: str, value: object) -> None:
    *groups, key = path.split(".")
    for group in groups:
        document = document[group]
    document[key] = value
