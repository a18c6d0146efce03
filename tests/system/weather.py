"""Bad cables: what a node sends and hears is late, out of order, or has a bit turned that TCP does not notice.

A program carries each frame between the node's port and the bridge (see weather_child.py), so that this needs nothing
of the kernel that Debian's does not have.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from system.faults import prove_within, reaches
from system.netns import Network, run

__all__ = ["BadCable"]

_CHILD = str(Path(__file__).with_name("weather_child.py"))
_PROVED = {"overtaken": 10, "flipped": 3}


class BadCable:
    """Packets of one node wait `delay_ms`, drawn for each of them; of about `flip_every` bytes from or to `port` one
    bit is turned (0: none). Healing keeps what the cable has counted.
    """

    def __init__(
        self, network: Network, node: str, *, port: int, asker: str, delay_ms: tuple[int, int] = (0, 0),
        flip_every: int = 0, seed: int = 0,
    ) -> None:  # fmt: skip
        self.name = f"bad cable of {node}"
        self._network, self._node, self._port, self._asker = network, node, port, asker
        self._delay_ms, self._flip_every, self._seed = delay_ms, flip_every, seed
        self._undo = ExitStack()
        self._cable: subprocess.Popen[str] | None = None
        self.counts: dict[str, int] = {}

    def inject(self) -> None:
        network, port = self._network, self._network.port(self._node)
        hub, inner, outer = network.namespace("hub"), f"{port}-in", f"{port}-out"
        with ExitStack() as undo:
            run("ip", "-n", hub, "link", "add", inner, "type", "veth", "peer", "name", outer)
            undo.callback(run, "ip", "-n", hub, "link", "delete", inner)
            self._plain("hub", outer, on=False)
            self._plain(self._node, "eth0", on=False)
            undo.callback(self._plain, self._node, "eth0", on=True)
            for device in (inner, outer):
                run("ip", "-n", hub, "link", "set", device, "up")
            run("ip", "-n", hub, "link", "set", port, "nomaster")
            undo.callback(run, "ip", "-n", hub, "link", "set", port, "master", "bridge0")
            self._cable = self._carry(port, inner)
            undo.callback(self._end)
            run("ip", "-n", hub, "link", "set", outer, "master", "bridge0")
            self._undo = undo.pop_all()

    def _plain(self, node: str, device: str, *, on: bool) -> None:
        run(*self._network.enter(node), sys.executable, _CHILD, "plain", device, str(int(on)))

    def _carry(self, port: str, inner: str) -> "subprocess.Popen[str]":
        least, most = (str(each / 1000) for each in self._delay_ms)
        made = subprocess.Popen(
            [*self._network.enter("hub"), sys.executable, _CHILD, "cable", port, inner, least, most,
             str(self._flip_every), str(self._port), str(self._seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        return made

    def _ask(self) -> dict[str, int]:
        """What the cable has counted by now."""
        cable = self._cable
        assert cable is not None
        assert cable.stdin is not None
        assert cable.stdout is not None
        cable.stdin.write("?\n")
        cable.stdin.flush()
        self.counts = json.loads(cable.stdout.readline())
        return self.counts

    def _end(self) -> None:
        assert self._cable is not None
        self._ask()
        self._cable.communicate(timeout=20)

    def prove(self) -> None:
        """It has carried, and done what it is bad at."""
        bad = [*(["overtaken"] if self._delay_ms[1] else []), *(["flipped"] if self._flip_every else [])]
        prove_within(30, self.name, lambda: all(self._ask()[each] >= _PROVED[each] for each in bad))

    def heal(self) -> None:
        self._undo.close()

    def prove_healed(self) -> None:
        prove_within(15, f"{self.name}, ended", lambda: reaches(self._network, self._asker, self._node, self._port))
