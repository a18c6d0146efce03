"""Run seeds: `python -m sim.consensus.run SEED` repeats one and prints its transcript, `--seeds N` tries many."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import monotonic

from sim.consensus.marks import MARKS
from sim.consensus.plan import Fault, Plan, decode_plan, draw_plan
from sim.consensus.world import World

__all__ = ["Result", "explain", "repeat_command", "run_plan", "run_seed"]


COMMAND = "PYTHONPATH=broker:tests python -m sim.consensus.run"


def repeat_command(seed: int, *, files: bool = False) -> str:
    """What repeats this seed, from the root of the repository."""
    return f"{COMMAND} {seed:#x}" + " --files" * files


@dataclass(frozen=True, slots=True)
class Result:
    """How one seed ended. `failure` is None if every invariant held."""

    seed: int
    digest: str
    steps: int
    decided: int
    reads: int
    committed: int
    leaders: int
    marks: dict[str, int]
    failure: str | None
    transcript: tuple[str, ...]
    ended_us: int
    """When, in virtual time: at the failure if there was one."""
    halted: bool
    """Whether it ended without a leader because too many disks were doubtful; the one legal end besides recovery."""


def run_seed(seed: int, *, keep: int = 0, messages: bool = False, files: bool = False) -> Result:
    """One run. The same seed gives the same result, whatever ran before it. `files`: over the controllers' store."""
    return run_plan(draw_plan(seed, files=files), keep=keep, messages=messages)


def run_plan(plan: Plan, *, keep: int = 0, messages: bool = False) -> Result:
    """One run; `keep`: lines of transcript for each member, `messages`: with every message that arrives."""
    failure, world = None, None
    try:
        world = World(plan, keep=keep, messages=messages)
        world.run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    if world is None:
        raise AssertionError(failure)
    observer = world.observer
    return Result(
        plan.seed,
        world.trace.digest,
        world.steps,
        world.decided,
        world.reads,
        len(observer.ends),
        len(observer.leaders),
        dict(observer.marks.hits),
        failure,
        tuple(world.trace.lines),
        world.now_us,
        world.halted,
    )


def explain(plan: Plan, repeat: str, *, keep: int = 30) -> str:
    """Run a plan once more, and say everything about it that helps: faults, the end of each member's story, verdict."""
    result = run_plan(plan, keep=keep, messages=True)
    config = blake2b(json.dumps(plan.shape.as_data()).encode(), digest_size=8).hexdigest()
    lines = ["faults:", *(f"  {fault.at_ms:>6} ms {_say_fault(fault)}" for fault in plan.faults)]
    lines += [f"the last {keep} events of every member:", *result.transcript]
    lines.append(f"seed {plan.seed:#x}  config {config}  {len(plan.faults)} faults  {len(plan.actions)} actions")
    lines.append(f"{result.steps} steps, {result.committed} committed, {result.leaders} leaders, {result.reads} reads")
    lines.append(f"trace {result.digest}")
    lines.append(f"FAILED: {result.failure}" if result.failure else "clean")
    return "\n".join([*lines, f"repeat: {repeat}"])


def _say_fault(fault: Fault) -> str:
    return f"{fault.kind} of {'the leader' if fault.target < 0 else f'n{fault.target + 1}'} for {fault.lasts_ms} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", help="the seed, the first of many, or a file with a plan")
    parser.add_argument("--seeds", type=int, default=0, help="run so many seeds and print only failures")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failures")
    parser.add_argument("--keep", type=int, default=30, help="lines of transcript for each member")
    parser.add_argument("--files", action="store_true", help="over the controllers' store, on simulated disks")
    parser.add_argument("--results", type=Path, help="append one JSON line for each seed here")
    given = parser.parse_args()
    if given.seeds:
        return _many(given)
    if Path(given.seed).is_file():
        plan, repeat = decode_plan(Path(given.seed).read_text()), f"{COMMAND} {given.seed}"
    else:
        plan = draw_plan(int(given.seed, 0), files=given.files)
        repeat = repeat_command(plan.seed, files=given.files)
    text = explain(plan, repeat, keep=given.keep)
    print(text)
    return 1 if "\nFAILED: " in text else 0


def _many(given: argparse.Namespace) -> int:
    began, done, failed, halted, steps, committed = monotonic(), 0, 0, 0, 0, 0
    hits: Counter[str] = Counter()
    for seed in range(int(given.seed, 0), int(given.seed, 0) + given.seeds):
        result = run_seed(seed, files=given.files)
        done, steps, committed = done + 1, steps + result.steps, committed + result.committed
        halted += result.halted
        hits.update(result.marks)
        if result.failure:
            failed += 1
            print(f"{result.failure}\n  repeat: {repeat_command(seed, files=given.files)}", flush=True)
        if given.results:
            line = {"seed": seed, "digest": result.digest, "failure": result.failure, "committed": result.committed}
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if failed >= given.failures or monotonic() - began > given.seconds:
            break
    took = monotonic() - began
    print(f"{done} seeds, {failed} failed, {halted} halted, {steps} steps, {committed} committed, {took:.1f} s")
    print("marks: " + ", ".join(f"{name} {hits[name]}" for name in MARKS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
