"""Chaos for as long as one likes: chapter after chapter, each with a fresh group, a seed of its own and drawn rounds.

    python -m system.chaos --seconds 3600 [--seed N] [--mode NAME] [--guarded] [--beside CHECKOUT]

The seed of a chapter repeats its mode, rounds and targets, not the moments at which processes run. What failed stays in
the directory that is printed. The exit code is 1 if a chapter failed, or none was begun. With --beside each chapter
goes to that release and back, one process after the other, under faults.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from system.broker_groups import STORE
from system.group_chaos import FOLLOWER_READS, SHAPES, chapter
from system.group_modes import CONTROLLER, MODES, RAFT, STATIC, STATIC_ALONE, STATIC_SOME, GroupMode
from system.group_pressure import why_no_pressure
from system.group_releases import release_plan, release_shapes
from system.netns import why_unavailable

_ROUNDS = 24
_VARIANTS: tuple[Mapping[str, object], ...] = (
    {}, {"store": {**STORE, "retention": {"size": "12MiB"}}}, {"flush": "async"}, FOLLOWER_READS,
)  # fmt: skip
"""Settings of brokers, taken in turn. With so little kept, a replica that is filled anew begins in the middle."""
_VARIANTS_ELSEWHERE = (*_VARIANTS[:2], FOLLOWER_READS)
"""In the other modes whoever votes or is awaited has flushed."""
_LOSES_UNFLUSHED = frozenset({"power cut of all brokers"})
"""With `flush: async` these may lose what was answered, so they are left out there."""
_MODES = (CONTROLLER, RAFT, CONTROLLER, STATIC, CONTROLLER, STATIC_SOME, RAFT, STATIC_ALONE)
"""By the seed, in turn."""
INTERRUPTED = 130


def _plan(seed: int, *, without: frozenset[str]) -> list[str]:
    """Half of them drawn freely, half so that in two chapters nearly every shape is among them."""
    draw = random.Random(seed)
    shapes = [shape for shape in SHAPES if shape not in without]
    half = _ROUNDS // 2
    turn = [shapes[(seed * half + at) % len(shapes)] for at in range(half)]
    plan = [*turn, *draw.choices(shapes, k=_ROUNDS - half)]
    draw.shuffle(plan)
    return plan


def _one(seed: int, mode: GroupMode, *, guarded: bool, beside: Path | None) -> bool:
    directory = Path(tempfile.mkdtemp(prefix=f"logherd-chaos-{seed}-"))
    try:
        variants = _VARIANTS if mode.led_by_controllers else _VARIANTS_ELSEWHERE
        settings = variants[seed % len(variants)]
        without = frozenset(mode.without) | (_LOSES_UNFLUSHED if "flush" in settings else frozenset())
        print(f"chapter {seed}, mode {mode.name}, {dict(settings) or 'defaults'}", flush=True)
        plan, shapes = _plan(seed, without=without), SHAPES
        if beside is not None:
            plan = [shape for shape in release_plan() if shape not in without]
            shapes = {**SHAPES, **release_shapes(beside)}
        chapter(directory, plan, seed=seed, guarded=guarded, settings=settings, mode=mode, shapes=shapes)
    except Exception:
        traceback.print_exc()
        print(f"chapter {seed} failed; its logs and histories are in {directory}", flush=True)
        return False
    except KeyboardInterrupt:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory)
    return True


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="system.chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no further chapter after this time")
    parser.add_argument("--seed", type=int, default=1000, help="of the first chapter")
    parser.add_argument("--mode", choices=MODES, help="of every chapter; default: drawn by its seed")
    parser.add_argument("--guarded", action="store_true", help="brokers run under their guardians")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="of another release, which is run beside")
    asked = parser.parse_args()
    if asked.beside is not None and not (asked.beside / "broker" / "logherd").is_dir():
        parser.error(f"--beside {asked.beside}: no checkout of LogHerd, which has broker/logherd")
    missing = why_unavailable() or why_no_pressure()
    if missing:
        print(f"not possible here: {missing}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a chapter made is removed, as on Ctrl-C
    over = time.monotonic() + asked.seconds
    failed, seed, interrupted = [], asked.seed, False
    try:
        while time.monotonic() < over:
            mode = MODES[asked.mode] if asked.mode else _MODES[seed % len(_MODES)]
            if not _one(seed, mode, guarded=asked.guarded, beside=asked.beside):
                failed.append(seed)
            seed += 1
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted in chapter {seed}, which counts as neither")
    print(f"{seed - asked.seed - len(failed)} chapters passed, {len(failed)} failed {failed or ''}")
    return exit_code(seed - asked.seed, failed=len(failed), interrupted=interrupted)


def exit_code(chapters: int, *, failed: int, interrupted: bool) -> int:
    """No chapter at all shows nothing, which is as red as a failure."""
    if failed:
        return 1
    if interrupted:
        return INTERRUPTED
    return 0 if chapters else 1


if __name__ == "__main__":
    sys.exit(main())
