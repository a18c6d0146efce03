"""What a scrape reads of damage in the log."""

from logherd.telemetry import metrics
from logherd.telemetry.metrics import Readings

__all__ = ["read_healing"]


def read_healing(readings: Readings, damaged_bytes: int, fetched_bytes: int) -> None:
    """Of a replica that heals, or has just met damage."""
    readings.tell(metrics.DAMAGED, damaged_bytes)
    readings.tell(metrics.MENDED, fetched_bytes)
