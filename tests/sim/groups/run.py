"""Run seeds and plans of whole groups, as `sim.leases.run` does: `python -m sim.groups.run SEED`, or `--seeds N`."""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from traceback import format_exc

from sim.groups.free_world import FreeWorld
from sim.groups.shape import draw_free_plan, draw_plan
from sim.groups.world import GroupWorld
from sim.leases.shape import simpler
from sim.plan import Plan
from sim.shrink import shrink

__all__ = ["Result", "run_plan", "run_seed"]


@dataclass(frozen=True, slots=True)
class Result:
    """How one run ended. `failure` is None if every invariant held."""

    seed: int
    digest: str
    steps: int
    elections: int
    committed: int
    answered: int
    seen: dict[str, int]
    failure: str | None
    where: str
    transcript: tuple[str, ...]

    @property
    def rule(self) -> str:
        """Which invariant failed, "" if none did."""
        return self.failure.split(":")[1].strip() if self.failure else ""


def run_seed(seed: int, *, mode: str = "controller", keep: int = 400) -> Result:
    """One run. The same seed gives the same result, whatever ran before it."""
    return run_plan(plan_of(seed, mode), keep=keep)


def plan_of(seed: int, mode: str) -> Plan:
    """What a seed stands for in a mode."""
    return draw_plan(seed) if mode == "controller" else draw_free_plan(seed, mode)


def run_plan(plan: Plan, *, keep: int = 400) -> Result:
    """One run of a plan, drawn or recorded."""
    failure, where = None, ""
    world = FreeWorld(plan, keep=keep) if "mode" in plan.shape else GroupWorld(plan, keep=keep)
    try:
        world.run()
    except Exception as error:
        failure, where = f"{type(error).__name__}: {error}", format_exc()
    fates = world.observer.fates.values()
    return Result(
        plan.seed, world.trace.digest, world.steps, sum(fate.elections for fate in fates),
        sum(fate.acknowledged for fate in fates), world.answered, dict(world.seen), failure, where,
        tuple(world.trace.lines),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=lambda text: int(text, 0), nargs="?", default=0, help="the first, if many")
    parser.add_argument("--mode", choices=("controller", "static", "raft"), default="controller")
    parser.add_argument("--seeds", type=int, default=0, help="run so many seeds and print only failures")
    parser.add_argument("--seconds", type=float, default=600, help="stop, or stop shrinking, after so long")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failures")
    parser.add_argument("--keep", type=int, default=400, help="lines of transcript to keep")
    parser.add_argument("--plan", type=Path, help="replay this plan")
    parser.add_argument("--shrink", type=Path, help="make the failing plan small and keep it here")
    given = parser.parse_args()
    if given.seeds:
        return _many(given)
    plan = Plan.load(given.plan) if given.plan else plan_of(given.seed, given.mode)
    result = run_plan(plan, keep=given.keep)
    if given.shrink and result.failure:
        rule = result.rule
        plan = shrink(
            plan, lambda tried: run_plan(tried, keep=1).rule == rule, seconds=given.seconds, simpler=simpler
        )  # fmt: skip
        plan.replaced(why=result.failure).save(given.shrink)
        result = run_plan(plan, keep=given.keep)
    print("\n".join(result.transcript))
    print(result.where)
    print(f"{result.steps} steps, {result.elections} elections, {result.committed} records, trace {result.digest}")
    print(f"FAILED: {result.failure}" if result.failure else "clean")
    print(f"repeat: PYTHONPATH=broker:tests python -m sim.groups.run {plan.seed:#x} --mode {given.mode}")
    return int(result.failure is not None)


def _many(given: argparse.Namespace) -> int:
    began, done, failed = monotonic(), 0, 0
    sums = dict.fromkeys(("steps", "elections", "committed", "answered"), 0)
    seen: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.seeds):
        result = run_seed(seed, mode=given.mode, keep=1)
        done += 1
        for name in sums:
            sums[name] += getattr(result, name)
        seen.update(result.seen)
        if result.failure:
            failed += 1
            print(
                f"{result.failure}\n  repeat: PYTHONPATH=broker:tests python -m sim.groups.run {seed:#x} "
                f"--mode {given.mode}",
                flush=True,
            )
        if failed >= given.failures or monotonic() - began > given.seconds:
            break
    print(f"{done} seeds, {failed} failed, {monotonic() - began:.1f} s: {sums} {dict(seen)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
