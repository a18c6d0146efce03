"""`logherd down`: stop what was started here, and nothing else."""

import signal
import time
from collections.abc import Iterator

from logherd_operator.local.errors import LocalError
from logherd_operator.local.folder import Folder
from logherd_operator.local.places import Ended, Places
from logherd_operator.local.processes import is_alive, signal_process
from logherd_operator.local.state import GroupState, Process
from logherd_operator.local.strays import with_strays

__all__ = ["bring_down"]

_KEEPER_SECONDS = 5.0
_KILLED_SECONDS = 5.0


def bring_down(folder: Folder, state: GroupState, *, seconds: float) -> Iterator[Ended]:
    """Stop every process of the group; yields how each has ended. Stopping twice is not an error.

    Raises: LocalError if another `up` or `down` is at work, the `up` that keeps the group does not end within 10 s, or
    a process belongs to another user.
    """
    _part_from_keeper(state)
    lock = folder.lock()
    if lock is None:  # whom we asked may just have left another one that keeps the group
        _part_from_keeper(folder.read() or state)
        lock = folder.lock()
    if lock is None:
        raise LocalError(f"{folder.path}: another logherd up or down is at work here; try again")
    with lock:
        state = with_strays(folder.read() or state, folder)
        yield from Places(folder, state).stop(seconds)


def _part_from_keeper(state: GroupState) -> None:
    """Have the `up` that keeps the group leave it alone: it would start again what we stop."""
    keeper = state.keeper
    if keeper is None or not signal_process(keeper.pid, keeper.ticks, signal.SIGUSR1) or _ends(keeper, _KEEPER_SECONDS):
        return
    # It has nothing to lose: what it knows is written down.
    signal_process(keeper.pid, keeper.ticks, signal.SIGKILL)
    if not _ends(keeper, _KILLED_SECONDS):
        raise LocalError(
            f"logherd up (pid {keeper.pid}) was killed and does not end: the kernel holds it, as with a disk that does "
            "not answer; nothing was stopped, try again when it is gone"
        )


def _ends(process: Process, seconds: float) -> bool:
    patience = time.monotonic() + seconds
    while is_alive(process.pid, process.ticks):
        if time.monotonic() > patience:
            return False
        time.sleep(0.01)
    return True
