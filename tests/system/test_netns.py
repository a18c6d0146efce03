"""The network bench itself: it connects, each fault does what it says and is proved, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from system.faults import Block, Partition, Paused, Slow, UnprovedFault, both_ways, cut
from system.netns import Network, leftovers, why_unavailable
from system.weather import BadCable

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

PORT, OTHER_PORT = 9879, 9878
NODES = ("a", "b", "c")
ECHO = """
import selectors, socket, sys
chosen = selectors.DefaultSelector()
for port in map(int, sys.argv[2:]):
    chosen.register(socket.create_server((sys.argv[1], port)), selectors.EVENT_READ, None)
print("ready", flush=True)
while True:
    for key, _ in chosen.select():
        if key.data is None:
            made = key.fileobj.accept()[0]
            chosen.register(made, selectors.EVENT_READ, made)
        else:
            data = key.data.recv(65536)
            key.data.sendall(data) if data else chosen.unregister(key.data)
"""


class Echo:
    """A process in a node that sends back what it hears."""

    def __init__(self, network: Network, node: str) -> None:
        command = [*network.enter(node), sys.executable, "-c", ECHO, network.address(node), str(PORT), str(OTHER_PORT)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(NODES) as made:
        echoes = [Echo(made, node) for node in NODES]
        try:
            yield made
        finally:
            for echo in echoes:
                echo.end()


def talks(network: Network, source: str, target: str, port: int = PORT, seconds: float = 0.3) -> bool:
    """Whether a connection from one node to another can be made and carries bytes both ways."""
    try:
        with network.doorway(source).connect(network.address(target), port, seconds=seconds) as made:
            made.sendall(b"hello")
            return made.recv(5) == b"hello"
    except OSError:
        return False


def reaches(network: Network, source: str, target: str, port: int = PORT) -> bool:
    """The same where nothing is in the way, and only the machine may be slow."""
    return talks(network, source, target, port, seconds=20)


def test_every_node_reaches_every_other_one(network: Network) -> None:
    assert all(reaches(network, one, other) for one in NODES for other in NODES if one != other)


def test_a_node_that_is_cut_reaches_nobody_and_the_others_go_on(network: Network) -> None:
    fault = Partition(network, cut("a", ["b", "c"]), name="cut a", probe_port=PORT)
    fault.inject()
    fault.prove()
    assert not any(talks(network, *pair) for pair in (("a", "b"), ("c", "a")))
    assert all(reaches(network, *pair) for pair in (("b", "c"), ("c", "b")))
    assert reaches(network, "a", "a"), "a node that is cut off can still be asked from inside"
    fault.heal()
    fault.prove_healed()
    assert all(reaches(network, one, other) for one in NODES for other in NODES if one != other)


def test_a_one_way_block_stops_only_one_direction(network: Network) -> None:
    with network.doorway("a").connect(network.address("b"), PORT, seconds=20) as made:
        made.settimeout(0.3)
        fault = Partition(network, [Block("b", "a")], name="b to a", probe_port=PORT)
        fault.inject()
        made.sendall(b"hello")
        fault.prove()
        with pytest.raises(TimeoutError):
            made.recv(5)  # b heard it and answered; the answer is stopped
        assert fault.stopped().keys() == {(network.address("b"), "a")}
        fault.heal()
        made.settimeout(20)
        assert made.recv(5) == b"hello"


def test_a_bridge_leaves_one_node_that_sees_both(network: Network) -> None:
    fault = Partition(network, both_ways("b", "c"), name="bridge a", probe_port=PORT)
    fault.inject()
    fault.prove()
    assert all(reaches(network, *pair) for pair in (("a", "b"), ("a", "c")))
    assert not any(talks(network, *pair) for pair in (("b", "c"), ("c", "b")))
    fault.heal()


def test_one_port_can_be_cut_alone(network: Network) -> None:
    fault = Partition(network, cut("a", ["b", "c"], PORT), name="peer port", probe_port=PORT)
    fault.inject()
    fault.prove()
    assert not talks(network, "b", "a", PORT)
    assert not talks(network, "a", "b", PORT)
    assert reaches(network, "b", "a", OTHER_PORT)
    fault.heal()
    fault.prove_healed()


def test_a_reject_resets_connections_that_stand(network: Network) -> None:
    with network.doorway("a").connect(network.address("b"), PORT, seconds=20) as made:
        fault = Partition(network, both_ways("a", "b"), name="reject", probe_port=PORT, action="reject with tcp reset")
        fault.inject()
        made.sendall(b"hello")
        with pytest.raises(ConnectionResetError):
            made.recv(5)
        fault.prove()
        fault.heal()
        fault.prove_healed()


def test_a_share_of_packets_can_be_lost(network: Network) -> None:
    fault = Partition(network, both_ways("a", "b"), name="loss", probe_port=PORT, share=10)
    fault.inject()
    with network.doorway("a").connect(network.address("b"), PORT, seconds=10) as made:
        for _ in range(20):
            made.sendall(b"hello")
            assert made.recv(5) == b"hello"
    fault.prove()
    fault.heal()


def test_a_slow_node_is_proved_slow(network: Network) -> None:
    fault = Slow(network, "a")
    fault.inject()
    with network.doorway("b").connect(network.address("a"), PORT, seconds=10) as made:
        made.sendall(b"x" * 8000)
        fault.prove()
    fault.heal()
    fault.prove_healed()


def echoed(network: Network, source: str, target: str, data: bytes, port: int = PORT) -> bytes:
    """What comes back of this data."""
    with network.doorway(source).connect(network.address(target), port, seconds=20) as made:
        back = bytearray()
        for at in range(0, len(data), 8000):
            made.sendall(data[at : at + 8000])
            wanted = min(len(data), at + 8000)
            while len(back) < wanted:
                part = made.recv(65536)
                assert part, "the connection has ended"
                back += part
        return bytes(back)


def test_a_bad_cable_is_late_and_out_of_order_and_tcp_mends_it(network: Network) -> None:
    fault = BadCable(network, "a", port=PORT, asker="b", delay_ms=(20, 60))
    fault.inject()
    began = time.monotonic()
    assert echoed(network, "b", "a", b"hello") == b"hello"
    assert time.monotonic() - began >= 4 * 0.02, "to connect and to be answered takes two rounds"
    data = os.urandom(100_000)
    assert echoed(network, "a", "b", data) == data
    fault.prove()
    assert reaches(network, "b", "c"), "others have good cables"
    fault.heal()
    fault.prove_healed()
    assert fault.counts["overtaken"] > 0
    assert echoed(network, "c", "a", data) == data


def test_a_bad_cable_turns_bits_that_tcp_does_not_notice(network: Network) -> None:
    fault = BadCable(network, "a", port=PORT, asker="b", flip_every=20_000)
    fault.inject()
    data = os.urandom(400_000)
    assert echoed(network, "b", "a", data, OTHER_PORT) == data, "it damages one port's bytes only"
    back = echoed(network, "b", "a", data)
    turned = sum((one ^ other).bit_count() for one, other in zip(data, back, strict=True))
    fault.prove()
    fault.heal()
    assert 0 < turned <= fault.counts["flipped"]
    fault.prove_healed()
    assert echoed(network, "b", "a", data) == data


def test_a_pause_is_proved() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        fault = Paused(sleeper.pid, "the sleeper")
        fault.inject()
        fault.prove()
        fault.heal()
        fault.prove_healed()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_fault_that_does_nothing_is_not_proved(network: Network) -> None:
    class Idle(Partition):
        def inject(self) -> None:
            pass

    with pytest.raises(UnprovedFault):
        Idle(network, cut("a", ["b"]), name="idle", probe_port=PORT).prove()


def test_a_fault_that_is_not_healed_is_noticed(network: Network) -> None:
    class Stuck(Partition):
        def heal(self) -> None:
            pass

    fault = Stuck(network, cut("a", ["b"]), name="stuck", probe_port=PORT)
    fault.inject()
    fault.prove()
    fault.heal()
    with pytest.raises(UnprovedFault):
        fault.prove_healed()


def fail_inside() -> None:
    with Network(NODES) as network:
        network.doorway("a")
        assert len(leftovers()) >= len(NODES) + 1
        raise ZeroDivisionError


def test_everything_is_removed_when_a_test_fails() -> None:
    before = leftovers()
    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert leftovers() == before


def forget_inside(forgotten: list[subprocess.Popen[bytes]]) -> None:
    with Network(("a",)) as network:
        forgotten.append(subprocess.Popen([*network.enter("a"), "sleep", "60"]))
        outside = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{forgotten[0].pid}/ns/net").readlink() == outside:
            os.sched_yield()


def test_a_forgotten_process_is_ended_and_reported() -> None:
    forgotten: list[subprocess.Popen[bytes]] = []
    with pytest.raises(RuntimeError, match="still in"):
        forget_inside(forgotten)
    assert forgotten[0].wait(30) == -signal.SIGKILL


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    text = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from system.netns import Network
Network(("a",)).__enter__()
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", text], check=False)
    assert killed.returncode == -signal.SIGKILL
    stale = [path.name for path in Path("/run/netns").glob("logherd-*-1-a") if path.name not in leftovers()]
    assert stale, "the killed run left something"
    with Network(("a",)):
        assert not any(Path("/run/netns", name).exists() for name in stale)
