"""Requests of clients as a history on disk: one line before a request leaves, one when its answer is there.

    {"p":3,"i":812,"t":123456789,"a":1,"f":"cas","k":"r7","ph":"invoke","in":{"from":"x","to":"3-812"}}
    {"p":3,"i":812,"t":123999999,"ph":"ok","out":{"swapped":true}}

`p` is a client with one request under way at a time, `i` counts its requests, `a` says which attempt at the same thing
it is, `t` is CLOCK_MONOTONIC in nanoseconds of one host. One file for each client. A request without a second line,
because its client died, is unknown.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from checkers.history import Outcome

__all__ = ["HistoryDamaged", "Operation", "Recorder", "read_operations"]

_PHASES = {"ok": Outcome.OK, "fail": Outcome.FAILED, "unknown": Outcome.UNKNOWN}
_NAMES = {outcome: phase for phase, outcome in _PHASES.items()}


class HistoryDamaged(Exception):
    """A history is missing, empty, torn or contradicts itself: nothing can be concluded from it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One request of one client. FAILED only if it certainly had no effect."""

    process: int
    key: str
    name: str
    called: int
    returned: int | None
    outcome: Outcome
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]


class Recorder:
    """Writes the history of one client. Not thread-safe: a client has one request under way at a time."""

    def __init__(self, path: Path, process: int) -> None:
        self.path = path
        self._file = path.open("x", buffering=1)
        self._process = process
        self._count = 0
        self.outcomes: Counter[tuple[str, Outcome]] = Counter()
        self._name = ""

    def invoke(self, name: str, key: str, arguments: Mapping[str, Any], *, attempt: int = 1) -> None:
        """Note a request that is about to leave."""
        self._count += 1
        self._name = name
        self._write(a=attempt, f=name, k=key, ph="invoke", **{"in": dict(arguments)})

    def answered(self, outcome: Outcome, answer: Mapping[str, Any] | None = None) -> None:
        """Note what came of the latest request."""
        self._write(ph=_NAMES[outcome], out=dict(answer or {}))
        self.outcomes[self._name, outcome] += 1

    def _write(self, **fields: object) -> None:
        line = {"p": self._process, "i": self._count, "t": time.monotonic_ns(), **fields}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_operations(paths: Iterable[Path]) -> list[Operation]:
    """Every request of these files, by time of call.

    Raises: HistoryDamaged if a file is missing, empty or torn, or an answer belongs to no request.
    """
    operations = [operation for path in paths for operation in _read(path)]
    if not operations:
        raise HistoryDamaged("no history was recorded")
    return sorted(operations, key=lambda operation: operation.called)


def _read(path: Path) -> list[Operation]:
    try:
        text = path.read_text()
    except OSError as error:
        raise HistoryDamaged(f"{path.name} cannot be read: {error}") from error
    if not text.endswith("\n"):
        raise HistoryDamaged(f"{path.name} is {'torn' if text else 'empty'}")
    started: dict[tuple[int, int], dict[str, Any]] = {}
    ended: dict[tuple[int, int], dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            event = json.loads(line)
            where = started if event["ph"] == "invoke" else ended
            name = (event["p"], event["i"])
            if name in where or (where is ended and name not in started):
                raise HistoryDamaged(f"{path.name}:{number}: an answer or request too many")
            where[name] = event
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryDamaged(f"{path.name}:{number} cannot be read: {error}") from error
    try:
        return [_operation(started[name], ended.get(name)) for name in started]
    except KeyError as error:
        raise HistoryDamaged(f"{path.name} has a line without {error}") from error


def _operation(start: Mapping[str, Any], end: Mapping[str, Any] | None) -> Operation:
    outcome = _PHASES[end["ph"]] if end is not None else Outcome.UNKNOWN
    returned = end["t"] if end is not None and outcome is not Outcome.UNKNOWN else None
    answer = end.get("out", {}) if end is not None else {}
    return Operation(start["p"], start["k"], start["f"], start["t"], returned, outcome, start["in"], answer)
