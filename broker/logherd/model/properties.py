"""Message properties: `name \\x01 value \\x02` pairs in UTF-8, as clients send and files store them.

Parsing follows RocketMQ: split at 0x02, then at the first 0x01; a piece without 0x01 or with an empty value is ignored.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/message/MessageDecoder.java
"""

__all__ = ["NAME_VALUE", "PAIR", "Name", "find_property", "format_properties", "parse_properties"]

NAME_VALUE = "\x01"
PAIR = "\x02"
PROPERTIES_BYTES_MAX = 32767


class Name:
    """Property names that LogHerd itself reads or writes."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    UNIQ_KEY = "UNIQ_KEY"
    CLUSTER = "CLUSTER"
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    RETRY_TOPIC = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    TRANSACTION_PREPARED = "TRAN_MSG"
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    CORRELATION_ID = "CORRELATION_ID"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    POP_CK = "POP_CK"
    INNER_NUM = "INNER_NUM"
    CRC32 = "__CRC32#"


def parse_properties(text: str) -> dict[str, str]:
    """All properties of a message; the last value wins when a name repeats."""
    found: dict[str, str] = {}
    for piece in text.split(PAIR):
        name, separator, value = piece.partition(NAME_VALUE)
        if separator and name and value:
            found[name] = value
    return found


def format_properties(properties: dict[str, str]) -> str:
    """The inverse of `parse_properties`, with RocketMQ's trailing separator. Empty values are left out."""
    return "".join(f"{name}{NAME_VALUE}{value}{PAIR}" for name, value in properties.items() if value)


def find_property(properties: bytes, name: bytes) -> bytes | None:
    """The value of one property in encoded form, without parsing the others; None when absent or empty.

    Several times faster than `parse_properties` where only two or three names matter. The first value that is not
    empty counts; stored records never repeat a name.
    """
    wanted = name + b"\x01"
    start = len(wanted) if properties.startswith(wanted) else _after(properties, wanted, 0)
    while start:
        end = properties.find(b"\x02", start)
        value = properties[start:] if end < 0 else properties[start:end]
        if value:
            return value
        start = _after(properties, wanted, start)
    return None


def _after(properties: bytes, wanted: bytes, start: int) -> int:
    """Where the value behind the next `wanted` begins; 0 if there is none."""
    at = properties.find(b"\x02" + wanted, start)
    return 0 if at < 0 else at + 1 + len(wanted)
