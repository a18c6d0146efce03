"""Run seeds: `python -m sim.consensus.run SEED` repeats one and prints its transcript, `--seeds N` tries many."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from time import monotonic

from sim.consensus.disk import SimStore
from sim.consensus.file_store import FileStore
from sim.consensus.marks import MARKS
from sim.consensus.shape import draw_plan, draw_shape
from sim.consensus.world import World

__all__ = ["Result", "repeat_command", "run_seed"]


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


def repeat_command(seed: int, *, files: bool = False) -> str:
    """What repeats this seed, from the root of the repository."""
    return f"PYTHONPATH=broker:tests python -m sim.consensus.run {seed:#x}" + " --files" * files


def _in_memory(segment_bytes: int, draw: Random) -> SimStore:
    return SimStore(segment_bytes)


def run_seed(seed: int, *, keep: int = 400, messages: bool = False, files: bool = False) -> Result:
    """One run. The same seed gives the same result, whatever ran before it. `files`: over the controllers' store."""
    shape = draw_shape(seed)
    plan = draw_plan(seed, shape)
    failure, world = None, None
    try:
        make_store = FileStore.on_empty_disk if files else _in_memory
        world = World(seed, shape, plan, keep=keep, messages=messages, make_store=make_store)
        world.run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    if world is None:
        raise AssertionError(failure)
    observer = world.observer
    return Result(
        seed,
        world.trace.digest,
        world.steps,
        world.decided,
        world.reads,
        len(observer.ends),
        len(observer.leaders),
        dict(observer.marks.hits),
        failure,
        tuple(world.trace.lines),
    )


def _print(result: Result, *, files: bool) -> None:
    shape = draw_shape(result.seed)
    plan = [asdict(fault) for fault in draw_plan(result.seed, shape)]
    config = blake2b(json.dumps(shape.as_data()).encode(), digest_size=8).hexdigest()
    for line in result.transcript:
        print(line)
    print(f"seed {result.seed:#x}  config {config}  plan {len(plan)} faults  trace {result.digest}")
    print(f"{result.steps} steps, {result.committed} committed, {result.leaders} leaders, {result.reads} reads")
    print(f"FAILED: {result.failure}" if result.failure else "clean")
    print(f"repeat: {repeat_command(result.seed, files=files)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=lambda text: int(text, 0), help="the seed, or the first of many")
    parser.add_argument("--seeds", type=int, default=0, help="run so many seeds and print only failures")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failures")
    parser.add_argument("--keep", type=int, default=400, help="lines of transcript to keep")
    parser.add_argument("--messages", action="store_true", help="put every delivered message into the transcript")
    parser.add_argument("--files", action="store_true", help="over the controllers' store, on simulated disks")
    parser.add_argument("--results", type=Path, help="append one JSON line for each seed here")
    given = parser.parse_args()
    if not given.seeds:
        result = run_seed(given.seed, keep=given.keep, messages=given.messages, files=given.files)
        _print(result, files=given.files)
        return 1 if result.failure else 0
    return _many(given)


def _many(given: argparse.Namespace) -> int:
    began, done, failed, steps, committed = monotonic(), 0, 0, 0, 0
    hits: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.seeds):
        result = run_seed(seed, keep=given.keep, files=given.files)
        done, steps, committed = done + 1, steps + result.steps, committed + result.committed
        hits.update(result.marks)
        if result.failure:
            failed += 1
            print(f"{result.failure}\n  repeat: {repeat_command(seed, files=given.files)}")
        if given.results:
            line = {"seed": seed, "digest": result.digest, "failure": result.failure, "committed": result.committed}
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if failed >= given.failures or monotonic() - began > given.seconds:
            break
    took = monotonic() - began
    print(f"{done} seeds, {failed} failed, {steps} steps, {committed} committed, {took:.1f} s")
    print("marks: " + ", ".join(f"{name} {hits[name]}" for name in MARKS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
