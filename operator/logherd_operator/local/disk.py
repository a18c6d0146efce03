"""Whether the disk has the space without which brokers refuse writes and nobody is elected, or any at all."""

import shutil
from pathlib import Path

from logherd_operator.local.errors import LocalError

__all__ = ["check_disk", "is_full"]


def check_disk(folder: Path, reserved_percent: int) -> None:
    """Raises: LocalError that says how much is free, how much it takes, and what helps."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise LocalError(f"{folder}: cannot be asked for its disk's space: {error.strerror}") from error
    if usage.free * 100 >= usage.total * reserved_percent:
        return
    raise LocalError(
        f"{folder}: its disk has {usage.free * 100 // usage.total} % free, and brokers refuse writes below "
        f"{reserved_percent} % (spec.storage.reservedPercent, at least 2); free some, or choose another: --data"
    )


def is_full(folder: Path) -> bool:
    """Whether nothing can be written there for want of space; False if the disk does not say."""
    try:
        return not shutil.disk_usage(folder).free
    except OSError:
        return False
