"""An address that follows a group's leader, as a Kubernetes Service whose endpoint a sidecar of the controllers keeps.

Clients reach it through a rule in their own node, which is moved as soon as the controllers name another leader, and
taken away while they have not heard of the leader for a while: then connections are refused (H17). Those that were made
stay where they are: as there, nobody closes them when the endpoint moves.
"""

import subprocess
import threading
import time
from types import TracebackType

from system.controllers import CLIENTS
from system.netns import run
from system.replicas import BROKER_PORT, BROKERS, ReplicatedGroup

__all__ = ["LEADER_ADDRESS", "LeaderAddress"]

_HOST = "10.96.0.10"
LEADER_ADDRESS = f"{_HOST}:{BROKER_PORT}"
_EVERY_SECONDS = 0.05
_TELL_SECONDS = 0.5
_CONFIRMED_MS = 1500
"""Half a lease, three heartbeats."""
_TABLE = f"""
add table ip services
add chain ip services moved {{ type nat hook output priority -100; }}
add chain ip services none {{ type filter hook output priority 0; }}
add rule ip services none ip daddr {_HOST} tcp flags syn reject with tcp reset
"""


class LeaderAddress:
    """Use as a context manager, within the group's."""

    def __init__(self, group: ReplicatedGroup) -> None:
        self._group = group
        self._enter = group.network.enter(CLIENTS)
        self._at: str | None = None
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="leader-address", daemon=True)

    def __enter__(self) -> "LeaderAddress":
        run(*self._enter, "ip", "route", "add", f"{_HOST}/32", "dev", "eth0")
        self._change(_TABLE)
        self._move(self._group.settle())
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._keeper.join(10)

    def _keep(self) -> None:
        due = 0.0
        while not self._over.wait(_EVERY_SECONDS):
            page = self._group.page()
            if page:
                leader = page["leader"] and page["leader"]["brokerId"]
                heard = {each["brokerId"]: each["heardMs"] for each in page["brokers"]}.get(leader)
                confirmed = heard is not None and heard < _CONFIRMED_MS
                self._move(BROKERS[leader - 1] if confirmed else None)
                if confirmed and time.monotonic() >= due:
                    due = time.monotonic() + _TELL_SECONDS
                    self._group.tell_endpoint(page["epoch"])

    def _move(self, name: str | None) -> None:
        if name == self._at:
            return
        rules = "flush chain ip services moved\n"
        if name is not None:
            rules += f"add rule ip services moved ip daddr {_HOST} dnat to {self._group.network.address(name)}\n"
        self._change(rules)
        self._at = name

    def _change(self, rules: str) -> None:
        subprocess.run([*self._enter, "nft", "-f", "-"], input=rules, text=True, check=True)
