"""One replicated group as it runs: three controllers, three brokers under guardians, each in a namespace of its own."""

import http.client
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from system.blocking import BlockingClient, drain_queue
from system.controllers import ADMIN_PORT, CLIENT_PORT, CLIENTS, NAMES_PORT, NODES, controller, member_of
from system.fake_brokers import CLUSTER
from system.netns import Network, run
from system.nodes import NodeProcess, NotSettled

__all__ = ["BROKERS", "BROKER_PORT", "GROUP", "GuardedReplica", "ReplicatedGroup", "network_of_group"]

GROUP = "orders"
BROKERS = ("b1", "b2", "b3")
BROKER_PORT, REPLICAS_PORT, RELAY_PORT = 10911, 10912, 10913
_SETTLE_SECONDS = 40.0

Queue = tuple[str, int]


def network_of_group() -> Network:
    """Nodes for three controllers, three brokers and the clients."""
    return Network([*NODES, *BROKERS, CLIENTS])


class GuardedReplica(NodeProcess):
    """`process` is the guardian; `child` is the broker that lives now."""

    def __init__(
        self, network: Network, name: str, number: int, directory: Path, config: Path
    ) -> None:  # fmt: skip
        command = ["env", "--default-signal", sys.executable, "-m", "logherd", "broker", "--guarded"]
        super().__init__(network, name, directory, [*command, "--config", str(config)])
        self.number = number

    @property
    def child(self) -> int:
        """The pid of the broker that was ready last."""
        return int(self.wait_ready()["pid"])


class ReplicatedGroup:
    """Use as a context manager: entered, all serve and are in sync; left, everything has ended."""

    def __init__(self, network: Network, directory: Path, *, leader_address: str | None = None) -> None:
        """`leader_address`: what routes name; else the leader's own. Everything that matters has its default."""
        self.network = network
        self.directory = directory
        self._token = directory / "token"
        directory.mkdir(parents=True, exist_ok=True)
        self._token.write_text("secret\n")
        self._token.chmod(0o600)
        members = [
            member_of(network, node, node) | {"admin": f"{network.address(node)}:{ADMIN_PORT}"} for node in NODES
        ]
        self.controllers = {
            node: controller(
                network, node, directory / node, controllers=members, adminTokenFile=str(self._token)
            )
            for node in NODES
        }  # fmt: skip
        self.brokers = {name: self._broker(name, number, leader_address) for number, name in enumerate(BROKERS, 1)}

    def _broker(self, name: str, number: int, leader_address: str | None) -> GuardedReplica:
        network, own = self.network, self.network.address(name)
        peers = {number: f"{network.address(each)}:{REPLICAS_PORT}" for number, each in enumerate(BROKERS, 1)}
        home = self.directory / name
        home.mkdir(parents=True)
        config = {
            "clusterName": CLUSTER, "brokerGroup": GROUP, "brokerId": number, "dataDir": str(home / "data"),
            "listen": f"{own}:{BROKER_PORT}", "adminListen": f"{own}:{ADMIN_PORT}",
            "nameService": {
                "mode": "external", "addresses": [f"{network.address(node)}:{NAMES_PORT}" for node in NODES],
            },
            "replication": {
                "mode": "controller", "peerListen": f"{own}:{REPLICAS_PORT}", "peers": peers,
                "controllers": [f"{network.address(node)}:{CLIENT_PORT}" for node in NODES],
                "leaderAddress": leader_address,
            },
            "guardian": {
                "relayListen": f"{own}:{RELAY_PORT}",
                "peers": [f"{network.address(each)}:{RELAY_PORT}" for each in BROKERS],
            },
            "store": {"segmentSize": "16MiB", "reservedPercent": 0}, "log": {"format": "json"},
        }  # fmt: skip
        path = home / "broker.json"
        path.write_text(json.dumps(config))
        return GuardedReplica(network, name, number, home, path)

    def __enter__(self) -> "ReplicatedGroup":
        try:
            for processes in (self.controllers, self.brokers):
                for process in processes.values():
                    process.launch()
                for process in processes.values():
                    process.wait_ready()
            self.settle()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in (*self.brokers.values(), *self.controllers.values()):
            process.kill()

    # ---- who leads ------------------------------------------------------------------------------------------------

    @property
    def name_servers(self) -> str:
        """As a stock client is told them."""
        return ";".join(f"{self.network.address(node)}:{NAMES_PORT}" for node in NODES)

    def page(self) -> dict[str, Any]:
        """The group as the leading controller sees it; empty while none says so."""
        for node in NODES:
            try:
                found = self._ask(node, f"/groups/{CLUSTER}/{GROUP}")
            except (OSError, ValueError):
                continue
            if found.get("live"):
                return found
        return {}

    def tell_endpoint(self, epoch: int) -> None:
        """Say to the leading controller that `leader_address` leads to the leader of this epoch. Nobody may hear it."""
        for node in NODES:
            try:
                if "group" in self._ask(node, f"/groups/{CLUSTER}/{GROUP}/endpoint", {"epoch": epoch}):
                    return
            except (OSError, ValueError):
                continue

    def _ask(self, node: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
        asked = http.client.HTTPConnection(self.network.address(node), ADMIN_PORT, timeout=1.0)
        asked.sock = self.network.doorway(node).connect(self.network.address(node), ADMIN_PORT, seconds=1.0)
        try:
            if order is None:
                asked.request("GET", path)
            else:
                headers = {
                    "Content-Type": "application/json", "Authorization": f"Bearer {self._token.read_text().strip()}",
                }  # fmt: skip
                asked.request("POST", path, json.dumps(order), headers)
            document = json.loads(asked.getresponse().read())
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            asked.close()
        return document if isinstance(document, dict) else {}

    def wait(
        self, holds: Callable[[dict[str, Any]], bool], what: str, seconds: float = _SETTLE_SECONDS
    ) -> dict[str, Any]:
        """Wait for the group to be so; how it is then. Raises NotSettled."""
        deadline = time.monotonic() + seconds
        while True:
            page = self.page()
            if page and holds(page):
                return page
            if time.monotonic() > deadline:
                raise NotSettled(f"{what}: not within {seconds:g} s: {page}")
            time.sleep(0.02)

    def settle(self, among: Iterable[str] = BROKERS) -> str:
        """Wait until one of these leads and all of these are in sync; who leads."""
        numbers = sorted(self.brokers[name].number for name in among)

        def settled(page: dict[str, Any]) -> bool:
            leads = page["leader"] is not None and page["leader"]["serving"] and page["transfer"] is None
            return leads and sorted(page["inSync"]) == numbers and page["leader"]["brokerId"] in numbers

        return BROKERS[self.wait(settled, f"{numbers} in sync")["leader"]["brokerId"] - 1]

    def wait_for_epoch(self, above: int) -> dict[str, Any]:
        """Wait until somebody leads in a later epoch."""
        return self.wait(
            lambda page: page["epoch"] > above and page["leader"] is not None and page["leader"]["serving"],
            f"an epoch above {above}",
        )

    def elect(self, name: str) -> str:
        """The order of a planned switch, as a person gives it."""
        admins = [each for node in NODES for each in ("--admin", f"{self.network.address(node)}:{ADMIN_PORT}")]
        command = [
            sys.executable, "-m", "logherd", "groups", "elect", f"{CLUSTER}/{GROUP}", "--broker",
            str(self.brokers[name].number), *admins, "--token-file", str(self._token),
        ]  # fmt: skip
        return run(*self.network.enter(CLIENTS), *command)

    # ---- what is stored -------------------------------------------------------------------------------------------

    def stored(self, topic: str, queues: int) -> dict[Queue, tuple[int, list[tuple[int, str]]]]:
        """All that the leader shows of a topic: (first offset, entries) of each queue."""
        leader = self.settle()
        made = self.network.doorway(CLIENTS).connect(self.network.address(leader), BROKER_PORT)
        client = BlockingClient(BROKER_PORT, made=made)
        try:
            return {(topic, number): drain_queue(client, topic, number) for number in range(queues)}
        finally:
            client.close()

    def lines(self, names: Sequence[str] = (*NODES, *BROKERS)) -> list[str]:
        """Log lines of the guardians and processes, each behind its name, as they were written."""
        found: list[str] = []
        for name in names:
            process = self.brokers.get(name) or self.controllers[name]
            found += [f"{name} {line}" for line in process.log_text().splitlines()]
        return found
