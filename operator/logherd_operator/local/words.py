"""Why a place does not serve, from the end of its log: what its process said last and what its guardian makes of it;
and whether that had to kill it."""

import json
import re
from pathlib import Path

__all__ = ["cannot_start", "last_words", "was_killed"]

_TAIL_BYTES = 16_384
_GUARDIAN = re.compile(r'(?:\S+Z )?logherd-guardian: |\{.*"source": "logherd.guardian", "message": "')
"""What its lines begin with; releases before tell no time and know no JSON."""
_LOGGED = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+(?: (?P<level>[A-Z]+) [\w.]+: (?P<message>.+?)(?P<fields>(?: \w+=.*)?)$)?"
)
_REASON = re.compile(r' (?:reason|error)=("(?:[^"\\]|\\.)*"|\S+)')
_RAISED = re.compile(r"[\w.]*(?:Error|Exception|Warning)(?:: (?:\[Errno [0-9]+\] )?(?P<said>.+))?$")
_FATAL = ("ERROR", "CRITICAL")
_SEVERE = ("WARNING", *_FATAL)
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
    """The last sentence that was said for people; "" if there is none. Of a process that served when its guardian was
    killed with it, no warning is the reason, however late it came."""
    lines = _lines(log, begin)
    of_child = [
        (index, line[mark.end() :]) for index, line in enumerate(lines)
        if (mark := _GUARDIAN.match(line)) is not None and line.startswith("the child", mark.end())
    ]  # fmt: skip
    if of_child and of_child[-1][1].startswith("the child serves") and "no more" not in of_child[-1][1]:
        return _sentence(lines[of_child[-1][0] + 1 :], _FATAL)
    return _sentence(lines)


def was_killed(log: Path, begin: int) -> bool:
    """Did the guardian kill its process since the log was `begin` bytes long? False where nobody could write that."""
    marks = [(line, _GUARDIAN.match(line)) for line in _lines(log, begin)]
    return any(mark is not None and line.startswith("killed", mark.end()) for line, mark in marks)


def _sentence(lines: list[str], severe: tuple[str, ...] = _SEVERE) -> str:
    said = [line for line in lines if line.startswith(("logherd broker: ", "logherd controller: "))]
    if said:
        return said[-1].partition(": ")[2]
    others = [line for line in lines if line and not _GUARDIAN.match(line)]
    return next((words for line in reversed(others) if (words := _in_words(line, severe))), "")


def _in_words(line: str, severe: tuple[str, ...]) -> str:
    """What a line of a log or of a traceback says to a person; "" if that is nothing, or the line was cut short."""
    if line.startswith("{"):
        return _entry_in_words(line, severe)
    logged = _LOGGED.match(line)
    if logged is not None:
        reason = _REASON.search(logged["fields"] or "")
        value = "" if reason is None else reason[1]
        value = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        return _reasoned(logged["level"], logged["message"] or "", value, severe)
    raised = _RAISED.match(line)
    if raised is not None:
        return raised["said"] or ""
    return "" if line.startswith((" ", "Traceback ")) else line


def _entry_in_words(line: str, severe: tuple[str, ...]) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    reason = entry.get("reason") or entry.get("error")
    return _reasoned(entry.get("level"), str(entry.get("message", "")), reason, severe)


def _reasoned(level: str | None, message: str, reason: object, severe: tuple[str, ...]) -> str:
    return "" if level not in severe else f"{message}: {reason}" if reason else message


def _lines(log: Path, begin: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(begin, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
