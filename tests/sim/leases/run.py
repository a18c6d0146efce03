"""Run seeds and plans: `python -m sim.leases.run SEED` repeats one and prints its transcript, `--seeds N` tries many.

`--record FILE` keeps the plan of a seed, `--plan FILE` replays it instead of a seed, `--shrink FILE` makes whatever
fails small and keeps that.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from sim.leases.marks import MARKS
from sim.leases.shape import draw_plan, simpler
from sim.leases.world import World
from sim.plan import Plan
from sim.shrink import shrink

__all__ = ["Result", "repeat_command", "run_plan", "run_seed"]


@dataclass(frozen=True, slots=True)
class Result:
    """How one run ended. `failure` is None if every invariant held."""

    seed: int
    digest: str
    steps: int
    elections: int
    committed: int
    lost: int
    marks: dict[str, int]
    failure: str | None
    transcript: tuple[str, ...]

    @property
    def rule(self) -> str:
        """Which invariant failed, "" if none did."""
        return self.failure.split(":")[1].strip() if self.failure else ""


def repeat_command(seed: int) -> str:
    """What repeats this seed, from the root of the repository."""
    return f"PYTHONPATH=broker:tests python -m sim.leases.run {seed:#x}"


def run_seed(seed: int, *, keep: int = 400) -> Result:
    """One run. The same seed gives the same result, whatever ran before it."""
    return run_plan(draw_plan(seed), keep=keep)


def run_plan(plan: Plan, *, keep: int = 400) -> Result:
    """One run of a plan, drawn or recorded."""
    failure, world = None, None
    try:
        world = World(plan, keep=keep)
        world.run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    if world is None:
        raise AssertionError(failure)
    fates = world.observer.fates.values()
    return Result(
        plan.seed, world.trace.digest, world.steps, sum(fate.elections for fate in fates),
        sum(fate.acknowledged for fate in fates), sum(fate.lost for fate in fates), dict(world.marks.hits), failure,
        tuple(world.trace.lines),
    )  # fmt: skip


def _print(plan: Plan, result: Result, repeat: str) -> None:
    for line in result.transcript:
        print(line)
    print(f"seed {plan.seed:#x}  plan {plan.digest} of {len(plan.faults)} faults  trace {result.digest}")
    print(f"{result.steps} steps, {result.elections} elections, {result.committed} records, {result.lost} given up")
    print(f"FAILED: {result.failure}" if result.failure else "clean")
    print(f"repeat: {repeat}")


def make_small(plan: Plan, seconds: float) -> Plan:
    """The smallest plan found that breaks the same rule."""
    rule = run_plan(plan, keep=1).rule
    return shrink(plan, lambda tried: run_plan(tried, keep=1).rule == rule, seconds=seconds, simpler=simpler)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=lambda text: int(text, 0), nargs="?", default=0, help="the first, if many")
    parser.add_argument("--seeds", type=int, default=0, help="run so many seeds and print only failures")
    parser.add_argument("--seconds", type=float, default=600, help="stop, or stop shrinking, after so long")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failures")
    parser.add_argument("--keep", type=int, default=400, help="lines of transcript to keep")
    parser.add_argument("--plan", type=Path, help="replay this plan")
    parser.add_argument("--record", type=Path, help="keep the plan here")
    parser.add_argument("--shrink", type=Path, help="make the failing plan small and keep it here")
    given = parser.parse_args()
    if given.seeds:
        return _many(given)
    plan = Plan.load(given.plan) if given.plan else draw_plan(given.seed)
    repeat = f"PYTHONPATH=broker:tests python -m sim.leases.run --plan {given.plan}"
    if given.record:
        plan.save(given.record)
    result = run_plan(plan, keep=given.keep)
    if given.shrink and result.failure:
        plan = make_small(plan, given.seconds).replaced(why=result.failure)
        plan.save(given.shrink)
        given.plan = given.shrink
        result, repeat = run_plan(plan, keep=given.keep), repeat.rpartition(" ")[0] + f" {given.shrink}"
    _print(plan, result, repeat if given.plan else repeat_command(plan.seed))
    return int(result.failure is not None)


def _many(given: argparse.Namespace) -> int:
    began, done, failed, steps, committed = monotonic(), 0, 0, 0, 0
    hits: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.seeds):
        result = run_seed(seed, keep=1)
        done, steps, committed = done + 1, steps + result.steps, committed + result.committed
        hits.update(result.marks)
        if result.failure:
            failed += 1
            print(f"{result.failure}\n  repeat: {repeat_command(seed)}", flush=True)
        if failed >= given.failures or monotonic() - began > given.seconds:
            break
    print(f"{done} seeds, {failed} failed, {steps} steps, {committed} records, {monotonic() - began:.1f} s")
    print("marks: " + json.dumps({name: hits[name] for name in MARKS}))
    print("missed: " + ", ".join(name for name in MARKS if not hits[name]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
