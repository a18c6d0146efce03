"""How a measured value is spread: counts by upper bounds, and the sum. One addition for each value."""

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["FLUSH_SECONDS", "RUN_BYTES", "Spread"]

FLUSH_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
RUN_BYTES = tuple(float(1 << power) for power in range(8, 25, 2))


class Spread:
    """`counts` has one entry for each bound, for the values up to it and above the one before, and one for the rest."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` rise."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
