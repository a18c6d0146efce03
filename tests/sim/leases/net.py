"""The network: every link has a stream of its own, and messages are lost, late, doubled and out of order."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from sim.consensus.streams import stream

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Net"]


class Net:
    """Datagrams between named processes. `reliable` is set when the faults are over."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._shape = world.shape
        self._streams: dict[tuple[str, str], Random] = {}
        self._cut: dict[tuple[str, str], int] = {}
        self._clogged: dict[tuple[str, str], int] = {}
        self.reliable = False

    def _stream(self, sender: str, to: str) -> Random:
        found = self._streams.get((sender, to))
        if found is None:
            found = self._streams[sender, to] = stream(self._world.seed, f"net:{sender}>{to}")
        return found

    def carries(self, sender: str, to: str) -> bool:
        """Whether a message from one to the other arrives now."""
        if self._cut.get((sender, to), 0) > self._world.now_us:
            return False
        loss = self._shape.loss
        return self.reliable or loss == 0 or self._stream(sender, to).random() >= loss

    def send(self, sender: str, to: str, arrive: Callable[[], None]) -> None:
        """Put a message under way: lost, late, or twice."""
        if not self.carries(sender, to):
            return
        draw = self._stream(sender, to)
        for _ in range(2 if not self.reliable and draw.random() < self._shape.duplication else 1):
            delay = 100 + int(draw.expovariate(1 / 1_000))
            if not self.reliable and draw.random() < self._shape.late:
                delay += int(draw.expovariate(1 / (1_000 * self._shape.late_ms)))
            clogged = self._clogged.get((sender, to), 0) - self._world.now_us
            self._world.after(delay + max(clogged, 0), arrive)

    def cut(self, sender: str, to: str, lasts_us: int) -> None:
        """Nothing from one arrives at the other."""
        until = self._world.now_us + lasts_us
        self._cut[sender, to] = max(until, self._cut.get((sender, to), 0))

    def clog(self, sender: str, to: str, lasts_us: int) -> None:
        """Whatever is sent now arrives after that."""
        self._clogged[sender, to] = self._world.now_us + lasts_us

    def part(self, victim: str, other: str, lasts_us: int, *, to: bool = True, back: bool = True) -> None:
        """Nothing reaches the victim from there, nothing from it arrives there, or both."""
        if to:
            self.cut(other, victim, lasts_us)
        if back:
            self.cut(victim, other, lasts_us)

    def heal(self) -> None:
        """From now on everything arrives once and soon."""
        self._cut.clear()
        self._clogged.clear()
        self.reliable = True
