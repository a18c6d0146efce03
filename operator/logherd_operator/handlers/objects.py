"""A group's objects are as its spec wants them: applied when they differ from what was applied last, made once where
somebody else fills them, deleted where nothing wants them any more.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from logherd_operator.clients.api import Api, path_of
from logherd_operator.clients.errors import Conflict
from logherd_operator.cluster.look import NotSettled
from logherd_operator.handlers.known import Known
from logherd_operator.handlers.looking import Sight
from logherd_operator.handlers.memory import Drawn, Memory
from logherd_operator.handlers.owning import is_foreign, is_of_former
from logherd_operator.handlers.shaping import first_counts, shape_of
from logherd_operator.plan.outcome import Plan
from logherd_operator.resources.group_objects import render_group
from logherd_operator.resources.site import Document, Shape, Site
from logherd_operator.spec.errors import SpecError

__all__ = ["Objects", "Refresh"]

_TOKEN_BYTES = 32
_WATCH_LATE = 5.0
"""Seconds in which the watch should have shown what was made."""

_READ_FIRST = frozenset({"ConfigMap", "NetworkPolicy", "PodDisruptionBudget"})
"""Kinds that the operator may get: of these it applies nothing over what is somebody else's."""


class Refresh(NamedTuple):
    """What stands as it was applied is applied again after `every` seconds, because not every kind is watched; all
    groups together at most one object in `apart` seconds, so that many idle groups cost the API server little.
    """

    every: float = 600.0
    apart: float = 5.0
    at_once: int = 30


class Objects:
    """Keeps the objects of groups. `clock` counts seconds. All methods raise Unreachable or kinds of Refused."""

    def __init__(self, api: Api, known: Known, clock: Callable[[], float], refresh: Refresh | None = None) -> None:
        self._api = api
        self._known = known
        self._clock = clock
        self._refresh = refresh or Refresh()
        self._spare, self._filled_at = float(self._refresh.at_once), clock()

    async def keep(self, sight: Sight, plan: Plan, memory: Memory, operator_peer: Document | None) -> None:
        """Apply what differs. Raises also Conflict or NotSettled: what was looked at is out of date."""
        await self.read_token(sight.site, memory)
        site = sight.site
        shape = shape_of(self._known, sight.key, site, sight.observed, plan, memory.sizes.founders)
        memory.sizes.founders = shape.founders
        drawn = _drawn(site, shape, memory, operator_peer)
        rendered = drawn.rendered
        for document in rendered.made_once:
            await self._make_once(document, sight, memory)
        for document in rendered.kept:
            if document["kind"] == "StatefulSet":
                await self._keep_workload(document, sight, plan, memory)
            elif not self._unknown_yet(document, sight):
                await self._keep(document, sight, memory)
        await self._prune(drawn.digests.keys(), site, memory)

    async def read_token(self, site: Site, memory: Memory) -> None:
        """The secret of the admin ports, drawn for the group that has the controllers, and never rewritten. That it is
        still there is seen now and then: what starts without it waits for it.

        Raises also NotSettled for the one of a former group of this name, that goes when somebody collects it, and
        SpecError for one that holds no token, as if it were somebody else's.
        """
        name = f"{site.controllers_of}-admin"
        path = f"/api/v1/namespaces/{site.namespace}/secrets/{name}"
        last = memory.applied.get(path)
        if memory.token and last is not None and not self._due(last[1]):
            return
        found = await self._api.find(path)
        if found is None and site.controllers_of == site.name:
            token = base64.b64encode(secrets.token_hex(_TOKEN_BYTES).encode()).decode()
            document = {
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": site.metadata(name),
                "data": {"token": token},
            }  # fmt: skip
            found = await self._api.create(document) or await self._api.find(path)
        if found is not None and is_of_former(site, found["metadata"]):
            raise NotSettled(f"the Secret {name} is of a former group of this name, and about to go")
        memory.token = _token_in(found)
        if found is not None and not memory.token:
            said = f"the Secret {name} is there and has no token, with which the admin ports are told of changes"
            raise SpecError(f"{said}: give it the key token, or delete it if nobody else needs it")
        memory.applied[path] = ("", self._clock())

    async def _make_once(self, document: Document, sight: Sight, memory: Memory) -> None:
        """What somebody deletes is made again, as it was at first. Making what is there does nothing."""
        path = path_of(document)
        made = memory.applied.get(path)
        if made is not None and (self._known.has_slice(sight.key) or self._clock() - made[1] < _WATCH_LATE):
            return
        await self._api.create(document)
        memory.applied[path] = ("", self._clock())

    def _unknown_yet(self, document: Document, sight: Sight) -> bool:
        """Who begins as a learner stands in the brokers' files; it is not written while no controller can tell.

        Of a group that leads itself nothing in them rests on that, and what keeps all its brokers from starting may be.
        """
        config = f"{sight.site.workload('broker')}-config"
        observed, led_by_others = sight.observed, sight.site.group.spec.by_controllers
        untold = observed.group is None and observed.platform.brokers is not None
        return document["metadata"]["name"] == config and untold and led_by_others

    async def _keep(self, document: Document, sight: Sight, memory: Memory) -> None:
        path = path_of(document)
        digest, last = _known_digest(path, memory), memory.applied.get(path)
        if last is not None and last[0] == digest and not self._due(last[1]):
            return
        if last is None and document["kind"] in _READ_FIRST and (found := await self._api.find(path)) is not None:
            _refuse_foreign(sight.site, found, document)
        await self._api.apply(document)
        memory.applied[path] = (digest, self._clock())

    def _due(self, applied_at: float) -> bool:
        now = self._clock()
        if now - applied_at < self._refresh.every:
            return False
        self._spare += (now - self._filled_at) / self._refresh.apart
        self._spare, self._filled_at = min(self._spare, float(self._refresh.at_once)), now
        if self._spare < 1.0:
            return False
        self._spare -= 1.0
        return True

    async def _keep_workload(self, document: Document, sight: Sight, plan: Plan, memory: Memory) -> None:
        """With the version that was looked at: what is applied has the count that was seen, and may not be out of date.

        Raises: Conflict if it is; NotSettled if it was changed now, because then nobody knows what pods should be like.
        """
        name, path = document["metadata"]["name"], path_of(document)
        version = sight.versions.get(name)
        if version is None:
            if document["metadata"]["labels"]["app.kubernetes.io/component"] not in first_counts(plan):
                return
            await self._see_free(path, document, sight.site)
            await self._apply_workload(document, memory)
            return
        seen = self._known.workload(sight.key, name)
        generation = str((seen or {}).get("metadata", {}).get("generation", ""))
        digest, last = _known_digest(path, memory), memory.applied.get(path)
        touched = memory.applied.get(f"{path}#generation", ("", 0.0))[0] != generation
        if last is not None and last[0] == digest and not touched and not self._due(last[1]):
            return
        metadata = {**document["metadata"], "resourceVersion": version}
        made = await self._apply_workload({**document, "metadata": metadata}, memory)
        if str(made["metadata"].get("generation", "")) != generation:
            raise NotSettled(f"the StatefulSet {name} was changed, so the plan was made for another one")

    async def _see_free(self, path: str, document: Document, site: Site) -> None:
        """Nothing of the name is there. The watch is late, or passes over one of ours that somebody took the labels
        from: it gets them back.

        Raises: Conflict if there is one of ours, SpecError if it is somebody else's.
        """
        found = await self._api.find(path)
        if found is None:
            return
        metadata, wanted = found["metadata"], document["metadata"]["labels"]
        _refuse_foreign(site, found, document)
        if _is_of(site, found) and not wanted.items() <= (metadata.get("labels") or {}).items():
            seen = {name: metadata[name] for name in ("uid", "resourceVersion")}
            await self._api.merge(path, {"metadata": {**seen, "labels": wanted}})
        raise Conflict(409, f"the StatefulSet {metadata['name']} is there, and the watch has not said so yet")

    async def _apply_workload(self, document: Document, memory: Memory) -> dict[str, Any]:
        path, now = path_of(document), self._clock()
        made = await self._api.apply(document)
        memory.applied[path] = (_known_digest(path, memory), now)
        memory.applied[f"{path}#generation"] = (str(made["metadata"].get("generation", "")), now)
        return made

    async def _prune(self, kept: Container[str], site: Site, memory: Memory) -> None:
        """Budgets and policies are wanted or not; everything else is there as long as the group is. What somebody else
        made under such a name, in place of ours, stays."""
        for kind, version in (("poddisruptionbudgets", "policy/v1"), ("networkpolicies", "networking.k8s.io/v1")):
            for component in ("broker", "controller"):
                path = f"/apis/{version}/namespaces/{site.namespace}/{kind}/{site.name}-{component}"
                if path in kept:
                    memory.absent.discard(path)
                elif path not in memory.absent:
                    found = await self._api.find(path)
                    if found is not None and _is_of(site, found):
                        await self._api.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})
                    memory.absent.add(path)
                    memory.applied.pop(path, None)


def _drawn(site: Site, shape: Shape, memory: Memory, operator_peer: Document | None) -> Drawn:
    """The group's objects, rendered when something that they are made from has changed."""
    generation = memory.parsed.generation if memory.parsed is not None else 0
    made_from = (generation, shape, site.image, site.controller_count, operator_peer is None)
    if memory.drawn is None or memory.drawn.of != made_from:
        rendered = render_group(site, shape, memory.pinned, operator_peer)
        memory.pinned = rendered.pinned
        digests = {path_of(each): _digest(each) for each in rendered.kept}
        memory.drawn = Drawn(of=made_from, rendered=rendered, digests=digests)
    return memory.drawn


def _token_in(secret: Mapping[str, Any] | None) -> str:
    data: Mapping[str, str] = (secret or {}).get("data") or {}
    try:
        return base64.b64decode(data.get("token", "")).decode(errors="replace").strip()
    except ValueError:
        return ""


def _refuse_foreign(site: Site, found: Mapping[str, Any], document: Document) -> None:
    """Applied over, it would serve its owner no more, and go with the group."""
    if is_foreign(site, found["metadata"]):
        what = f"the {document['kind']} {document['metadata']['name']}"
        raise SpecError(f"{what}, which the group needs, is there and somebody else's: delete it if nobody needs it")


def _is_of(site: Site, document: Document) -> bool:
    return any(each["uid"] == site.uid for each in document["metadata"].get("ownerReferences") or ())


def _known_digest(path: str, memory: Memory) -> str:
    return memory.drawn.digests[path] if memory.drawn is not None else ""


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
