"""The record of a run: a digest over every line, and the last lines of every member for people."""

from collections import deque
from hashlib import blake2b

__all__ = ["Trace"]


class Trace:
    """Lines `time node event detail`; the time in milliseconds of virtual time. `keep`: lines for each node."""

    def __init__(self, keep: int) -> None:
        self._digest = blake2b(digest_size=16)
        self._keep = keep
        self._kept: dict[str, deque[tuple[int, str]]] = {}
        self.count = 0

    def note(self, now_us: int, node: str, event: str) -> None:
        """Add a line."""
        line = f"{now_us // 1000:>7}.{now_us % 1000:03} {node:<5} {event}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self.count += 1
        if self._keep:
            if node not in self._kept:
                self._kept[node] = deque(maxlen=self._keep)
            self._kept[node].append((self.count, line))

    @property
    def lines(self) -> list[str]:
        """The last lines of every node, in the order in which they were noted."""
        return [line for _, line in sorted(entry for kept in self._kept.values() for entry in kept)]

    @property
    def digest(self) -> str:
        """Equal digests: equal runs."""
        return self._digest.hexdigest()
