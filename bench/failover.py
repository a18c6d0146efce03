"""Failover at a stock Java producer, default settings, 200 messages/s from four threads: `python -m bench.failover`.

Rounds of every kind of fault on real processes in network namespaces (needs root), judged by the limits of issue 5. The
leader is cut off twice: once through its own address, where the client finds the next leader when it asks for routes
again, and once through an address that follows the leader. A push consumer runs beside it; it has to get all that was
stored, and how long it got nothing is told and not judged. Ends with 1 if a limit is missed.
"""

import argparse
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from bench.place import bench_place, run_bench
from bench.targets import bench_classes

from compat.driver import Driver
from system.controllers import CLIENTS
from system.failover import Rounds, run_rounds
from system.leader_address import LEADER_ADDRESS, LeaderAddress
from system.replicas import ReplicatedGroup, network_of_group

_TOPIC = "Orders"


@dataclass(frozen=True, slots=True)
class Limit:
    """Seconds of the longest gap between two successes, in the middle and at worst; whether a send may fail that was on
    its way to what was hurt."""

    shape: str
    worst: float
    middle: float | None = None
    excused: bool = False


_DIRECT = (
    Limit("leader killed", 1.5, 0.5),
    Limit("leader paused", 5.0, excused=True),
    Limit("follower paused", 3.0),
    Limit("follower cut off", 3.0),
    Limit("planned switch", 1.0),
    Limit("rolling restart", 3.0),
    Limit("leader cut off", 36.0, excused=True),
)
_MOVED = (Limit("leader cut off", 6.0, excused=True),)


def run(directory: Path, limits: tuple[Limit, ...], count: int, *, moved: bool) -> Rounds:
    """So many rounds of each shape."""
    directory.mkdir()
    address = LEADER_ADDRESS if moved else None
    with network_of_group() as network, ReplicatedGroup(network, directory, leader_address=address) as group:
        under = network.enter(CLIENTS)
        follows = LeaderAddress(group) if moved else nullcontext()
        with (
            follows,
            Driver(bench_classes(), directory / "client", main="dev.logherd.compat.Driver", under=under) as driver,
        ):
            return run_rounds(group, driver, _TOPIC, [(limit.shape, count) for limit in limits], consume=True)


def judge(rounds: Rounds, limits: tuple[Limit, ...]) -> tuple[list[dict[str, object]], list[str]]:
    """Figures of each shape, and what is beyond its limit."""
    figures: list[dict[str, object]] = []
    faults = [f"{len(found)} {what} messages" for what, found in _wrong(rounds) if found]
    for limit in limits:
        of_shape = [each for each in rounds.rounds if each.shape == limit.shape]
        gaps = sorted(map(rounds.gap, of_shape))
        middle, worst = gaps[len(gaps) // 2], gaps[-1]
        failed = [send for each in of_shape for send in rounds.failed(each)]
        late = [send for each in of_shape for send in rounds.late(each)]
        figures.append({
            "shape": limit.shape, "rounds": len(gaps), "p50": middle, "worst": worst, "failed": len(failed),
            "late": len(late), "gaps": gaps, "rests": sorted(map(rounds.rest, of_shape)),
        })  # fmt: skip
        if worst > limit.worst:
            faults.append(f"{limit.shape}: a gap of {worst:.3f} s, at most {limit.worst} s")
        if limit.middle is not None and middle > limit.middle:
            faults.append(f"{limit.shape}: p50 of the gaps {middle:.3f} s, at most {limit.middle} s")
        wrong = late if limit.excused else failed
        faults += [f"{limit.shape}: {each.value} failed: {each.fault}" for each in wrong]
    return figures, faults


def _wrong(rounds: Rounds) -> list[tuple[str, tuple[object, ...]]]:
    assert rounds.difference is not None
    return [("lost", rounds.difference.lost), ("foreign", rounds.difference.foreign)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of each kind")
    parser.add_argument("--only", help="kinds, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("bench-failover.json"), help="where the figures go as JSON")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    found: dict[str, object] = {"load": os.getloadavg()}
    lines, faults = [], []
    with bench_place() as place:
        for name, moved, all_limits in (("its own address", False, _DIRECT), ("an address that follows", True, _MOVED)):
            limits = tuple(limit for limit in all_limits if only is None or limit.shape in only)
            if not limits:
                continue
            rounds = run(place / ("moved" if moved else "direct"), limits, options.rounds, moved=moved)
            figures, beyond = judge(rounds, limits)
            found[name] = figures
            faults += [f"{name}: {each}" for each in beyond]
            lines += [f"the leader through {name}, {len(rounds.sends)} sends:", *map(rounds.report, _shapes(limits))]
    print("\n" + "\n".join(lines))
    print(
        "\n".join(["beyond the limits:", *faults] if faults else ["every limit is kept; nothing lost, nothing foreign"])
    )
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(1 if faults else 0)


def _shapes(limits: tuple[Limit, ...]) -> list[str]:
    return [limit.shape for limit in limits]


if __name__ == "__main__":
    run_bench(main)
