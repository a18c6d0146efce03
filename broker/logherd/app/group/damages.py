"""Damage that a running replica meets: written down at once, and healed by another process once that costs nothing.

A follower leaves in order and heals (healing.py). A leader first lets somebody take over who has everything; while
nobody can, it serves all but what is damaged. A static leader stays: who leads is said by hand. But where the damage
keeps a follower from getting on, each goes as soon as somebody has what is damaged here.
"""

import asyncio
import errno

from logherd.app.engine import BrokerFailed
from logherd.app.group.mode import Mode
from logherd.store import StoreDamaged, StoreError, StoreStopped
from logherd.store.damage_note import Place, note_damage, noted_damage
from logherd.store.files import Files
from logherd.store.readable import is_unreadable
from logherd.telemetry.log import Log

__all__ = ["Damages", "MustHeal"]

_log = Log("logherd.group")

_LOOK_SECONDS = 1.0


class MustHeal(BrokerFailed):
    """The log here is damaged: the next process heals it before it takes part in the group."""

    starts_again = True


class Damages:
    """Loop thread only."""

    def __init__(self, files: Files, root: str, mode: Mode) -> None:
        self._files = files
        self._root = root
        self._mode = mode
        self._known: set[tuple[str, int]] = set()
        self._withheld: int | None = None
        self._any = asyncio.Event()
        self._unnoted: list[StoreDamaged] = []
        self.stopped: StoreStopped | None = None
        """Set once damage could not be noted because the disk does nothing any more, which is no damage."""

    @property
    def count(self) -> int:
        """How many places were met by this process."""
        return len(self._known)

    @property
    def places(self) -> tuple[Place, ...]:
        """Where."""
        return noted_damage(self._files, self._root) if self._known else ()

    def found(self, error: StoreDamaged) -> None:
        """Damage was met. Blocks for a flush, the first time at each place."""
        key = error.path, error.offset
        if key in self._known:
            return
        self._known.add(key)
        _log.error("damage met", file=error.path, offset=error.offset, what=error.what)
        self._unnoted.append(error)
        if (failure := self._note()) is not None:
            _log.error("the damage cannot be noted", reason=failure)
        self._any.set()

    def _note(self) -> Exception | None:
        """Write down what is not yet; why that cannot be done now. Blocks for flushes."""
        while self._unnoted:
            error = self._unnoted[0]
            try:
                note_damage(self._files, self._root, error)
            except (StoreError, OSError) as failure:
                if isinstance(failure, OSError) and (is_unreadable(failure) or failure.errno == errno.EROFS):
                    self.stopped = StoreStopped(f"{error.path}: {error.what}, and nothing can be written: {failure}")
                return failure
            del self._unnoted[0]
        return None

    def withheld(self, error: StoreDamaged, position: int) -> None:
        """Damage was met that keeps a follower from getting what lies behind this position."""
        self._withheld = position if self._withheld is None else max(self._withheld, position)
        self.found(error)

    async def time_to_heal(self) -> None:
        """Wait for damage, and until this replica can be done without."""
        await self._any.wait()
        told = False
        while why := self._needed():
            if not told:
                told = True
                _log.warning("this replica is damaged and stays for now", reason=why)
            await asyncio.sleep(_LOOK_SECONDS)

    def _needed(self) -> str:
        """Why it must go on as it is; empty if it need not."""
        mode = self._mode
        if self.stopped is None and (failure := self._note()) is not None and self.stopped is None:
            return f"the next process would not know of the damage, which cannot be noted: {failure}"
        if self.stopped is not None or mode.machine.leads is None or self._held_elsewhere():
            return ""
        if mode.name == "static":
            return "it leads until somebody is promoted, or until it is started again"
        in_sync = mode.members()
        least = in_sync.min_in_sync if mode.name == "raft" else 1
        return "" if len(in_sync.members) > least else "nobody could lead in its place"

    def _held_elsewhere(self) -> bool:
        """A follower waits for what is damaged here, and another one has it: to stay would help nobody."""
        withheld = self._withheld
        return withheld is not None and any(
            each.flushed is not None and each.flushed > withheld and (each.in_sync or self._mode.name == "static")
            for each in self._mode.followers()
        )
