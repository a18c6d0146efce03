"""Guardians that run and were not written down: whoever started them was killed before it could.

A guardian is known by its command line, which names the configuration of its place. Who is not found again holds the
ports of its place for ever, and `logherd down` does not stop it.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from logherd_operator.local.folder import Folder
from logherd_operator.local.processes import lives, started_ticks
from logherd_operator.local.state import GroupState, Process

__all__ = ["with_strays"]

_GUARDIAN, _BECOMES_ONE = b"logherd_guardian", b"--guarded"


def with_strays(state: GroupState, folder: Folder) -> GroupState:
    """The same with the guardians that live at places where none was written down that does. Looks at all processes,
    but for a group of which all places are known."""
    lacking = {folder.of(each, ".json").resolve(): each for each in state.places if not lives(each.guardian)}
    for config, process in _guardians() if lacking else ():
        place = lacking.pop(config, None)
        if place is not None:
            found = replace(place, guardian=process, told=None, started_at=time.time())
            state = state.having(found)
    return state


def _guardians() -> Iterator[tuple[Path, Process]]:
    """The configuration that each guardian of this machine was started with, and the guardian."""
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):  # noqa: PTH208 - names are all that is wanted
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            config = _config_of(words)
            ticks = started_ticks(pid)
            if config is not None and ticks is not None:
                yield (Path(f"/proc/{pid}/cwd").readlink() / config).resolve(), Process(pid, ticks)
        except OSError:  # it has ended meanwhile, or is another user's
            continue


def _config_of(words: Sequence[bytes]) -> str | None:
    if _GUARDIAN not in words and _BECOMES_ONE not in words:
        return None
    at = words.index(b"--config") + 1 if b"--config" in words else len(words)
    return os.fsdecode(words[at]) if at < len(words) else None
