"""Who acts: the holder of a Lease. One request for each renewal, so that waiting costs the API server little.

Times of others are never compared with ours: a lease that has not changed for its duration, by our own clock, is free.
Kubernetes' own elector in Python reads before each renewal, which doubles what an idle operator asks for.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from logherd_operator.clients.api import Api, collection_of
from logherd_operator.clients.errors import ClusterError, Conflict, NotFound

__all__ = ["Lease", "LeasePlace", "Pace"]


class LeasePlace(NamedTuple):
    """Which Lease, and who asks for it."""

    namespace: str
    name: str
    identity: str


class Pace(NamedTuple):
    """In seconds: after `duration` without renewal others may take it; after `deadline` we have stopped acting."""

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


class Lease:
    """One candidate. `clock` counts seconds and is never set back."""

    def __init__(self, api: Api, place: LeasePlace, clock: Callable[[], float], pace: Pace | None = None) -> None:
        self._api = api
        self._place = place
        self._clock = clock
        self.pace = pace or Pace()
        self._seen: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._held_at: float | None = None
        self._wrote = False
        """May it stand in our name? So also while it is not known whether a write arrived."""

    @property
    def held(self) -> bool:
        """May we act now?"""
        return self.left > 0

    @property
    def left(self) -> float:
        """For so many seconds we may still act without another renewal; not above 0 if we may not."""
        return 0.0 if self._held_at is None else self.pace.deadline - (self._clock() - self._held_at)

    async def seek(self) -> bool:
        """Take it if it is free, renew it if it is ours; is it ours then? Raises: nothing for any answer."""
        asked = self._clock()
        try:
            won = await self._write()
        except (Conflict, NotFound):  # another's write, or somebody deleted it
            self._seen, won = None, False
        except ClusterError:
            won = False
        if won:
            self._held_at = asked
        return won

    async def release(self) -> None:
        """Let the next one take it at once. Raises: nothing; an unreleased lease runs out.

        What we saw last may be old: a write whose answer never came made it another version. Then, or if the request
        failed on its way, it is read, once. A renewal that still is on its way comes too late, for it names a version
        that is gone.
        """
        if not self._wrote:
            return
        self._wrote, self._held_at = False, None
        with suppress(ClusterError):
            if self._seen is not None and await self._give_back(self._seen):
                return
        with suppress(ClusterError):
            found = await self._api.find(self._path)
            if found is not None:
                await self._give_back(found)

    async def _give_back(self, lease: dict[str, Any]) -> bool:
        """False if it is not ours, or another version by now. Raises: as `Api.call`."""
        if not self._is_ours(lease):
            return False
        document = {**lease, "spec": {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            await self._api.call("PUT", self._path, document)
        except Conflict:
            return False
        return True

    def _is_ours(self, lease: dict[str, Any]) -> bool:
        return bool(_spec(lease).get("holderIdentity") == self._place.identity)

    @property
    def _path(self) -> str:
        where = collection_of("coordination.k8s.io/v1", "Lease", self._place.namespace)
        return f"{where}/{self._place.name}"

    async def _write(self) -> bool:
        ours = self._seen is not None and self._is_ours(self._seen)
        if not ours and not await self._free():
            return False
        document, self._wrote = self._document(), True
        if self._seen is None:
            made = await self._api.create(document)
            if made is None:
                return False
            self._note(made)
            return True
        self._note(await self._api.call("PUT", self._path, document))
        return True

    async def _free(self) -> bool:
        """Is nobody holding it? Reads it, and remembers since when it stands as it does."""
        found = await self._api.find(self._path)
        if found is None:
            self._seen = None
            return True
        if self._seen is None or found["metadata"]["resourceVersion"] != self._seen["metadata"]["resourceVersion"]:
            self._note(found)
        spec = _spec(found)
        duration = float(spec.get("leaseDurationSeconds") or self.pace.duration)
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._place.identity):
            return True
        # Somebody deleted ours, or took it by force: they act from now on, whatever time we had left.
        self._held_at = None
        return self._clock() - self._seen_at >= duration

    def _note(self, lease: dict[str, Any]) -> None:
        self._seen, self._seen_at = lease, self._clock()

    def _document(self) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = _spec(self._seen) if self._seen is not None else {}
        ours = before.get("holderIdentity") == self._place.identity
        spec = {
            "holderIdentity": self._place.identity,
            "leaseDurationSeconds": int(self.pace.duration),
            "acquireTime": before["acquireTime"] if ours and before.get("acquireTime") else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours else 1),
        }
        metadata = {"namespace": self._place.namespace, "name": self._place.name}
        if self._seen is not None:
            metadata["resourceVersion"] = self._seen["metadata"]["resourceVersion"]
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _spec(lease: Mapping[str, Any]) -> Mapping[str, Any]:
    """What it says, which may be nothing."""
    return lease.get("spec") or {}
