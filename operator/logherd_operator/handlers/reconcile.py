"""One reconcile: look, plan, keep the objects, write the status, act, say why. The same look gives the same plan,
whatever woke it (OP-11), and each step may be cut off: the next look goes on from what is so.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from logherd_operator.clients.admin import Admins
from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import Conflict, NotFound, NotNow, Refused, Unreachable
from logherd_operator.clients.events import Happening, event_document, post
from logherd_operator.cluster.look import NotSettled
from logherd_operator.handlers.acting import Hands, NotDone
from logherd_operator.handlers.known import Key, Known, controllers_in
from logherd_operator.handlers.looking import Eyes, Sight
from logherd_operator.handlers.memory import Memory, Parsed, Written
from logherd_operator.handlers.objects import Objects, Refresh
from logherd_operator.handlers.pins import image_of, read_founders, read_pins
from logherd_operator.handlers.telling import (
    happenings,
    invalid_status,
    not_done,
    of_action,
    same,
    status_patch,
)
from logherd_operator.plan.actions import PushConfig
from logherd_operator.plan.outcome import Plan
from logherd_operator.plan.pace import Pace
from logherd_operator.plan.planner import plan as make_plan
from logherd_operator.resources.group_objects import OPERATOR_PEER
from logherd_operator.resources.site import Site
from logherd_operator.spec.document import runnable_group
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup
from logherd_operator.status.conditions import Look
from logherd_operator.status.document import status_document
from logherd_operator.status.place import place_document

__all__ = ["Means", "Options", "Reconciler"]

_SOON = 1.0
_STATUS_APART = 2.0
_IDLE = 60.0

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a reconcile works with. `now` is in seconds since 1970, `ticks` is never set back."""

    known: Known
    api: Api
    admins: Admins
    now: Callable[[], float]
    ticks: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the operator was started. `namespace` is its own, `reporter` the name of its process."""

    broker_image: str
    operator_image: str
    version: str
    namespace: str
    reporter: str
    pace: Pace | None = None
    refresh: Refresh | None = None


class Reconciler:
    """Looks after groups, one call for each look. Calls for different groups may run at the same time."""

    def __init__(self, means: Means, options: Options) -> None:
        self._means = means
        self._options = options
        self._eyes = Eyes(means.known, means.api, means.admins)
        self._hands = Hands(means.api, means.admins)
        self._objects = Objects(means.api, means.known, means.ticks, options.refresh)
        self._memories: dict[Key, Memory] = {}
        self._missed: set[Key] = set()
        """Of these the last look did not find what it had seen."""

    async def reconcile(self, key: Key) -> float | None:
        """Do what is to be done now. Returns in how many seconds to look again, None for a group that is gone.

        Raises: Unreachable, or a kind of Refused that nobody foresaw; to be tried again later.
        """
        group = self._means.known.group(key)
        if group is None or group["metadata"].get("deletionTimestamp"):
            self._memories.pop(key, None)
            self._missed.discard(key)
            return None
        memory = self._memory(key, str(group["metadata"]["uid"]))
        group = _newest(group, memory)
        try:
            again = await self._look_and_act(key, group, self._parsed(group, memory), memory)
        except (Conflict, NotSettled):
            return _SOON
        except SpecError as fault:
            return await self._tell_invalid(group, str(fault), memory)
        except Refused as refusal:
            if self._may_pass(key, refusal):
                return _SOON
            # Unless it only comes too often, it stays refused until a person changes the spec or our rights.
            if not isinstance(refusal, NotNow):
                why = f"the API server refuses a look at the group or its status: {refusal}"
                await self._tell_invalid(group, why, memory)
            raise
        self._missed.discard(key)
        return again

    def _may_pass(self, key: Key, refusal: Refused) -> bool:
        """What was deleted after it was looked at is not there once; what is missing again was never to be found."""
        passing = isinstance(refusal, NotFound) and key not in self._missed
        if passing:
            self._missed.add(key)
        return passing

    async def _look_and_act(self, key: Key, group: Document, parsed: BrokerGroup, memory: Memory) -> float:
        if memory.pinned is None:
            memory.pinned = await read_pins(self._means.api, key)
            if not parsed.spec.by_controllers:
                memory.sizes.founders = await read_founders(self._means.api, key)
        site = self._site(key, group, parsed, memory)
        sight = await self._eyes.look(key, group, site, memory)
        made = make_plan(sight.observed, parsed.spec, self._means.now(), self._options.pace)
        if parsed.spec.reconcile != "Off":
            kept = await self._objects.keep(sight, made, memory, self._operator_peer(key))
            if any(kept):
                sight = replace(sight, observed=replace(sight.observed, kept=kept))
                made = make_plan(sight.observed, parsed.spec, self._means.now(), self._options.pace)
        wait = await self._tell(sight, made, memory)
        if wait is not None:
            return wait
        return await self._act(sight, made, memory)

    # ---- parts ----

    def _memory(self, key: Key, uid: str) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = Memory(uid=uid)
        return memory

    def _parsed(self, group: Document, memory: Memory) -> BrokerGroup:
        metadata = group["metadata"]
        generation = int(metadata.get("generation", 0))
        if memory.parsed is None or memory.parsed.generation != generation:
            plain = {
                "apiVersion": group["apiVersion"], "kind": group["kind"],
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
                "spec": group.get("spec", {}),
            }  # fmt: skip
            memory.parsed = Parsed(generation, runnable_group(plain, source=f"generation {generation}"))
            memory.refused.clear()
            memory.refusals.clear()
        return memory.parsed.group

    def _site(self, key: Key, group: Document, parsed: BrokerGroup, memory: Memory) -> Site:
        brokers = self._means.known.workload(key, f"{key.name}-broker")
        return Site(
            group=parsed, namespace=key.namespace, uid=str(group["metadata"]["uid"]),
            image=parsed.spec.image or image_of(memory.pinned or {}, brokers) or self._options.broker_image,
            operator_image=self._options.operator_image, operator_version=self._options.version,
            controller_count=self._controller_count(key, parsed, memory),
        )  # fmt: skip

    def _controller_count(self, key: Key, parsed: BrokerGroup, memory: Memory) -> int:
        """Of own controllers, or of those of the group that is referred to, as it was when it was last there."""
        embedded, ref = parsed.spec.controllers.embedded, parsed.spec.controllers.ref
        if embedded is not None:
            return embedded.replicas
        other = self._means.known.group(Key(key.namespace, ref.name)) if ref is not None else None
        if other is not None:
            memory.sizes.controllers = controllers_in(other)
        return memory.sizes.controllers

    def _operator_peer(self, key: Key) -> dict[str, Any]:
        own = self._options.namespace
        if key.namespace == own:
            return OPERATOR_PEER
        return {**OPERATOR_PEER, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": own}}}

    async def _tell(self, sight: Sight, made: Plan, memory: Memory) -> float | None:
        """Write the status if it differs; how long to wait first, if that was a moment ago.

        It is written before anything is done, over the version that was looked at: so a spec that has changed meanwhile
        stops a plan that was made for the old one.
        """
        generation = int(sight.group["metadata"].get("generation", 0))
        look = Look(sight.observed, sight.site.group.spec, made)
        status = {
            **status_document(
                look, sight.status, name=sight.site.name, generation=generation, now=self._means.now()
            ),
            **place_document(sight.site, sight.observed, memory.pinned),
        }  # fmt: skip
        if same(sight.status, status):
            return None
        led_by = (sight.status.get("leader") or {}).get("epoch")
        since = self._means.ticks() - memory.written.at if memory.written is not None else _STATUS_APART
        if since < _STATUS_APART and led_by == (status.get("leader") or {}).get("epoch"):
            return _STATUS_APART - since
        await self._say(sight.group, happenings(sight.status, status))
        await self._write(sight.group, status, memory)
        return None

    async def _write(self, group: Document, status: Document, memory: Memory) -> None:
        over = str(group["metadata"]["resourceVersion"])
        written = await self._means.api.apply(status_patch(group, status), subresource="status")
        memory.written = Written(over, written, self._means.ticks())

    async def _act(self, sight: Sight, made: Plan, memory: Memory) -> float:
        generation, again = int(sight.group["metadata"].get("generation", 0)), made.again_seconds
        for action in made.actions:
            try:
                await self._hands.carry_out(action, sight, memory)
            except NotDone as why:
                await self._say(sight.group, [not_done(action, str(why), generation)])
                again = min(again, 2 * _STATUS_APART)
                # Nothing rests on a setting, and a broker that can take none may need the restart that comes next.
                if action.disruptive or not isinstance(action, PushConfig):
                    return again
            else:
                await self._say(sight.group, [of_action(action, generation)])
        return again

    async def _say(self, group: Document, said: Any) -> None:
        """Events may have a storage of their own: that it is away is a reason to say no more now, and to go on."""
        happening: Happening
        with suppress(Unreachable):
            for happening in said:
                document = event_document(group, happening, self._options.reporter, self._means.now())
                await post(self._means.api, document)

    def _when(self) -> str:
        return datetime.fromtimestamp(int(self._means.now()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _tell_invalid(self, group: Document, fault: str, memory: Memory) -> float:
        status = invalid_status(group, fault, self._when())
        if same(group.get("status") or {}, status):
            return _IDLE
        try:
            await self._say(group, happenings(group.get("status") or {}, status))
            await self._write(group, status, memory)
        except Conflict:
            return _SOON
        return _IDLE


def _newest(group: Document, memory: Memory) -> Document:
    """What was written last counts until the watch has brought something newer than what it was written over."""
    written = memory.written
    if written is not None and group["metadata"]["resourceVersion"] == written.over:
        return written.document
    return group
