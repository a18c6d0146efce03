"""Which group is meant, where nobody says in which folder it is."""

from pathlib import Path

from logherd_operator.local.errors import LocalError, NotRunning
from logherd_operator.local.folder import DEFAULT_PARENT, Folder
from logherd_operator.local.processes import lives
from logherd_operator.local.state import GroupState
from logherd_operator.local.strays import with_strays

__all__ = ["find_folder"]


def find_folder(data: Path | None) -> tuple[Folder, GroupState]:
    """The folder that `down` and `status` mean: the given one, or under `.logherd` the only one, or the only one whose
    group runs.

    Raises: NotRunning if there is none; LocalError if there are several.
    """
    if data is None:
        known = sorted(path.parent for path in DEFAULT_PARENT.glob("*/group.json"))
        if not known:
            raise NotRunning("no group was started from this folder; say where with --data DIR")
        meant = known if len(known) == 1 else [each for each in known if _may_run(each)]
        if len(meant) != 1:
            named = ", ".join(map(str, meant or known))
            raise LocalError(f"several groups {'run' if meant else 'are'} here ({named}); choose one with --data DIR")
        data = meant[0]
    folder = Folder(data)
    state = folder.read()
    if state is None:
        raise NotRunning(f"{data}: no group was started in this folder")
    return folder, state


def _may_run(path: Path) -> bool:
    """Does anything of the group live, be it that nobody wrote it down? One whose file cannot be understood may."""
    folder = Folder(path)
    try:
        state = folder.read()
    except LocalError:
        return True
    if state is None:
        return False
    return lives(state.keeper) or any(lives(each.guardian) for each in with_strays(state, folder).places)
