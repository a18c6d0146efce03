"""A log in memory as both sides of the protocol look at one: files of one length, blank records at their ends."""

from itertools import pairwise

from logherd.model.record import encode_blank, encode_record

SEGMENT = 4096
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def record(position: int, body: bytes = b"body", *, queue_offset: int = 0) -> bytes:
    return encode_record(
        b"T", body, b"", queue_id=0, queue_offset=queue_offset, position=position, store_timestamp=1, store_host=HOST,
        born_timestamp=1, born_host=HOST,
    )  # fmt: skip


class MemoryLog:
    """`data` are the bytes from `min_position` on; all of them are committed unless `committed_position` says less."""

    def __init__(self, begin: int = 0, *, padding: bytes = b"\0") -> None:
        self.min_position = begin
        self.data = bytearray()
        self.committed_position = begin
        self.flushed_position = 1 << 62
        self.bounds = [begin]
        self._padding = padding

    def fill(self, count: int, *, size: int = 100, seed: int = 0) -> "MemoryLog":
        """Append records with bodies of `size` bytes, with a blank one where a file ends."""
        for number in range(count):
            one = record(self.end, bytes([(seed + number) % 251]) * size, queue_offset=number)
            left = SEGMENT - self.end % SEGMENT
            if len(one) + 8 > left:
                self.data += encode_blank(left) + (self._padding * left)[: left - 8]
                self.bounds.append(self.end)
                one = record(self.end, bytes([(seed + number) % 251]) * size, queue_offset=number)
            self.data += one
            self.bounds.append(self.end)
        self.committed_position = self.end
        return self

    @property
    def durable_position(self) -> int:
        return min(self.committed_position, self.flushed_position)

    @property
    def end(self) -> int:
        return self.min_position + len(self.data)

    def committed_bytes(self, position: int, bytes_max: int) -> memoryview:
        assert self.min_position <= position < self.committed_position
        segment_end = position - position % SEGMENT + SEGMENT
        end = min(position + bytes_max, segment_end, self.committed_position)
        return memoryview(bytes(self.data))[position - self.min_position : end - self.min_position]

    def cut(self, at: int) -> "MemoryLog":
        """The same log, as far as `at`, where a record ends."""
        assert at in self.bounds
        other = MemoryLog(self.min_position)
        other.data = self.data[: at - self.min_position]
        other.committed_position = at
        other.bounds = [each for each in self.bounds if each <= at]
        return other

    def runs_between(self) -> list[tuple[int, int]]:
        return list(pairwise(self.bounds))
