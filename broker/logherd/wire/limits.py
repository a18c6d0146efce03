"""How much a peer may make us read before we know who it is.

A limit is compared before anything is allocated for what it limits. Lengths are bytes of UTF-8, not characters.
"""

from dataclasses import dataclass

from logherd.kit.errors import ensure

__all__ = ["ANSWER_LIMITS", "DEFAULT_LIMITS", "WireLimits"]

FRAME_OVERHEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Limits of one connection's input.

    1. frame_bytes_max counts the whole frame with its length field, as RocketMQ's frameMaxLength does.
    2. A header fits into a frame, and a value, a key and a remark into a header: otherwise the smaller limit is a lie.
    3. A value may be larger than what fits a record, so that a message whose properties do not is refused (13) and the
       other requests of its connection are not lost with it.
    """

    frame_bytes_max: int = 16 * 1024 * 1024
    header_bytes_max: int = 256 * 1024
    fields_max: int = 128
    key_bytes_max: int = 255
    value_bytes_max: int = 128 * 1024
    remark_bytes_max: int = 4096

    def __post_init__(self) -> None:
        ensure(self.header_bytes_max + FRAME_OVERHEAD <= self.frame_bytes_max, "a header fits into a frame", self)
        largest = max(self.key_bytes_max, self.value_bytes_max, self.remark_bytes_max)
        ensure(0 < largest <= self.header_bytes_max, "each text of a header fits into it", self)


DEFAULT_LIMITS = WireLimits()

_ANSWER_HEADER_BYTES_MAX = 2 * 1024 * 1024

ANSWER_LIMITS = WireLimits(header_bytes_max=_ANSWER_HEADER_BYTES_MAX, value_bytes_max=_ANSWER_HEADER_BYTES_MAX)
"""Of a connection on which a broker answers: the ids of a batch stand in one field, and it may be of 32768 messages,
each id with its comma up to 57 characters."""
