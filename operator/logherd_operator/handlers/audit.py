"""Do the watches still show what is there (OP-99)? Where the API server cannot continue a watch, kopf begins it with a
list, and a list does not name what has gone meanwhile: that would be known for ever, and the objects of a group that
was deleted made again and again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import ClusterError
from logherd_operator.handlers.known import WATCHED, Watched
from logherd_operator.spec.errors import OperatorError

__all__ = ["Audit", "AuditPace", "Shown", "Thing", "WatchStale"]

_CHUNK = 100


class WatchStale(OperatorError):
    """The watches show something else than what is there: the process ends, and begins anew with a list of all."""


class Thing(NamedTuple):
    """Something that is watched: of which kind, and which one."""

    kind: str
    name: str
    uid: str


class Shown(Protocol):
    """What the watches have brought."""

    def things(self, kind: str) -> set[Thing]:
        """All of a kind that are known."""


class AuditPace(NamedTuple):
    """In seconds: between two comparisons; and for how long something differs before it counts."""

    every: float = 300.0
    lasting: float = 60.0


class Audit:
    """Compares what is listed with what is shown. `namespaces` empty: all."""

    def __init__(
        self, api: Api, shown: Shown, namespaces: Sequence[str], pace: AuditPace | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._api = api
        self._shown = shown
        self._namespaces = namespaces
        self._pace = pace or AuditPace()
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled. Raises: WatchStale."""
        while True:
            await self._sleep(self._pace.every)
            await self.compare()

    async def compare(self) -> None:
        """Once. Who cannot be asked is asked another time. Raises: WatchStale."""
        try:
            found = await self._differing()
            if found:
                await self._sleep(self._pace.lasting)
                found &= await self._differing()
        except ClusterError:
            return
        if found:
            one = min(found)
            raise WatchStale(f"{len(found)} objects are not as the watches show, among the {one.kind} {one.name}")

    async def _differing(self) -> set[Thing]:
        """What is only there or only shown. Raises: as `Api.call`."""
        found: set[Thing] = set()
        for kind in WATCHED:
            root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
            there: set[Thing] = set()
            for where in [f"{root}/namespaces/{each}" for each in self._namespaces] or [root]:
                there |= await self._listed(kind, f"{where}/{kind.plural}")
            found |= there ^ self._shown.things(kind.name)
        return found

    async def _listed(self, kind: Watched, path: str) -> set[Thing]:
        found: set[Thing] = set()
        query = {"limit": str(_CHUNK), **({"labelSelector": kind.labels} if kind.labels else {})}
        while True:
            page = await self._api.call("GET", f"{path}?{urlencode(query)}")
            # What has our label and names no group is known to nobody.
            found |= {
                Thing(kind.name, each["metadata"]["name"], each["metadata"]["uid"])
                for each in page.get("items") or ()
                if kind.key_of(each) is not None
            }
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more
