"""Why a place does not serve, from the end of its log: what its process said last and what its guardian makes of it;
and whether that had to kill it."""

import re
from pathlib import Path

__all__ = ["cannot_start", "last_words", "was_killed"]

_TAIL_BYTES = 16_384
_TAIL_LINES = 5
_GUARDIAN = re.compile(r'(?:\S+Z )?logherd-guardian: |\{.*"source": "logherd.guardian", "message": "')
"""What its lines begin with; releases before tell no time and know no JSON."""
_HOPELESS = "which means that it cannot start"


def cannot_start(log: Path, begin: int) -> str:
    """The sentence of a process that ended because it cannot start, and is tried again only after a while; "" if the
    latest one is not of that kind, or none has ended since the log was `begin` bytes long.
    """
    lines = _lines(log, begin)
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        guardian = _GUARDIAN.match(line)
        if guardian is None:
            continue
        if _HOPELESS in line:
            return _sentence(lines[:index])
        if line.startswith(("the child", "killed"), guardian.end()):
            return ""
    return ""


def last_words(log: Path, begin: int) -> str:
    """The last sentence that was said for people; "" if there is none."""
    return _sentence(_lines(log, begin))


def was_killed(log: Path, begin: int) -> bool:
    """Did the guardian kill its process since the log was `begin` bytes long? False where nobody could write that."""
    marks = [(line, _GUARDIAN.match(line)) for line in _lines(log, begin)]
    return any(mark is not None and line.startswith("killed", mark.end()) for line, mark in marks)


def _sentence(lines: list[str]) -> str:
    said = [line for line in lines if line.startswith(("logherd broker: ", "logherd controller: "))]
    if said:
        return said[-1].partition(": ")[2]
    others = [line for line in lines if line and not _GUARDIAN.match(line)]
    return " / ".join(others[-_TAIL_LINES:])


def _lines(log: Path, begin: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(begin, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
