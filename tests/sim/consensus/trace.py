"""The record of a run: a digest over every line, and the last lines for people."""

from collections import deque
from hashlib import blake2b

__all__ = ["Trace"]


class Trace:
    """Lines `time node event detail`; the time in milliseconds of virtual time."""

    def __init__(self, keep: int) -> None:
        self._digest = blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=keep)
        self.count = 0

    def note(self, now_us: int, node: str, event: str) -> None:
        """Add a line."""
        line = f"{now_us // 1000:>7}.{now_us % 1000:03} {node:<5} {event}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self.lines.append(line)
        self.count += 1

    @property
    def digest(self) -> str:
        """Equal digests: equal runs."""
        return self._digest.hexdigest()
