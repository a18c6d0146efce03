"""What bench.log_node speaks: a binary protocol that costs next to nothing, so that the log is what is measured.

    request   length u32 | number u64 | operation u8 | key length u16 | key | value
    answer    length u32 | number u64 | status u8 | text

Big-endian; `length` counts what follows it. Answers may come in any order. What follows `number` in a put or a
compare-and-set is also the body of its record in the log. For CAS the value is: expected length u32 | expected | new.
RUN has no key; its value says in JSON which load the member is to propose to itself, and the answer what came of it.
"""

from collections.abc import Callable
from struct import Struct

__all__ = [
    "ANSWER", "CAS", "FAILED", "GET", "HEAD", "MISSING", "OK", "OPERATION", "PUT", "REFUSED", "REQUEST_BYTES_MAX",
    "RUN", "STATUS", "UNKNOWN", "read_answer", "write_request",
]  # fmt: skip

PUT, GET, CAS, STATUS, RUN = 1, 2, 3, 4, 5
OK, MISSING, FAILED, REFUSED, UNKNOWN = 0, 1, 2, 3, 4
"""FAILED: a compare-and-set met another value. UNKNOWN: it may have been done, or may yet be."""

HEAD = Struct(">IQ")
OPERATION = Struct(">BH")
ANSWER = Struct(">IQB")
REQUEST_BYTES_MAX = 1 << 20


def write_request(number: int, operation: int, key: bytes, value: bytes) -> bytes:
    """One request."""
    body = OPERATION.pack(operation, len(key)) + key + value
    return HEAD.pack(8 + len(body), number) + body


def read_answer(receive: Callable[[int], bytes]) -> tuple[int, int, bytes]:
    """The next answer as (number, status, text); `receive(n)` gives up to n bytes. Raises: struct.error at an end."""
    length, number, status = ANSWER.unpack(_exactly(receive, ANSWER.size))
    return number, status, _exactly(receive, length - 9)


def _exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    data = b""
    while len(data) < size and (more := receive(size - len(data))):
        data += more
    return data
