"""`logherd store repair` on the store of any broker: a replica whose log it changes becomes another store by it.

Else it would come back under the name of the one that had acknowledged what is dropped, and could be elected for that.
"""

from pathlib import Path

from logherd.app.group.replica_file import ReplicaFile
from logherd.store.files_os import OsFiles
from logherd.store.tools import RepairPlan, repair

__all__ = ["repair_store"]


def repair_store(directory: Path, *, apply: bool) -> RepairPlan:
    """See store.tools.repair. Blocks. Raises: ReplicaFileError, and nothing was changed; what that raises."""

    def renew(plan: RepairPlan) -> None:
        if plan.changes_log:
            ReplicaFile.renew_at(OsFiles(), str(directory))  # first: a crash leaves the damage to be found

    return repair(directory, apply=apply, before=renew)
