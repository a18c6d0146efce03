"""Three replicas and a controller, each under a guardian, on loopback addresses that nobody else uses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from system.guarded import GuardedBroker
from system.guardians import eventually

__all__ = ["GuardedGroup", "GuardedReplica"]

_START_SECONDS_MAX = 240.0
_CLIENTS, _PEERS, _ADMIN, _RELAYS = 10911, 10912, 10913, 10915
"""Below the ports that the kernel gives to clients, so that these are free on an address of one's own."""


class GuardedReplica(GuardedBroker):
    """One broker of the group, at an address of its own."""

    def __init__(self, directory: Path, host: str, **settings: object) -> None:
        super().__init__(directory, **settings)
        self.host, self.port, self.admin_port = host, _CLIENTS, _ADMIN

    def replication(self) -> dict[str, Any]:
        """How it sees its group; empty if it does not answer."""
        try:
            said = self.status()["replication"]
        except OSError:
            return {}
        assert isinstance(said, dict)
        return said

    @property
    def leads_in(self) -> int:
        """The epoch in which it says that it leads; 0 if it does not, or does not answer."""
        try:
            said = self.status()
        except OSError:
            return 0
        return int(str(said["epoch"])) if said["role"] == "leader" else 0


class GuardedGroup:
    """Use as a context manager: on entering, one of the brokers leads; on leaving, nothing is left."""

    def __init__(
        self, directory: Path, *, controller: Mapping[str, object] | None = None,
        replication: Mapping[str, object] | None = None, guarded: bool = True, **settings: object,
    ) -> None:  # fmt: skip
        """`controller`, `replication` and `settings` are more of the controller's and of the brokers' configurations.
        Where the group needs no controllers, this one is its name service."""
        net = f"127.{64 + os.getpid() // 250 % 128}.{os.getpid() % 250 + 1}"
        self._directory = directory
        self._controller = f"{net}.9"
        self._more = dict(controller or {})
        self._process: subprocess.Popen[bytes] | None = None
        hosts = {number: f"{net}.{number}" for number in (1, 2, 3)}
        shared = {
            "mode": "controller", "controllers": [f"{self._controller}:9878"],
            "peers": {str(number): f"{host}:{_PEERS}" for number, host in hosts.items()}, **(replication or {}),
        }  # fmt: skip
        relays = [f"{host}:{_RELAYS}" for host in hosts.values()]
        self.brokers = [
            GuardedReplica(
                directory / f"b{number}", host, brokerId=number, listen=f"{host}:{_CLIENTS}",
                adminListen=f"{host}:{_ADMIN}",
                nameService={"mode": "external", "addresses": [f"{self._controller}:9876"]},
                replication={**shared, "peerListen": f"{host}:{_PEERS}"},
                guardian={"relayListen": f"{host}:{_RELAYS}", "peers": relays}, **settings,
            )
            for number, host in hosts.items()
        ]  # fmt: skip
        if not guarded:
            for broker in self.brokers:
                broker.flags = ()

    def __enter__(self) -> Self:
        try:
            self._start_controller()
            for broker in self.brokers:
                broker.start()
            self.leader()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def controller_admin(self) -> str:
        """Admin address of the controller."""
        return f"{self._controller}:8088"

    @property
    def name_server(self) -> str:
        """Address of its name service."""
        return f"{self._controller}:9876"

    def number(self, broker: GuardedReplica) -> int:
        """The number of a broker in its group."""
        return self.brokers.index(broker) + 1

    def agree(self, *, seconds: float = _START_SECONDS_MAX) -> int:
        """Wait until all have the same log, all of it is committed and all know that; its end."""
        said: list[Any] = []

        def agreed() -> bool:
            said[:] = [broker.replication().get("positions") for broker in self.brokers]
            ends = {end for each in said for end in (each or {"end": None}).values()}
            return len(ends) == 1 and None not in ends

        eventually(agreed, f"the logs differ: {said}", seconds)
        return int(said[0]["end"])

    def leader(self, *, after: int = 0) -> tuple[GuardedReplica, int]:
        """Who leads in an epoch after this one, and in which. Raises: AssertionError if nobody does in time."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            for broker in self.brokers:
                epoch = broker.leads_in
                if epoch > after:
                    return broker, epoch
            time.sleep(0.05)
        raise AssertionError(f"nobody leads: {[broker.log()[-2000:] for broker in self.brokers]}")

    def kill_controller(self) -> None:
        """SIGKILL to its guardian, which it dies with."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def _start_controller(self) -> None:
        host, folder = self._controller, self._directory / "c"
        folder.mkdir(parents=True)
        member = {"name": "c1", "peer": f"{host}:9879", "address": f"{host}:9878"}
        config = {
            "nodeName": "c1", "controllers": [member], "listen": f"{host}:9878", "peerListen": f"{host}:9879",
            "adminListen": f"{host}:8088", "nameService": {"listen": f"{host}:9876"}, "dataDir": str(folder / "data"),
            **self._more,
        }  # fmt: skip
        (folder / "c.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "logherd", "controller", "--guarded", "--config", str(folder / "c.json")]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--ready-file", str(folder / "ready")], stdout=log, stderr=log
            )  # fmt: skip
        eventually((folder / "ready").exists, "the controller does not serve", _START_SECONDS_MAX)

    def _end(self) -> None:
        for broker in self.brokers:
            broker.kill()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(20)
