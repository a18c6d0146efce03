"""Whether the disk has the space without which brokers refuse writes and nobody is elected."""

import shutil
from pathlib import Path

from logherd_operator.local.errors import LocalError

__all__ = ["check_disk"]


def check_disk(folder: Path, reserved_percent: int) -> None:
    """Raises: LocalError that says how much is free, how much it takes, and what helps."""
    usage = shutil.disk_usage(folder)
    if usage.free * 100 >= usage.total * reserved_percent:
        return
    raise LocalError(
        f"{folder}: its disk has {usage.free * 100 // usage.total} % free, and brokers refuse writes below "
        f"{reserved_percent} % (spec.storage.reservedPercent, at least 2); free some, or choose another: --data"
    )
