"""Registers over the Raft log with its real store, links and disks: histories under faults are linearizable.

In two variants: reads confirmed by a quorum, at any member, and reads that a leader answers from its lease. Each member
has a disk of its own that can lose power.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from checkers.leadership import check_terms
from checkers.linear import Floor, build_judge, judge
from checkers.mutants import register_mutants
from checkers.operations import Operation, Recorder, read_operations
from system.controllers import CLIENT_PORT, CLIENTS, NODES, PEER_PORT, config_of, connect_from
from system.disks import LoopDisk, kernel_complaints
from system.netns import Network, why_unavailable
from system.nodes import NodeProcess, Quorum, python_command
from system.power import cut_power, cut_power_of_all, hand_over_by_power
from system.register_clients import KeyRing, RegisterClient, RegisterUser
from system.rounds import SHAPES, Bench, run_rounds

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

USERS = 6
PLAN = [
    ("power cut of the leader", 3),
    ("power cut of a follower", 1),
    ("power cut of all", 2),
    ("power moves the majority", 2),
    ("kill leader", 1),
    ("kill all", 1),
    ("pause leader until another leads", 1),
    ("leader sleeps and wakes up alone", 2),
    ("cut leader, packets dropped", 1),
    ("peer port of the leader", 1),
    ("leader hears nobody", 1),
    ("nobody hears the leader", 1),
    ("bridge with the leader at an end", 1),
    ("all apart", 1),
    ("a tenth lost", 1),
]


def register_node(
    network: Network, node: str, directory: Path, disk: LoopDisk, options: tuple[str, ...]
) -> NodeProcess:
    """A member whose data are on `disk`; its log and configuration are not, so that they outlive a power cut."""
    config = directory / "register.json"
    document = config_of(network, node, disk.mount_point, snapshotRecords=200)
    config.write_text(json.dumps(document))
    program = Path(__file__).with_name("register_node.py")
    command = python_command(str(program), "--config", str(config), *options)
    return NodeProcess(network, node, directory, command)


def status_of(network: Network) -> Callable[[str, float], Mapping[str, Any]]:
    """Asks a member from inside its own namespace."""

    def ask(node: str, seconds: float) -> Mapping[str, Any]:
        with network.doorway(node).connect(network.address(node), CLIENT_PORT, seconds=seconds) as made:
            made.sendall(b'{"op": "status"}\n')
            with made.makefile() as lines:
                said = json.loads(lines.readline())["ok"]
        assert isinstance(said, dict)
        return said

    return ask


@contextmanager
def three_registers(directory: Path, *options: str) -> Iterator[tuple[Bench, dict[str, LoopDisk]]]:
    with ExitStack() as stack:
        network = stack.enter_context(Network((*NODES, CLIENTS)))
        disks = {}
        for node in NODES:
            (directory / node).mkdir()
            disks[node] = stack.enter_context(LoopDisk(directory / node, size_mib=512))
        nodes = [register_node(network, node, directory / node, disks[node], options) for node in NODES]
        quorum = stack.enter_context(Quorum(nodes, status_of(network)))
        yield Bench(network, quorum, CLIENTS, PEER_PORT, CLIENT_PORT, random.Random(len(options))), disks


class Traffic:
    """Users of the registers. Use as a context manager."""

    def __init__(self, network: Network, directory: Path) -> None:
        self._network = network
        self._directory = directory
        self._recorders: list[Recorder] = []
        self.keys = KeyRing(alive=8)
        self.users = [RegisterUser(self.client(number), self.keys, number=number) for number in range(1, USERS + 1)]

    def client(self, number: int) -> RegisterClient:
        recorder = Recorder(self._directory / f"history-{number}.jsonl", number)
        self._recorders.append(recorder)
        return RegisterClient(connect_from(self._network), NODES, recorder)

    def close(self) -> None:
        """No more is recorded; the clients must have stopped."""
        for recorder in self._recorders:
            recorder.close()

    def history(self) -> list[Operation]:
        """What all clients have recorded, once they are closed."""
        return read_operations(recorder.path for recorder in self._recorders)

    def __enter__(self) -> "Traffic":
        for user in self.users:
            user.start()
        return self

    def __exit__(self, *_: object) -> None:
        for user in self.users:
            user.stopping.set()
        for user in self.users:
            user.join(20)
            if user.error is not None:
                raise user.error

    def drain(self) -> None:
        """Read every register once more."""
        client = self.client(USERS + 1)
        deadline = time.monotonic() + 30
        for key in self.keys.used:
            while (asked := client.ask("read", key)) is None or asked[0].value != "ok":
                assert time.monotonic() < deadline, f"{key} cannot be read: {asked}"
        client.close()


READS: dict[str, tuple[str, ...]] = {"confirmed by a quorum": (), "from the lease": ("--lease",)}


@pytest.mark.parametrize("reads", READS)
def test_registers_over_the_log_are_linearizable(tmp_path: Path, reads: str) -> None:
    program = build_judge()
    rounds = sum(count for _, count in PLAN)
    with (
        three_registers(tmp_path, *READS[reads]) as (bench, disks),
        closing(Traffic(bench.network, tmp_path)) as traffic,
    ):
        shapes = SHAPES | {
            "power cut of the leader": cut_power(disks, leader=True),
            "power cut of a follower": cut_power(disks, leader=False),
            "power cut of all": cut_power_of_all(disks),
            "power moves the majority": hand_over_by_power(disks),
        }
        assert bench.quorum.ask(bench.quorum.agree(seconds=60))["lease"] is bool(READS[reads])
        with traffic:
            run_rounds(bench, PLAN, shapes=shapes)
        traffic.drain()
        bench.quorum.converge()
        sightings = bench.quorum.sightings | bench.quorum.logged_sightings()
        print({name: disk.copies for name, disk in disks.items()})
        print(*bench.quorum.lines_with("log recovered"), *kernel_complaints(), sep="\n")
        assert bench.quorum.complaints() == []
    terms = check_terms(sightings, terms_min=rounds // 3)
    assert terms.name == "valid", terms
    operations = traffic.history()
    floor = Floor(
        {"read": 60 * rounds, "write": 20 * rounds, "cas": 20 * rounds}, keys=2 * rounds, drained_by="read"
    )  # fmt: skip
    began = time.monotonic()
    verdict = judge(program, operations, "register", floor=floor)
    took = time.monotonic() - began
    print(f"{verdict.name}: {verdict.checked} requests of {len(traffic.keys.used)} keys in {took:.1f} s")
    print(dict(Counter(f"{each.name} {each.outcome.value}" for each in operations)))
    assert verdict.name == "valid", verdict
    for name, mutant in register_mutants(operations, random.Random(rounds)):
        assert judge(program, mutant, "register", floor=floor).name == "invalid", name


def test_a_lease_that_never_ends_is_caught(tmp_path: Path) -> None:
    """The proof that these histories can fail: a leader that wakes up answers what is no longer so."""
    program = build_judge()
    with (
        three_registers(tmp_path, "--lease", "--for-ever") as (bench, _),
        closing(Traffic(bench.network, tmp_path)) as traffic,
    ):
        bench.quorum.agree(seconds=60)
        with traffic:
            run_rounds(bench, [("leader sleeps and wakes up alone", 4)])
        traffic.drain()
    verdict = judge(program, traffic.history(), "register", floor=Floor({"read": 50, "write": 20}))
    assert verdict.name == "invalid", verdict
    print(verdict.violations[0].evidence)
