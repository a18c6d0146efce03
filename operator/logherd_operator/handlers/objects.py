"""A group's objects are as its spec wants them: applied when they differ from what was applied last, made once where
somebody else fills them, deleted where nothing wants them any more.
"""

import base64
import hashlib
import http
import json
import logging
import secrets
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from logherd_operator.clients.api import Api, collection_of, path_of
from logherd_operator.clients.errors import Conflict, Refused
from logherd_operator.cluster.look import NotSettled
from logherd_operator.handlers.edits import edits_of
from logherd_operator.handlers.known import Known
from logherd_operator.handlers.looking import Sight
from logherd_operator.handlers.memory import Drawn, Memory
from logherd_operator.handlers.owning import is_foreign, is_of_former, keep_owner
from logherd_operator.handlers.refusals import Tries
from logherd_operator.handlers.shaping import first_counts, shape_of
from logherd_operator.observed.observed import Kept
from logherd_operator.observed.slots import Component
from logherd_operator.plan.outcome import Plan
from logherd_operator.resources.group_objects import render_group
from logherd_operator.resources.site import Document, Shape, Site

__all__ = ["Objects", "Refresh"]

_TOKEN_BYTES = 32
_WATCH_LATE = 5.0
"""Seconds in which the watch should have shown what was made."""

_log = logging.getLogger("logherd.operator")


_RESTARTS_NOTHING = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
"""What came with another type stays when ours is applied, and is refused beside it: it has to be taken away by name."""


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
        self._unreadable: set[str] = set()

    async def keep(self, sight: Sight, plan: Plan, memory: Memory, operator_peer: Document | None) -> Kept:
        """Apply what differs. What is taken is left as it is, and before that is over, and nothing is refused, no
        component comes into being of which nothing is there. What rests on what was refused is not changed.

        Raises of Refused only Conflict, as NotSettled if what was looked at is out of date, and NotNow.
        """
        site, tries = sight.site, Tries(memory, self._clock())
        taken = await tries.at(f"Secret {_admin(site)}", partial(self._read_token, site, memory))
        founders, learner = _kept_founders(sight, memory), memory.sizes.first_learner
        shape = shape_of(self._known, sight.key, site, sight.observed, plan, founders, learner)
        memory.sizes.founders, memory.sizes.first_learner = shape.founders, shape.first_learner
        drawn = _drawn(site, shape, memory, operator_peer)
        rendered = drawn.rendered
        for document in rendered.made_once:
            taken += await tries.at(_what(document), partial(self._make_once, document, sight, memory))
        for document in rendered.kept:
            if self._unknown_yet(document, sight, memory):
                tries.hold(_what(document))
            elif document["kind"] == "StatefulSet":
                if tries.failed and document["metadata"]["name"] in sight.versions:
                    continue
                held = taken or tries.failed
                first = [each for each in first_counts(plan) if not held or sight.observed.has(each)]
                attempt = partial(self._keep_workload, document, sight, first, memory)
                taken += await tries.at(_what(document), attempt)
            else:
                taken += await tries.at(_what(document), partial(self._keep, document, sight, memory))
        await self._prune(drawn.digests.keys(), site, memory, tries)
        for claim in sight.claims:
            what = f"PersistentVolumeClaim {claim['metadata']['name']}"
            await tries.at(what, partial(self._keep_owner, site, claim["metadata"]))
        return Kept(tuple(taken), tries.refused(), _added(rendered.kept, memory), tuple(tries.held))

    async def _read_token(self, site: Site, memory: Memory) -> list[str]:
        """The secret of the admin ports, drawn for the group that has the controllers, and never rewritten. That it is
        still there is seen now and then: what starts without it waits for it.

        Raises also NotSettled for the one of a former group of this name, that goes when somebody collects it. One that
        holds no token is somebody else's.
        """
        name = _admin(site)
        path = f"/api/v1/namespaces/{site.namespace}/secrets/{name}"
        last = memory.applied.get(path)
        if memory.token and last is not None and not self._due(f"Secret {name}", last[1], memory):
            return []
        found = await self._api.find(path)
        if found is None and site.controllers_of == site.name:
            token = base64.b64encode(secrets.token_hex(_TOKEN_BYTES).encode()).decode()
            document = {
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": site.metadata(name),
                "data": {"token": token},
            }  # fmt: skip
            found = await self._api.create(document) or await self._api.find(path)
        _leave_to_go(site, {"kind": "Secret", "metadata": {"name": name}}, found)
        memory.token = _token_in(found)
        if found is not None and not memory.token:
            return [f"the Secret {name} is there without the key token, with which the admin ports are told of changes"]
        memory.applied[path] = ("", self._clock())
        return []

    async def _make_once(self, document: Document, sight: Sight, memory: Memory) -> list[str]:
        """What somebody deletes is made again, as it was at first; of what is there only the labels are kept: by them
        the Service finds it, and the watch."""
        path = path_of(document)
        made = memory.applied.get(path)
        if made is not None and (self._known.has_slice(sight.key) or self._clock() - made[1] < _WATCH_LATE):
            return []
        made_now = await self._api.create(document)
        found = made_now or await self._api.find(path)
        if found is not None and is_foreign(sight.site, found["metadata"]):
            return [_taken(document)]
        if found is not None:
            await self._label(path, found, document)
        memory.applied[path] = ("", self._clock())
        return []

    def _unknown_yet(self, document: Document, sight: Sight, memory: Memory) -> bool:
        """Who begins as a learner stands in the brokers' files; they are not written while no controller can tell, and
        neither is a StatefulSet whose pods would pass for up to date with files that are not. What was applied already
        goes with those that are there; and the controllers' own pods may be what has to be set right.

        Pods that somebody left without their StatefulSet count as much; mere volumes do not: a group that is made again
        over those needs its files before its controllers can tell.

        Of a group that leads itself nothing in them rests on that, and what keeps all its brokers from starting may be.
        """
        brokers, path = sight.site.workload("broker"), path_of(document)
        observed, led_by_others = sight.observed, sight.site.group.spec.by_controllers
        begun = observed.platform.brokers is not None or any(each.instance is not None for each in observed.brokers)
        if not led_by_others or observed.group is not None or not begun:
            return False
        if memory.applied.get(path, ("", 0.0))[0] == _known_digest(path, memory):
            return False
        if _what(document) == f"StatefulSet {brokers}":  # where no broker runs, a new template may be what is wanting
            return observed.broker_runs
        return _what(document) == f"ConfigMap {brokers}-config"

    async def _keep(self, document: Document, sight: Sight, memory: Memory) -> list[str]:
        path = path_of(document)
        digest, last = _known_digest(path, memory), memory.applied.get(path)
        if last is not None and last[0] == digest and not self._due(_what(document), last[1], memory):
            return []
        if last is None:
            found = await self._standing(path, document["kind"])
            if sight.site.controllers_of != sight.site.name:  # else the Secret, which is read first, has told already
                _leave_to_go(sight.site, document, found)
            if found is not None and is_foreign(sight.site, found["metadata"]):
                return [_taken(document)]
            made = await self._api.apply(document)
        else:
            made = await self._apply_again(path, document, memory)
        memory.applied[path] = (digest, self._clock())
        memory.applied[f"{path}#uid"] = (str(made["metadata"]["uid"]), self._clock())
        return []

    async def _apply_again(self, path: str, document: Document, memory: Memory) -> dict[str, Any]:
        """Over exactly the object that was applied before, unread. Raises: NotSettled if it may be another one now, or
        none; the next look reads it."""
        uid, _ = memory.applied[f"{path}#uid"]
        try:
            return await self._api.apply({**document, "metadata": {**document["metadata"], "uid": uid}})
        except Refused as refusal:
            if refusal.status not in (http.HTTPStatus.CONFLICT, http.HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
            del memory.applied[path]
            raise NotSettled(f"{document['kind']} {document['metadata']['name']}: {refusal}") from refusal

    async def _standing(self, path: str, kind: str) -> dict[str, Any] | None:
        """What has the name already; None also where the operator may not ask, as with the roles of an older chart."""
        try:
            return await self._api.find(path)
        except Refused as refusal:
            if refusal.status != http.HTTPStatus.FORBIDDEN:
                raise
            if kind not in self._unreadable:
                self._unreadable.add(kind)
                _log.warning(
                    "%s: whether it is somebody else's cannot be told, and it is taken as the group's; let the "
                    "operator get objects of the kind %s, as its chart does", refusal, kind,
                )  # fmt: skip
            return None

    def _due(self, what: str, applied_at: float, memory: Memory) -> bool:
        """Is it to be applied again? What was refused is, whatever others cost: unasked it would pass for applied."""
        now = self._clock()
        if what in memory.refusals:
            return True
        if now - applied_at < self._refresh.every:
            return False
        self._spare += (now - self._filled_at) / self._refresh.apart
        self._spare, self._filled_at = min(self._spare, float(self._refresh.at_once)), now
        if self._spare < 1.0:
            return False
        self._spare -= 1.0
        return True

    async def _keep_workload(
        self, document: Document, sight: Sight, first: Container[Component], memory: Memory
    ) -> list[str]:  # fmt: skip
        """With the version that was looked at: what is applied has the count that was seen, and may not be out of date.
        One that is not there is made for a component that comes into being now (`first`).

        Raises: Conflict if it is; NotSettled if it was changed now, because then nobody knows what pods should be like.
        """
        name, path = document["metadata"]["name"], path_of(document)
        version = sight.versions.get(name)
        if version is None:
            if document["metadata"]["labels"]["app.kubernetes.io/component"] not in first:
                return []
            if not await self._is_free(path, document, sight.site):
                return [_taken(document)]
            await self._apply_workload(document, memory)
            return []
        seen = self._known.workload(sight.key, name)
        generation = str((seen or {}).get("metadata", {}).get("generation", ""))
        digest, last = _known_digest(path, memory), memory.applied.get(path)
        touched = memory.applied.get(f"{path}#generation", ("", 0.0))[0] != generation
        as_applied = last is not None and last[0] == digest and not touched
        if last is not None and as_applied and not self._due(_what(document), last[1], memory):
            return []
        metadata = {**document["metadata"], "resourceVersion": version}
        if "rollingUpdate" in (seen or {}).get("spec", {}).get("updateStrategy", {}):
            await self._api.merge(path, {"metadata": {"resourceVersion": version}, "spec": _RESTARTS_NOTHING})
            raise NotSettled(f"the StatefulSet {name} restarted its pods by itself, until now")
        made = await self._apply_workload({**document, "metadata": metadata}, memory)
        if str(made["metadata"].get("generation", "")) != generation:
            raise NotSettled(f"the StatefulSet {name} was changed, so the plan was made for another one")
        return []

    async def _is_free(self, path: str, document: Document, site: Site) -> bool:
        """Is nothing of the name there? Or somebody else's; raises Conflict if there is one of ours: the watch is late,
        or passes over it because somebody took its labels, which it gets back.
        """
        found = await self._api.find(path)
        if found is None or is_foreign(site, found["metadata"]):
            return found is None
        if _is_of(site, found):
            await self._label(path, found, document)
        name = found["metadata"]["name"]
        raise Conflict(409, f"the StatefulSet {name} is there, and the watch has not said so yet")

    async def _label(self, path: str, found: Mapping[str, Any], document: Document) -> None:
        """Give it the labels of ours that it lacks. Raises also Conflict if it was changed meanwhile."""
        metadata, wanted = found["metadata"], document["metadata"]["labels"]
        if not wanted.items() <= (metadata.get("labels") or {}).items():
            seen = {name: metadata[name] for name in ("uid", "resourceVersion")}
            await self._api.merge(path, {"metadata": {**seen, "labels": wanted}})

    async def _apply_workload(self, document: Document, memory: Memory) -> dict[str, Any]:
        path, now = path_of(document), self._clock()
        made = await self._api.apply(document)
        memory.applied[path] = (_known_digest(path, memory), now)
        memory.applied[f"{path}#generation"] = (str(made["metadata"].get("generation", "")), now)
        memory.applied[f"{path}#added"] = (edits_of(made["metadata"]), now)
        return made

    async def _prune(self, kept: Container[str], site: Site, memory: Memory, tries: Tries) -> None:
        """Budgets and policies are wanted or not; everything else is there as long as the group is."""
        for kind, version in (("PodDisruptionBudget", "policy/v1"), ("NetworkPolicy", "networking.k8s.io/v1")):
            for component in ("broker", "controller"):
                name = f"{site.name}-{component}"
                path = f"{collection_of(version, kind, site.namespace)}/{name}"
                if path in kept:
                    memory.applied.pop(f"{path}#absent", None)
                elif f"{path}#absent" not in memory.applied:
                    await tries.at(f"{kind} {name}", partial(self._delete, path, site, memory))

    async def _delete(self, path: str, site: Site, memory: Memory) -> list[str]:
        """What somebody else made under such a name, in place of ours, stays."""
        found = await self._api.find(path)
        if found is not None and _is_of(site, found):
            await self._api.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})
        memory.applied[f"{path}#absent"] = ("", self._clock())
        memory.applied.pop(path, None)
        return []

    async def _keep_owner(self, site: Site, claim: Mapping[str, Any]) -> list[str]:
        await keep_owner(self._api, site, claim)
        return []


def _kept_founders(sight: Sight, memory: Memory) -> int | None:
    """They are written before anything is made of which they tell, and until then the spec may change. What was made is
    remembered, too, because the watch may not have shown it yet."""
    site, observed = sight.site, sight.observed
    made = f"{collection_of('apps/v1', 'StatefulSet', site.namespace)}/{site.workload('broker')}" in memory.applied
    begun = made or observed.platform.brokers is not None or observed.has("broker")
    return memory.sizes.founders if begun else None


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


def _added(documents: Sequence[Document], memory: Memory) -> tuple[str, ...]:
    """As it was when each StatefulSet was applied last, which is done whenever somebody changes it."""
    found = ((each, memory.applied.get(f"{path_of(each)}#added", ("", 0.0))[0]) for each in documents)
    return tuple(f"in the template of the {_what(each)}, {edits}" for each, edits in found if edits)


def _token_in(secret: Mapping[str, Any] | None) -> str:
    data: Mapping[str, str] = (secret or {}).get("data") or {}
    try:
        return base64.b64decode(data.get("token", "")).decode(errors="replace").strip()
    except ValueError:
        return ""


def _admin(site: Site) -> str:
    return f"{site.controllers_of}-admin"


def _what(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def _taken(document: Document) -> str:
    """What is not applied over: it would serve its owner no more, and go with the group."""
    return f"the {_what(document)}, which the group needs, is there and somebody else's"


def _leave_to_go(site: Site, document: Document, found: Mapping[str, Any] | None) -> None:
    """Raises: NotSettled for what is of a former group of this name, and goes when somebody collects it."""
    if found is not None and is_of_former(site, found["metadata"]):
        raise NotSettled(f"the {_what(document)} is of a former group of this name, and about to go")


def _is_of(site: Site, document: Document) -> bool:
    return any(each["uid"] == site.uid for each in document["metadata"].get("ownerReferences") or ())


def _known_digest(path: str, memory: Memory) -> str:
    return memory.drawn.digests[path] if memory.drawn is not None else ""


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
