"""Run seeds: `python -m sim.leases.run SEED` repeats one and prints its transcript, `--seeds N` tries many."""

import argparse
import sys
from dataclasses import dataclass

from sim.leases.world import World

__all__ = ["Result", "run_seed"]


@dataclass(frozen=True, slots=True)
class Result:
    """How one seed ended. `failure` is None if every invariant held."""

    seed: int
    digest: str
    elections: int
    grounds: frozenset[str]
    committed: int
    transfers: int
    failure: str | None
    lines: tuple[str, ...]


def run_seed(seed: int) -> Result:
    """One run. The same seed gives the same result."""
    world = World(seed)
    failure = None
    try:
        world.run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error} (PYTHONPATH=broker:tests python -m sim.leases.run {seed})"
    observer = world.observer
    grounds = frozenset(each.value for each in observer.grounds)
    return Result(
        seed, world.digest, observer.elections, grounds, len(observer.committed), observer.transfers, failure,
        tuple(world.lines),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--seeds", type=int, default=0)
    given = parser.parse_args()
    if not given.seeds:
        result = run_seed(given.seed)
        print(*result.lines, sep="\n")
        print(f"seed {result.seed} trace {result.digest} elections {result.elections} committed {result.committed}")
        print(f"FAILED: {result.failure}" if result.failure else "clean")
        return int(result.failure is not None)
    failed = 0
    for seed in range(given.seed, given.seed + given.seeds):
        result = run_seed(seed)
        if result.failure:
            failed += 1
            print(f"seed {seed}: {result.failure}")
    print(f"{given.seeds} seeds, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
