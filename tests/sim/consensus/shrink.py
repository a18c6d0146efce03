"""Make a failing plan small: `python -m sim.consensus.shrink SEED [--files] [--bug NAME] [--to FILE]`.

Delta debugging over faults and client actions together, then shorter faults, a shorter run and a quieter network. The
streams of noise stay as they are. A smaller plan is kept only if it breaks the same rule.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from sim.consensus.plan import Action, Fault, Plan, decode_plan, draw_plan, encode_plan
from sim.consensus.run import COMMAND, explain, run_plan
from sim.shrink import minimised

__all__ = ["rule_of", "shrunk"]

_Event = Fault | Action
_QUIETER: tuple[dict[str, object], ...] = (
    {"loss": 0.0},
    {"duplication": 0.0},
    {"apply_delay_ms": 0},
    {"preferred": 0},
    {"drift_ppm": 500},
    {"spares": 0},
    {"spares": 1},
    {"founders": 3},
)


def rule_of(failure: str | None) -> str | None:
    """What was broken, without the particulars."""
    return None if failure is None else ":".join(failure.split(":")[:2]).split("(")[0]


def shrunk(plan: Plan, seconds: float = 600.0) -> tuple[Plan, int]:
    """The smallest plan found in the time that breaks the same rule, and how many runs that took."""
    until, runs = monotonic() + seconds, 0
    wanted = rule_of(run_plan(plan).failure)
    if wanted is None:
        raise ValueError("the plan does not fail")

    def fails(candidate: Plan) -> bool:
        nonlocal runs
        if monotonic() > until:
            return False
        runs += 1
        return rule_of(run_plan(candidate).failure) == wanted

    plan = _cut_short(plan, fails)
    events = minimised([*plan.faults, *plan.actions], lambda some: fails(_with(plan, some)))
    plan = _quieter(_with(plan, events), fails)
    events = minimised([*plan.faults, *plan.actions], lambda some: fails(_with(plan, some)))
    return _with(plan, events), runs


def _with(plan: Plan, events: list[_Event]) -> Plan:
    faults = tuple(event for event in events if isinstance(event, Fault))
    return replace(plan, faults=faults, actions=tuple(event for event in events if isinstance(event, Action)))


def _cut_short(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """End the run with the failure: nothing that comes later had a part in it."""
    end_us = run_plan(plan).ended_us
    shorter = replace(
        plan,
        faults=tuple(fault for fault in plan.faults if fault.at_ms * 1000 <= end_us),
        actions=tuple(action for action in plan.actions if action.at_us <= end_us),
    )
    sooner = replace(shorter, shape=replace(plan.shape, faulty_ms=min(end_us // 1000 + 1, plan.shape.faulty_ms)))
    return next((candidate for candidate in (sooner, shorter) if fails(candidate)), plan)


def _quieter(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    for change in _QUIETER:
        candidate = replace(plan, shape=replace(plan.shape, **change))  # type: ignore[arg-type]
        if candidate != plan and fails(candidate):
            plan = candidate
    for place, fault in enumerate(plan.faults):
        for lasts in (50, 300, 1_200):
            if lasts < fault.lasts_ms:
                shorter = (*plan.faults[:place], replace(fault, lasts_ms=lasts), *plan.faults[place + 1 :])
                if fails(replace(plan, faults=shorter)):
                    plan = replace(plan, faults=shorter)
                    break
    return plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", help="a seed, or a file with a plan")
    parser.add_argument("--files", action="store_true", help="over the controllers' store, on simulated disks")
    parser.add_argument("--bug", help="with this seeded defect (seeded/raft_bugs.py)")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--to", type=Path, default=Path("plan.json"), help="where the plan is written")
    given = parser.parse_args()
    if Path(given.seed).is_file():
        plan = decode_plan(Path(given.seed).read_text())
    else:
        plan = draw_plan(int(given.seed, 0), files=given.files)
    with ExitStack() as stack:
        if given.bug:
            from seeded.raft_bugs import BUGS

            BUGS[given.bug].apply(stack.enter_context(pytest.MonkeyPatch.context()))
        failure = run_plan(plan).failure
        if failure is None:
            print("clean: nothing to shrink")
            return 1
        small, runs = shrunk(plan, given.seconds)
        given.to.write_text(encode_plan(small, given.bug or failure))
        print(explain(small, f"{COMMAND} {given.to}"))
        print(f"{len(plan.faults)} faults and {len(plan.actions)} actions became "
              f"{len(small.faults)} and {len(small.actions)} in {runs} runs: {given.to}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
