"""Memory that runs out: a broker gets so much and no more, and consumers ask for a lot and take nothing (P25).

Back-pressure is what must come of it, not a death: whoever reads nothing is read no more.
"""

import select
import socket
from collections.abc import Mapping
from pathlib import Path

from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from system.broker_groups import BROKER_PORT
from system.control_groups import ControlGroup
from system.controllers import CLIENTS
from system.faults import prove_within
from system.group_load import QUEUES, TOPIC
from system.group_rounds import Round, Shape, apply
from system.netns import Network

__all__ = ["MEMORY", "MEMORY_SHAPES"]

MEMORY = Path("/sys/fs/cgroup/memory")
_BYTES = 192 << 20
"""With what a broker has at rest this is 256 MiB, and the brokers keep for clients what they would by default then."""
_CONSUMERS = 40
_AT_ONCE = 50
_STOPPED_SECONDS = 1.0
_ROUNDS = 8
_ANSWER_BYTES = 200_000
"""Of messages, at least: the load has written more than that before any round begins."""


class _LittleMemory:
    """A process gets so many bytes besides what it has, files that it writes and reads included; if that is not enough
    the kernel kills it."""

    def __init__(self, pid: int, whose: str) -> None:
        self.name = f"{whose} gets {_BYTES >> 20} MiB more of memory"
        self._pid = pid
        self._group = ControlGroup(MEMORY, whose, {"memory.limit_in_bytes": str(_BYTES)})

    def inject(self) -> None:
        self._group.enter(self._pid)

    def taken(self) -> int:
        """The most that it took at once."""
        return int(self._group.read("memory.max_usage_in_bytes"))

    def prove(self) -> None:
        assert str(self._pid) in self._group.read("cgroup.procs").split(), self.name
        prove_within(20, f"{self.name}, and takes some", lambda: self.taken() > 0)

    def heal(self) -> None:
        self._group.leave()

    def prove_healed(self) -> None:
        self._group.prove_left()
        assert Path(f"/proc/{self._pid}").exists(), f"{self.name}: it has died of it"


class _DeafConsumers:
    """Each asks for everything that there is, again and again, and reads no answer."""

    name = "consumers that take nothing"

    def __init__(self, network: Network, whose: str) -> None:
        self._network, self._whose = network, whose
        self._made: list[socket.socket] = []
        self._unsent: dict[socket.socket, bytes] = {}
        self.asked: dict[socket.socket, int] = {}
        """In bytes."""
        self.let_go: set[socket.socket] = set()

    def inject(self) -> None:
        address = self._network.address(self._whose)
        for _ in range(_CONSUMERS):
            made = self._network.doorway(CLIENTS).connect(address, BROKER_PORT, seconds=5)
            made.settimeout(0)
            self._made.append(made)
            self._ask(made)  # a broker lets go of who says nothing

    def _ask(self, made: socket.socket) -> None:
        """Send what goes out at once."""
        request = self._unsent.pop(made, b"") or b"".join(_pull(number, number % QUEUES) for number in range(_AT_ONCE))
        try:
            sent = made.send(request)
        except ConnectionError:
            self.let_go.add(made)
            return
        self._unsent[made] = request[sent:]
        self.asked[made] = self.asked.get(made, 0) + sent

    def prove(self) -> None:
        """What they have asked for is more than there is memory."""
        for _ in range(_ROUNDS):
            for made in select.select([], self._made, [], _STOPPED_SECONDS)[1]:
                self._ask(made)

    def heal(self) -> None:
        for each in self._made:
            each.close()

    def prove_healed(self) -> None:
        asked = sum(self.asked.values()) // len(_pull(0, 0)) * _ANSWER_BYTES
        assert asked > 2 * _BYTES, f"{self.name}: {asked} bytes were asked for, that is not much"


def _pull(opaque: int, queue_id: int) -> bytes:
    ext = {
        "consumerGroup": "TOOLS_CONSUMER", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": "0",
        "maxMsgNums": "2048", "maxMsgBytes": str(1 << 28), "sysFlag": "4", "commitOffset": "0",
        "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    return encode_frame(Frame(RequestCode.PULL_MESSAGE, opaque, ext=ext))


def _little_memory(r: Round, name: str) -> None:
    memory, deaf = _LittleMemory(r.group.brokers[name].broker_pid, name), _DeafConsumers(r.bench.network, name)

    def meanwhile() -> None:
        r.goes_on()
        print(
            f"{memory.taken() >> 20} MiB, {sum(deaf.asked.values())} bytes asked, {len(deaf.let_go)} let go", end=", "
        )

    apply(meanwhile, memory, deaf)


MEMORY_SHAPES: Mapping[str, Shape] = {
    "leader has little memory": lambda r: _little_memory(r, r.leader),
    "follower has little memory": lambda r: _little_memory(r, r.follower),
}
