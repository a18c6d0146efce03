"""A chapter of chaos: one broker group, rounds of faults under load, and the judgement of all that was seen.

What must hold whatever happened: every acknowledged message is where its answer said, as it was sent; offsets are
dense; nothing is there that was not sent; what a reader has seen stays, and nobody is told of an end before it;
committed consumer offsets are linearizable; each epoch has one leader; all replicas hold the same bytes, which `logherd
store verify` finds whole; no process, controllers included, has written of a defect or holds more than at first.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from checkers.history import History, Outcome
from checkers.leadership import check_terms
from checkers.linear import Floor, build_judge, judge
from checkers.log_checks import check_log
from checkers.mutants import log_mutants, register_mutants
from checkers.operations import Operation
from system.broker_groups import GroupBench, group_bench
from system.group_clocks import CLOCK_SHAPES
from system.group_cuts import CUT_SHAPES
from system.group_disks import DISK_SHAPES
from system.group_judges import compare_replicas, settle_positions, verified
from system.group_load import QUEUES, GroupLoad, drained
from system.group_modes import CONTROLLER, PROMOTING, GroupMode
from system.group_offsets import OFFSETS_MIN, OffsetLoad
from system.group_pressure import PRESSURE_SHAPES
from system.group_processes import PROCESS_SHAPES
from system.group_rot import ROT_SHAPES
from system.group_rounds import GOES_ON, Shape, run_group_rounds
from system.group_storms import STORM_SHAPES
from system.guardians import eventually

__all__ = ["FOLLOWER_READS", "SHAPES", "chapter"]

SHAPES: Mapping[str, Shape] = MappingProxyType(
    {**PROCESS_SHAPES, **CLOCK_SHAPES, **CUT_SHAPES, **DISK_SHAPES, **STORM_SHAPES, **PRESSURE_SHAPES, **ROT_SHAPES}
)
FOLLOWER_READS: Mapping[str, object] = MappingProxyType({"replication": {"followerReads": True}})
READ = 20
"""So many reads for each round must have shown messages, and so many have told a queue's end."""
_LET_GO_SECONDS = 60.0
_READ_SECONDS = 60.0
_HELD_MORE = 8


def chapter(
    directory: Path, plan: Sequence[str], *, seed: int, guarded: bool = False,
    settings: Mapping[str, object] | None = None, mode: GroupMode = CONTROLLER, shapes: Mapping[str, Shape] = SHAPES,
) -> None:  # fmt: skip
    """Carry out rounds of these shapes in this order. Blocks.

    Raises: AssertionError for what must not be; UnprovedFault if a fault had no effect, so that nothing was shown.
    """
    program = build_judge()
    draw = random.Random(seed)
    with group_bench(directory, seed=seed, guarded=guarded, settings=settings, mode=mode) as bench:
        before = _held(bench)
        follower_reads = "followerReads" in str((settings or {}).get("replication"))
        with GroupLoad(bench.network, strong=not follower_reads) as load:
            load.wait_for(Outcome.OK, 4 * OFFSETS_MIN * QUEUES)
            with OffsetLoad(bench.network, directory) as offsets:
                log = run_group_rounds(bench, load, shapes, plan)
                if follower_reads:  # brokers count for one life only, and the last round may have ended all of them
                    eventually(lambda: _read_by_followers(bench) > 0, "no follower answers a pull", _READ_SECONDS)
        history = drained(bench.network, load.history())
        store = (settings or {}).get("store")
        history.deletes = isinstance(store, Mapping) and "retention" in store
        offsets.drain()
        _judge_held(bench, before)
        _judge_replicas(bench)
        _judge_leaders(bench, plan)
        assert [*bench.group.complaints(), *bench.controllers.complaints()] == []
        print(bench.group.marks())
    assert sum(log.done.values()) == len(plan)
    if mode.promotes and not {*PROMOTING}.isdisjoint(plan):
        print(f"{log.orders} orders by hand")
        assert log.orders, "nobody was promoted by hand: this shows nothing"
    print(f"whole again, seconds: longest {max(log.whole_seconds):.1f}")
    _judge_messages(history, draw, rounds=len(plan))
    _judge_offsets(program, offsets.history(), draw, rounds=len(plan))


def _read_by_followers(bench: GroupBench) -> int:
    """How many pulls brokers have answered while another one led."""
    views = (bench.group.ask(name).get("replication", {}) for name in bench.group.brokers)
    return sum(int(view.get("requests", {}).get("read", 0)) for view in views)


def _held(bench: GroupBench) -> dict[str, int]:
    """By process, its sockets and threads. Those of log and index files come and go with what is stored."""
    pids = {name: node.broker_pid for name, node in bench.group.brokers.items()}
    pids |= {name: node.pid for name, node in bench.controllers.nodes.items()}
    return {name: _sockets(pid) + len(os.listdir(f"/proc/{pid}/task")) for name, pid in pids.items()}


def _sockets(pid: int) -> int:
    count = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(each.readlink()).startswith("socket:")
    return count


def _judge_held(bench: GroupBench, before: Mapping[str, int]) -> None:
    """Now that the clients are gone nobody keeps more than a leader did at first, whatever broke in between."""
    bench.group.agree()
    deadline = time.monotonic() + _LET_GO_SECONDS
    while True:
        kept = _held(bench)
        most = {name: max(before[each] for each in before if each[0] == name[0]) for name in before}
        if all(kept[name] <= most[name] + _HELD_MORE for name in before):
            print(f"sockets and threads {before}, after all faults {kept}")
            return
        assert time.monotonic() < deadline, f"sockets and threads at first {before}, after all faults {kept}"
        time.sleep(1)


def _judge_replicas(bench: GroupBench) -> None:
    """The same bytes everywhere, once all is settled and every process has ended without warning."""
    end = settle_positions(bench.group)
    for node in bench.group.nodes.values():
        node.kill()
    directories = {name: node.data for name, node in bench.group.brokers.items()}
    assert list(compare_replicas(directories, end)) == []
    assert list(verified(list(directories.values()), end)) == []
    print(f"{end} bytes are the same on {len(directories)} replicas")


def _judge_leaders(bench: GroupBench, plan: Sequence[str]) -> None:
    """Where some leader has to go it was seen to, in its own epoch."""
    floor = 1 + sum(shape in PROMOTING and shape not in bench.mode.without for shape in plan) // 2
    terms = check_terms(bench.group.sightings | bench.group.logged_sightings(), terms_min=floor)
    assert terms.name == "valid", terms


def _judge_messages(history: History, draw: random.Random, *, rounds: int) -> None:
    """The log as clients saw it; and it would not be valid if one thing in it had been another."""
    print(dict(Counter(send.outcome.value for send in history.sends)), f"sends, {len(history.reads)} reads")
    floor = rounds * GOES_ON
    verdict = check_log(history, ok_sends_min=floor, reads_min=rounds * READ)
    assert verdict.name == "valid", verdict
    for name, mutant in log_mutants(history, draw):
        assert check_log(mutant, ok_sends_min=floor).name == "invalid", name


def _judge_offsets(program: Path, operations: Sequence[Operation], draw: random.Random, *, rounds: int) -> None:
    print(dict(Counter(f"{each.name} {each.outcome.value}" for each in operations)), "of consumer offsets")
    floor = Floor({"read": 20 * rounds, "write": 15 * rounds}, keys=rounds, drained_by="read")
    verdict = judge(program, operations, "register", floor=floor)
    assert verdict.name == "valid", verdict
    for name, mutant in islice(register_mutants(operations, draw), 2):
        assert judge(program, mutant, "register", floor=floor).name == "invalid", name
