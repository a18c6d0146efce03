"""Faults of real nodes: each is injected, proved, healed and proved healed. An unproved fault makes its run void."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from system.netns import Network, run

__all__ = [
    "Block", "Fault", "Partition", "Paused", "Slow", "UnprovedFault", "both_ways", "cut", "prove_within", "reaches",
]  # fmt: skip


class UnprovedFault(Exception):
    """A fault, or its healing, had no effect that could be seen: the run shows nothing."""


class Fault(Protocol):
    """One thing that goes wrong, once."""

    name: str

    def inject(self) -> None: ...
    def prove(self) -> None: ...
    def heal(self) -> None: ...
    def prove_healed(self) -> None: ...


def prove_within(seconds: float, what: str, condition: Callable[[], bool]) -> None:
    """Wait for the effect. Raises UnprovedFault."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise UnprovedFault(f"{what}: not seen within {seconds:g} s")
        time.sleep(0.01)


def reaches(network: Network, source: str, target: str, port: int) -> bool:
    """Whether a connection can be made at once; a refusal by a dead node's kernel is as good."""
    try:
        network.doorway(source).connect(network.address(target), port, seconds=0.5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


class Paused:
    """SIGSTOP of a process, as if its machine had no processor for it."""

    def __init__(self, pid: int, whose: str) -> None:
        self.name = f"pause {whose}"
        self._pid = pid

    def _state(self) -> str:
        return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]

    def inject(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def prove(self) -> None:
        prove_within(15, self.name, lambda: self._state() == "T")

    def heal(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def prove_healed(self) -> None:
        prove_within(15, f"{self.name}, ended", lambda: self._state() != "T")


@dataclass(frozen=True, slots=True)
class Block:
    """Packets from one node are stopped where they arrive at another: all, or those from or to one port."""

    source: str
    target: str
    port: int | None = None


def both_ways(one: str, other: str, port: int | None = None) -> list[Block]:
    return [Block(one, other, port), Block(other, one, port)]


def cut(node: str, others: Iterable[str], port: int | None = None) -> list[Block]:
    """One node apart from these others."""
    return [block for other in others for block in both_ways(node, other, port)]


class Partition:
    """Blocks between nodes. `action` is an nft statement: drop, `reject with tcp reset`, or a share of drops.

    `probe_port` is knocked at to make a packet for every block that is not about a port.
    """

    def __init__(
        self, network: Network, blocks: Iterable[Block], *, name: str, probe_port: int, action: str = "drop",
        share: int = 100,
    ) -> None:  # fmt: skip
        self.name = name
        self._network = network
        self._blocks = list(blocks)
        self._action = action
        self._share = share
        self._probe_port = probe_port
        self._targets = sorted({block.target for block in self._blocks})

    def inject(self) -> None:
        for target in self._targets:
            rules = "".join(self._rules(block) for block in self._blocks if block.target == target)
            run(*self._network.enter(target), "nft", "-f", "-", text=rules)

    def _rules(self, block: Block) -> str:
        source = f"ip saddr {self._network.address(block.source)}"
        # A refusal must itself arrive at a node that refuses everything.
        passing = "tcp flags & rst == 0 " if self._action.startswith("reject") else ""
        chance = "" if self._share >= 100 else f"numgen random mod 100 < {self._share} "
        matches = ["meta l4proto tcp"] if block.port is None else [f"tcp sport {block.port}", f"tcp dport {block.port}"]
        return "".join(
            f"add rule inet faults arriving {source} {match} {passing}{chance}counter {self._action}\n"
            for match in matches
        )

    def stopped(self) -> dict[tuple[str, str], int]:
        """How many packets were stopped from each node to each other one."""
        found: dict[tuple[str, str], int] = {}
        for target in self._targets:
            listed = json.loads(
                run(*self._network.enter(target), "nft", "-j", "list", "chain", "inet", "faults", "arriving")
            )
            for rule in (item["rule"]["expr"] for item in listed["nftables"] if "rule" in item):
                source = rule[0]["match"]["right"]
                packets = sum(part["counter"]["packets"] for part in rule if "counter" in part)
                found[source, target] = found.get((source, target), 0) + packets
        return found

    def prove(self) -> None:
        """Every direction has stopped a packet; we send one each, and the nodes send their own."""
        wanted = {(self._network.address(block.source), block.target) for block in self._blocks}
        knocks = []
        try:

            def stopped() -> bool:
                counts = self.stopped()
                waiting = [pair for pair in wanted if not counts.get(pair)]
                for block in self._blocks:
                    if (self._network.address(block.source), block.target) in waiting:
                        port = block.port or self._probe_port
                        address = self._network.address(block.target)
                        knocks.append(self._network.doorway(block.source).knock(address, port))
                return not waiting

            # A share of drops takes many packets until each direction has lost one.
            prove_within(15 if self._share >= 100 else 60, self.name, stopped)
        finally:
            for knock in knocks:
                knock.close()

    def heal(self) -> None:
        for target in self._targets:
            run(*self._network.enter(target), "nft", "flush", "chain", "inet", "faults", "arriving")

    def prove_healed(self) -> None:
        """Every direction lets a connection through again; a refusal by a dead node's kernel is as good."""
        for block in self._blocks:
            prove_within(15, f"{self.name}, ended", lambda block=block: self._reaches(block))  # type: ignore[misc]

    def _reaches(self, block: Block) -> bool:
        return reaches(self._network, block.source, block.target, block.port or self._probe_port)


class Slow:
    """What a node sends goes through a narrow pipe: packets wait, and beyond a queue they are lost."""

    def __init__(self, network: Network, node: str, *, kilobits: int = 64) -> None:
        self.name = f"slow {node}"
        self._network = network
        self._node = node
        self._kilobits = kilobits

    def _qdisc(self, verb: str, *rest: str) -> str:
        return run(*self._network.enter(self._node), "tc", "-s", "-j", "qdisc", verb, "dev", "eth0", *rest)

    def inject(self) -> None:
        self._qdisc("add", "root", "tbf", "rate", f"{self._kilobits}kbit", "burst", "2kb", "latency", "300ms")

    def prove(self) -> None:
        def waited() -> bool:
            return any(each.get("overlimits", 0) > 0 for each in json.loads(self._qdisc("show")))

        prove_within(15, self.name, waited)

    def heal(self) -> None:
        self._qdisc("del", "root")

    def prove_healed(self) -> None:
        prove_within(
            15, f"{self.name}, ended", lambda: all(each["kind"] != "tbf" for each in json.loads(self._qdisc("show")))
        )
