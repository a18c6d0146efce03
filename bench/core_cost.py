"""What a proposal costs in the pure core and its log, without sockets: `python -m bench.core_cost [--profile]`.

One process plays a leader and two followers: each batch of proposals is one step of the leader, one Append to each
follower, one flush of each log (into files in a temporary directory, not timed with --no-disk), one acknowledgement of
each follower. The table shows microseconds of processor time for each proposal, by the part that spent them.
"""

import argparse
import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.place import bench_place, run_bench

from logherd.model.names import Position
from logherd.raft.core import RaftCore, found_group
from logherd.raft.inputs import Applied, Flushed, Input, Propose, ProposeAll, Received, Tick
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output, Role
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.replication.messages import ClusterId, Envelope, ReplicaId
from logherd.store.files_os import OsFiles

__all__ = ["Trio", "main"]

NAMES = tuple(map(ReplicaId, ("a.1", "b.1", "c.1")))
BATCHES = (1, 64, 512)
SIZES = (64, 1024)


class Member:
    """One member: its core, its log, and the processor time that each part took, in ns."""

    def __init__(self, name: ReplicaId, directory: Path) -> None:
        hard = HardState(ClusterId("bench"), name)
        self.log = RaftLog.open(OsFiles(), str(directory), RaftLogOptions())
        found_group(self.log, hard, NAMES)
        self.log.take_batch(0).write_and_flush()
        self.core = RaftCore(self.log, RaftOptions(), hard=hard, seed=ord(name[0]), now=0)
        self.cost: Counter[str] = Counter()

    def timed(self, part: str, action: Callable[[], Output | None]) -> Output | None:
        begun = time.thread_time_ns()
        result = action()
        self.cost[part] += time.thread_time_ns() - begun
        return result


class Trio:
    """Three members in one thread; messages are handed over as they are."""

    def __init__(self, directory: Path) -> None:
        self.members = {name: Member(name, directory / name) for name in NAMES}
        self.now = 0
        self.decided = 0
        self._last_request = 0
        while not any(member.core.leading and member.core.leading.ready for member in self.members.values()):
            self.now += 20
            for member in self.members.values():
                self._feed(member, Tick(), "tick")
        self.leader = next(member for member in self.members.values() if member.core.role is Role.LEADER)

    def propose(self, bodies: list[bytes]) -> None:
        """One batch, until it is decided and applied at the leader."""
        first = self._last_request + 1
        self._last_request += len(bodies)
        proposals = tuple(Propose(first + place, body) for place, body in enumerate(bodies))
        self._feed(self.leader, ProposeAll(proposals), "propose")

    def _feed(self, member: Member, event: Input, part: str) -> None:
        """One step and all that follows from it, in the order that output.py asks for."""
        waiting: list[tuple[Member, Input, str]] = [(member, event, part)]
        while waiting:
            at, what, name = waiting.pop(0)
            output = at.timed(name, lambda at=at, what=what: at.core.step(what, self.now))  # type: ignore[misc]
            if output is None:
                continue
            waiting += self._deliveries(output.messages)
            if output.flush is not None:
                batch = at.log.take_batch(output.flush)
                at.timed("write", batch.write_and_flush)
                waiting += self._deliveries(output.held)
                waiting.append((at, Flushed(batch.token), "flushed"))
            if output.apply_to is not None:
                waiting.append((at, Applied(Position(output.apply_to)), "applied"))
            self.decided += len(output.answers)

    def _deliveries(self, envelopes: tuple[Envelope, ...]) -> list[tuple[Member, Input, str]]:
        return [
            (self.members[envelope.to], Received(envelope), f"got {type(envelope.body).__name__}")
            for envelope in envelopes
        ]

    def close(self) -> None:
        for member in self.members.values():
            member.log.close()


def run(trio: Trio, batch: int, size: int, count: int) -> dict[str, float]:
    """Microseconds for each proposal by part, at the leader and at one follower."""
    for member in trio.members.values():
        member.cost.clear()
    bodies = [bytes(size)] * batch
    for _ in range(max(1, count // batch)):
        trio.propose(bodies)
    done = max(1, count // batch) * batch
    follower = next(member for member in trio.members.values() if member is not trio.leader)
    out = {f"leader {part}": spent / done / 1000 for part, spent in trio.leader.cost.items()}
    out |= {f"follower {part}": spent / done / 1000 for part, spent in follower.cost.items()}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="proposals of each combination")
    parser.add_argument("--profile", action="store_true", help="profile batches of --batch instead of the table")
    parser.add_argument("--batch", type=int, default=64, help="for --profile")
    options = parser.parse_args()
    with bench_place() as place:
        trio = Trio(place)
        if options.profile:
            profiler = cProfile.Profile(time.thread_time)
            profiler.runcall(run, trio, options.batch, 64, options.count)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
        else:
            for size in SIZES:
                for batch in BATCHES:
                    count = options.count if batch > 1 else options.count // 10
                    parts = run(trio, batch, size, count)
                    shown = ", ".join(f"{part} {spent:.2f}" for part, spent in parts.items() if spent >= 0.005)
                    print(f"{size:>5} B, batches of {batch:>3}: {shown}")
        trio.close()


if __name__ == "__main__":
    run_bench(main)
