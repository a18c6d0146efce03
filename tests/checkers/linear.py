"""Linearizability of what clients saw, decided by porcupine (a Go program in `porcupine/`, built on first use).

For objects whose answers carry no order of their own; `log_checks` judges logs of messages, and needs no search.
A run with too little in it is void, one that was not decided in time unknown; both are as red as invalid.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checkers.history import Outcome
from checkers.log_checks import Verdict, Violation
from checkers.operations import Operation
from compat.toolchain import build_go

__all__ = ["Floor", "build_judge", "judge"]

_SOURCE = Path(__file__).parent / "porcupine"


@dataclass(frozen=True, slots=True)
class Floor:
    """What a run must contain to show anything: answered requests of each kind, keys, and keys read at the very end."""

    answered: Mapping[str, int]
    keys: int = 1
    drained_by: str | None = None
    """Each key's last answered request must be of this kind, after all others of it: else what was lost is not seen."""
    unknown_share: float = field(default=0.5)
    """If more than this share of the requests has no known outcome, nothing can be concluded."""


def build_judge() -> Path:
    """The judge's program, from the cache or built now. Raises compat.toolchain.MissingTool without Go."""
    return build_go(_SOURCE)


def judge(
    program: Path, operations: Iterable[Operation], model: str, *, floor: Floor, seconds: float = 60.0
) -> Verdict:
    """Judge a history by one of the program's models: `register` or `controller`. Blocks up to about `seconds`."""
    operations = list(operations)
    empty = _shortfall(operations, floor)
    if empty:
        return Verdict("void", reason=empty, checked=len(operations))
    command = [str(program), f"-model={model}", f"-seconds={seconds}"]
    lines = "".join(json.dumps(_line(operation)) + "\n" for operation in operations)
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=seconds + 30, check=False)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        return Verdict("unknown", reason=f"the judge gave no verdict: {error}")
    if done.returncode != {"valid": 0, "invalid": 1, "unknown": 2}[found["verdict"]]:
        return Verdict("unknown", reason=f"the judge ended with {done.returncode}: {done.stderr[-500:]}")
    violations = tuple(Violation("not linearizable", text) for text in found.get("evidence", ()))
    return Verdict(found["verdict"], violations, found.get("reason", ""), found["checked"])


def _line(operation: Operation) -> dict[str, object]:
    outcome = "fail" if operation.outcome is Outcome.FAILED else operation.outcome.value
    return {
        "process": operation.process, "key": operation.key, "f": operation.name, "call": operation.called,
        "return": operation.returned, "outcome": outcome,
        "in": operation.arguments, "out": operation.answer,
    }  # fmt: skip


def _shortfall(operations: list[Operation], floor: Floor) -> str:
    """Why this history shows nothing; empty if it does."""
    answered = Counter(each.name for each in operations if each.outcome is Outcome.OK)
    for name, least in floor.answered.items():
        if answered[name] < least:
            return f"{answered[name]} answered requests {name}, at least {least} are needed"
    keys = {each.key for each in operations}
    if len(keys) < floor.keys:
        return f"{len(keys)} keys, at least {floor.keys} are needed"
    unknown = sum(each.outcome is Outcome.UNKNOWN for each in operations)
    if unknown > floor.unknown_share * len(operations):
        return f"{unknown} of {len(operations)} requests have no known outcome"
    return _undrained(operations, floor.drained_by) if floor.drained_by else ""


def _undrained(operations: list[Operation], last_name: str) -> str:
    """A key that nobody read after its last change; a change that is still open counts from its call."""
    changed: dict[str, int] = {}
    read: dict[str, int] = {}
    for each in operations:
        if each.name == last_name and each.outcome is Outcome.OK:
            read[each.key] = max(read.get(each.key, 0), each.called)
        elif each.name != last_name:
            changed[each.key] = max(changed.get(each.key, 0), each.returned or each.called)
    late = sorted(key for key, when in changed.items() if read.get(key, -1) < when)
    return f"{len(late)} keys were not read at the end, as {late[0]}" if late else ""
