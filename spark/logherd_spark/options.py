"""Options of the data source: names as the Kafka source has them where it has the thing, unknown ones refused by name.

Spark gives all values as text, and names in any case.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from logherd_spark.errors import OptionRefused
from logherd_spark.patience import Patience

__all__ = ["Bound", "ReadOptions", "WriteOptions", "read_options", "write_options"]

EARLIEST, LATEST = -2, -1
_LONG_MAX = (1 << 63) - 1
"""Of a queue offset and of a time in ms: what the wire has room for."""
_TIMEOUT_MS_MAX = (1 << 31) - 1
"""24 days, as in Java; a socket waits no longer than some numbers allow."""
_DIGITS_MAX = 1_000
_NOTHING: Mapping[str, str] = MappingProxyType({})
_COMMON = ("bootstrap", "topic", "deliveryTimeoutMs", "requestTimeoutMs")
_READING = (
    *_COMMON, "subscribe", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "groupId",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "tags",
)  # fmt: skip
_BATCH_READING = (
    *_READING, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "filterPushdown",
)  # fmt: skip
_STREAM_READING = (*_READING, "maxOffsetsPerTrigger")
_WRITING = (*_COMMON, "guarantee", "maxRequestBytes")
_BATCH_WRITING = (*_WRITING, "writeId")
_STREAM_WRITING = (*_WRITING, "pipelineId")
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""What Spark itself leaves among the options of a source or sink. `path` is what somebody gives to load or save."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: `everywhere` (EARLIEST, LATEST or ms since 1970 UTC, as `kind` says), or per queue.

    `queues` is topic -> "queue" or "group:queue" -> the same kind of number; queues that it leaves out are refused.
    """

    kind: Literal["offset", "time"]
    everywhere: int | None = None
    queues: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`rows_per_trigger`, `partitions_min` and `rows_per_partition` are None where nothing is asked for."""

    bootstrap: tuple[str, ...]
    topics: tuple[str, ...]
    start: Bound
    end: Bound
    patience: Patience
    consumer_group: str
    fail_on_data_loss: bool
    rows_per_trigger: int | None
    partitions_min: int | None
    rows_per_partition: int | None
    tags: str
    push_filters: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic` is None when each row names its own. `chunk_bytes` bounds one request."""

    bootstrap: tuple[str, ...]
    topic: str | None
    patience: Patience
    exactly_once: bool
    pipeline_id: str
    write_id: str | None
    chunk_bytes: int


def read_options(
    given: Mapping[str, str], *, streaming: bool, environment: Mapping[str, str] = _NOTHING
) -> ReadOptions:  # fmt: skip
    """The options of a reader; variables of the environment stand in where nothing is given. Raises: OptionRefused."""
    options = (
        _Given(given, "reading a stream", _STREAM_READING) if streaming else _Given(given, "reading", _BATCH_READING)
    )
    return ReadOptions(
        bootstrap=_bootstrap(options, environment),
        topics=_topics(options, environment),
        start=_bound(options, "starting", LATEST if streaming else EARLIEST, streaming=streaming),
        end=Bound("offset", LATEST) if streaming else _bound(options, "ending", LATEST, streaming=False),
        patience=_patience(options),
        consumer_group=options.text("groupId") or "logherd_spark",
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        rows_per_trigger=options.number("maxOffsetsPerTrigger", 1) if streaming else None,
        partitions_min=options.number("minPartitions", 1),
        rows_per_partition=options.number("maxRecordsPerPartition", 1),
        tags=options.text("tags") or "*",
        push_filters=False if streaming else options.flag("filterPushdown", default=False),
    )


def write_options(
    given: Mapping[str, str], *, streaming: bool, environment: Mapping[str, str] = _NOTHING
) -> WriteOptions:  # fmt: skip
    """The options of a writer, as above. Raises: OptionRefused."""
    options = (
        _Given(given, "writing a stream", _STREAM_WRITING) if streaming else _Given(given, "writing", _BATCH_WRITING)
    )
    guarantee = options.choice("guarantee", ("exactly-once", "at-least-once"))
    pipeline = options.text("pipelineId") or environment.get("LOGHERD_PIPELINE_ID") or "spark"
    write_id = None if streaming else options.text("writeId")
    for name, value in (("pipelineId", pipeline), ("writeId", write_id or "")):
        if "\x01" in value or "\x02" in value:
            raise OptionRefused(f"option {name} is {value!r}, it has the character 1 or 2, which separate properties")
    return WriteOptions(
        bootstrap=_bootstrap(options, environment),
        topic=options.text("topic") or environment.get("LOGHERD_TOPIC") or None,
        patience=_patience(options),
        exactly_once=guarantee == "exactly-once",
        pipeline_id=pipeline if streaming else "spark",
        write_id=write_id,
        chunk_bytes=options.number("maxRequestBytes", 64, 4_000_000) or 1_000_000,
    )


class _Given:
    """The options that were given, by their names in lower case."""

    def __init__(self, given: Mapping[str, str], doing: str, known: tuple[str, ...]) -> None:
        """Raises: OptionRefused for an unknown name."""
        self._values = {name.lower(): value.strip() for name, value in given.items()}
        unknown = self._values.keys() - {name.lower() for name in known} - _OF_SPARK
        if unknown:
            names = ", ".join(sorted(name for name in given if name.lower() in unknown))
            raise OptionRefused(f"unknown option for {doing}: {names}; known are {', '.join(sorted(known))}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower()) or None

    def number(self, name: str, least: int, most: int = 1 << 62) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not _is_number(value, least, most):
            raise OptionRefused(f"option {name} is {value!r}, it must be a number from {least} to {most}")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise OptionRefused(f"option {name} is {value!r}, it must be true or false")
        return value == "true"

    def choice(self, name: str, values: tuple[str, ...]) -> str:
        value = self.text(name) or values[0]
        if value not in values:
            raise OptionRefused(f"option {name} is {value!r}, it must be one of {', '.join(values)}")
        return value


def _is_number(text: str, least: int, most: int) -> bool:
    """Whether these are digits, not more than Python makes a number of, and in bounds."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and least <= int(text) <= most


def _bootstrap(options: _Given, environment: Mapping[str, str]) -> tuple[str, ...]:
    text = options.text("bootstrap") or environment.get("LOGHERD_BOOTSTRAP") or ""
    addresses = tuple(each.strip() for each in text.replace(";", ",").split(",") if each.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not _is_number(port, 1, 65_535):  # a larger one would be taken for its remainder
            raise OptionRefused(f"option bootstrap names {address!r}, an address is host:port (of a name server)")
    if not addresses:
        raise OptionRefused("option bootstrap is missing: the name servers, host:port with commas between them")
    return addresses


def _topics(options: _Given, environment: Mapping[str, str]) -> tuple[str, ...]:
    subscribed, topic = options.text("subscribe"), options.text("topic")
    if subscribed and topic:
        raise OptionRefused("options subscribe and topic both name what to read: give one of them")
    names = [each.strip() for each in (subscribed or topic or environment.get("LOGHERD_TOPIC") or "").split(",")]
    found = tuple(dict.fromkeys(filter(None, names)))
    if not found:
        raise OptionRefused("option subscribe is missing: the topics to read, with commas between them")
    return found


def _patience(options: _Given) -> Patience:
    total = options.number("deliveryTimeoutMs", 1, _TIMEOUT_MS_MAX) or 120_000
    request = options.number("requestTimeoutMs", 1, _TIMEOUT_MS_MAX) or 5_000
    return Patience(request_seconds=min(request, total) / 1000, total_seconds=total / 1000)


def _bound(options: _Given, which: str, default: int, *, streaming: bool) -> Bound:
    words = {"earliest": EARLIEST, "latest": LATEST} if which == "starting" else {"latest": LATEST}
    if which == "starting" and not streaming:
        del words["latest"]
    given: dict[str, Callable[[str, str], Bound]] = {
        f"{which}Timestamp": _one_time,
        f"{which}OffsetsByTimestamp": _times,
        f"{which}Offsets": lambda name, value: _offsets(name, value, words),
    }
    found = [(name, value, parse) for name, parse in given.items() if (value := options.text(name)) is not None]
    # As in the Kafka source: one time goes before times per queue, and these go before offsets.
    for name, value, parse in found:
        return parse(name, value)
    return Bound("offset", default)


def _one_time(name: str, value: str) -> Bound:
    if not _is_number(value, 0, _LONG_MAX):
        raise OptionRefused(f"option {name} is {value!r}, it must be milliseconds since 1970 UTC")
    return Bound("time", int(value))


def _times(name: str, value: str) -> Bound:
    return Bound("time", queues=_per_queue(name, value, {}))


def _offsets(name: str, value: str, words: Mapping[str, int]) -> Bound:
    if value.lower() in words:
        return Bound("offset", words[value.lower()])
    if not value.startswith("{"):
        raise OptionRefused(
            f"option {name} is {value!r}, it must be {' or '.join(words)} or JSON: "
            f'{{"topic": {{"0": 23, "1": {min(words.values())}}}}}'
        )
    return Bound("offset", queues=_per_queue(name, value, words))


def _per_queue(name: str, value: str, words: Mapping[str, int]) -> dict[str, dict[str, int]]:
    try:
        parsed = json.loads(value)
    except ValueError as error:  # also of a number with too many digits
        raise OptionRefused(f"option {name} is no JSON: {error}") from None
    if not isinstance(parsed, dict) or not all(isinstance(each, dict) for each in parsed.values()):
        raise OptionRefused(f'option {name} must look like {{"topic": {{"0": 23, "1": 45}}}}')
    for topic, queues in parsed.items():
        for queue, number in queues.items():
            if type(number) is not int or (number < 0 and number not in words.values()):
                right = "".join(f" or {code} ({word})" for word, code in words.items())
                raise OptionRefused(
                    f"option {name} has {number!r} for queue {queue} of {topic}, at least 0{right} is right"
                )
            if number > _LONG_MAX:
                raise OptionRefused(
                    f"option {name} has {number} for queue {queue} of {topic}, at most {_LONG_MAX} is right"
                )
    return parsed
