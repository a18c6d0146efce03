"""A disk that comes to its reserve, told in the log: why sends are refused, and since when they are taken again."""

from logherd.store import DiskState
from logherd.telemetry.log import Log

__all__ = ["SpaceNews"]

_log = Log("logherd.store")


class SpaceNews:
    """Says once that messages are refused for want of space, and once that they no longer are."""

    def __init__(self) -> None:
        self._short = False

    def look(self, disk: DiskState) -> None:
        """To be called about once a second. A failed disk, of which others tell, is not short of space."""
        short = disk.stopped is None and not disk.accepts_messages
        if short == self._short:
            return
        self._short = short
        sizes = {"free_bytes": disk.free_bytes, "reserve_bytes": disk.reserve_bytes}
        if short:
            _log.warning("the disk is at its reserve: messages are refused", **sizes)
        elif disk.stopped is None:
            _log.info("the disk has space again: messages are taken", **sizes)
