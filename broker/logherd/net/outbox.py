"""What leaves on one connection at the end of a loop pass, in as few buffers as is worth it."""

from collections.abc import Sequence

__all__ = ["Buffer", "Outbox"]

Buffer = bytes | memoryview
SEPARATE_SIZE_MIN = 8 * 1024
"""From here on a buffer of its own costs less than copying it (measured: bench/net_shell.py)."""


class Outbox:
    """Buffers in sending order. `size` counts their bytes."""

    __slots__ = ("_buffers", "_separate", "size")

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._separate = False
        self.size = 0

    def add(self, data: bytes) -> None:
        """Queue an encoded frame."""
        self._buffers.append(data)
        self.size += len(data)

    def add_slices(self, head: bytes, slices: Sequence[memoryview]) -> None:
        """Queue a frame whose body stays where it is (slices of the log); the views are kept until they are sent."""
        self._buffers.append(head)
        self.size += len(head)
        for piece in slices:
            self._buffers.append(piece)
            self.size += len(piece)
            if len(piece) >= SEPARATE_SIZE_MIN:
                self._separate = True

    def take(self) -> list[Buffer]:
        """Everything queued, small neighbours joined; the outbox is empty afterwards."""
        buffers, separate = self._buffers, self._separate
        self._buffers, self._separate, self.size = [], False, 0
        if len(buffers) < 2:
            return buffers
        return _join_small(buffers) if separate else [b"".join(buffers)]


def _join_small(buffers: list[Buffer]) -> list[Buffer]:
    joined: list[Buffer] = []
    run: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) < SEPARATE_SIZE_MIN:
            run.append(buffer)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(buffer)
    if run:
        joined.append(b"".join(run))
    return joined
