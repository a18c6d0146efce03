"""Whoever looks after a group in static mode: says by hand who leads next and who is awaited, with `logherd replica`.

It orders only what loses nothing as the brokers themselves say, looks before it repeats, and gives no order that a
fault's own mending makes needless. In the other modes there is nothing to order.
"""

import http.client
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from system.broker_groups import ADMIN_PORT, BROKERS, GroupBench, in_step
from system.controllers import CLIENTS
from system.nodes import SAYS_NOTHING, NotSettled

__all__ = ["Operator"]

_ANY_SECONDS = 180.0
_LOOK_SECONDS = 0.1


class Operator:
    """Belongs to one group. Not thread-safe."""

    def __init__(self, bench: GroupBench) -> None:
        self._bench = bench
        self.orders = 0
        """That were carried out."""

    def promote_another(self, than: str) -> None:
        """Have a follower lead in place of `than`. Raises NotSettled if there is none whose promotion loses nothing."""
        if not self._bench.mode.promotes:
            return
        deadline, said = time.monotonic() + _ANY_SECONDS, ""
        others = self._bench.others(than)
        while True:
            pages = {name: self._roles(name) for name in others}
            table = max((int(page.get("table", 0)) for page in pages.values()), default=0)
            known = [page for page in pages.values() if page.get("table") == table]
            if known and BROKERS[known[0]["leader"] - 1] != than:
                return
            able = [name for name, page in pages.items() if page.get("eligible") and page["table"] == table]
            if able:
                rest = next(name for name in others if name != able[0])
                said = self._order(able[0], after=table, awaited=rest)
            if time.monotonic() > deadline:
                raise NotSettled(f"nobody can be promoted instead of {than}: {pages} {said}")
            time.sleep(_LOOK_SECONDS)

    def look_after(self) -> None:
        """While the leader waits for somebody who is away, have it wait for another one, who keeps up."""
        if not self._bench.mode.promotes:
            return
        pages = {name: self._roles(name) for name in BROKERS}
        roles = max(pages.values(), key=lambda page: int(page.get("table", 0)))
        leader = BROKERS[roles["leader"] - 1] if roles else ""
        said = self._bench.group.ask(leader, seconds=0.5) if leader else SAYS_NOTHING
        if not said or pages[leader].get("table") != roles["table"]:
            return
        keep_up = {BROKERS[number - 1] for number in in_step(said)}
        awaited = {BROKERS[number - 1] for number in roles["synchronous"]}
        present = sorted(keep_up - awaited - {leader})
        if not awaited <= keep_up and present:
            self._order(leader, after=roles["table"], awaited=present[0])

    def await_successor(self) -> None:
        """Wait until a follower could be promoted, as whoever is about to need that does. Raises NotSettled."""
        if not self._bench.mode.promotes:
            return
        deadline = time.monotonic() + _ANY_SECONDS
        while True:
            pages = {name: self._roles(name) for name in BROKERS}
            tables = {page.get("table") for page in pages.values()}
            if len(tables) == 1 and any(page.get("eligible") and _follows(page) for page in pages.values()):
                return
            if time.monotonic() > deadline:
                raise NotSettled(f"nobody could be promoted after {_ANY_SECONDS:g} s: {pages}")
            time.sleep(_LOOK_SECONDS)

    def _roles(self, name: str) -> Mapping[str, Any]:
        try:
            return self._bench.group.page(name, "/replica/roles", seconds=0.5)
        except (OSError, ValueError, TypeError, http.client.HTTPException):
            return SAYS_NOTHING

    def _order(self, name: str, *, after: int, awaited: str) -> str:
        """`logherd replica promote`, from where the clients are; what went wrong."""
        bench = self._bench
        command = [
            *bench.network.enter(CLIENTS), sys.executable, "-m", "logherd", "replica", "promote",
            "--admin", f"{bench.network.address(name)}:{ADMIN_PORT}", "--token-file", str(bench.token),
            "--after", str(after), "--synchronous", str(BROKERS.index(awaited) + 1),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.orders += done.returncode == 0
        return done.stderr


def _follows(page: Mapping[str, Any]) -> bool:
    return bool(page["leader"] != page["brokerId"])
