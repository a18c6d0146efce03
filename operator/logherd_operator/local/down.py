"""`logherd down`: stop what was started here, and nothing else."""

import signal
import time
from collections.abc import Iterator

from logherd_operator.local.errors import LocalError
from logherd_operator.local.folder import Folder
from logherd_operator.local.places import Ended, Places
from logherd_operator.local.processes import is_alive, signal_process
from logherd_operator.local.state import GroupState

__all__ = ["bring_down"]

_KEEPER_SECONDS = 5.0


def bring_down(folder: Folder, state: GroupState, *, seconds: float) -> Iterator[Ended]:
    """Stop every process of the group; yields how each has ended. Stopping twice is not an error.

    Raises: LocalError if another `up` or `down` is at work, or a process belongs to another user.
    """
    _part_from_keeper(state)
    lock = folder.lock()
    if lock is None:
        raise LocalError(f"{folder.path}: another logherd up or down is at work here; try again")
    with lock:
        state = folder.read() or state
        yield from Places(folder, state).stop(seconds)


def _part_from_keeper(state: GroupState) -> None:
    """Have the `up` that keeps the group leave it alone: it would start again what we stop."""
    keeper = state.keeper
    if keeper is None or not signal_process(keeper.pid, keeper.ticks, signal.SIGUSR1):
        return
    patience = time.monotonic() + _KEEPER_SECONDS
    while is_alive(keeper.pid, keeper.ticks):
        if time.monotonic() > patience:
            # It has nothing to lose: what it knows is written down.
            signal_process(keeper.pid, keeper.ticks, signal.SIGKILL)
        time.sleep(0.01)
