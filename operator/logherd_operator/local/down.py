"""`logherd down`: stop what was started here, and nothing else."""

from collections.abc import Iterator

from logherd_operator.local.processes import stop_process
from logherd_operator.local.state import Folder, GroupState

__all__ = ["bring_down"]


def bring_down(folder: Folder, state: GroupState, *, seconds: float) -> Iterator[str]:
    """Stop every process of the group; yields one sentence for each. Stopping twice is not an error.

    Raises: LocalError if another `up` or `down` is at work, or a process belongs to another user.
    """
    with folder.locked():
        for process in state.processes:
            outcome = stop_process(process.pid, process.started_ticks, seconds=seconds)
            said = {"gone": "was not running", "stopped": "stopped", "killed": "did not stop in time and was killed"}
            yield f"{state.group}: broker {process.broker_id} (pid {process.pid}) {said[outcome]}"
        if not state.processes:
            yield f"{state.group}: nothing is running"
        folder.write(GroupState(group=state.group, name_server=state.name_server))
