"""What the operator would do next, worked out here from the same look and by the same planner."""

from collections.abc import Mapping
from typing import Any

from logherd_operator.clients.api import Api
from logherd_operator.cluster.look import NotSettled
from logherd_operator.handlers.known import Key, controllers_in
from logherd_operator.handlers.looking import Eyes
from logherd_operator.handlers.memory import Memory, Sizes
from logherd_operator.handlers.pins import image_of, read_pins
from logherd_operator.observed.observed import Observed
from logherd_operator.plan.outcome import Plan
from logherd_operator.plan.planner import plan
from logherd_operator.plugin.cluster import PodPages, Read, group_path
from logherd_operator.resources.site import Site
from logherd_operator.spec.document import runnable_group
from logherd_operator.spec.group import BrokerGroup

__all__ = ["look_for", "plan_document", "plan_for", "plan_text"]

Document = Mapping[str, Any]


async def plan_for(api: Api, key: Key, read: Read, now: float) -> Plan | None:
    """The plan; None if the cluster is about to change and nothing can be said for a moment.

    Raises: SpecError for a spec that is wrong, ClusterError.
    """
    observed = await look_for(api, key, read)
    return None if observed is None else plan(observed, _parsed(read.group(key) or {}).spec, now)


async def look_for(api: Api, key: Key, read: Read) -> Observed | None:
    """What the operator would see, its pods' own pages too; None and errors as `plan_for`."""
    group = read.group(key) or {}
    parsed = _parsed(group)
    pins, brokers = await read_pins(api, key), read.workload(key, f"{key.name}-broker")
    site = Site(
        group=parsed, namespace=key.namespace, uid=str(group["metadata"]["uid"]),
        image=parsed.spec.image or image_of(pins, brokers) or "", operator_image="", operator_version="",
        controller_count=await _controller_count(api, key, parsed, read),
    )  # fmt: skip
    eyes = Eyes(read, api, PodPages(api, key.namespace))
    try:
        sight = await eyes.look(key, group, site, Memory(uid=site.uid))
    except NotSettled:
        return None
    return sight.observed


async def _controller_count(api: Api, key: Key, parsed: BrokerGroup, read: Read) -> int:
    """Of own controllers, or of those of the group that is referred to; if that is gone, as an operator without memory
    takes it. Raises: ClusterError."""
    embedded, ref = parsed.spec.controllers.embedded, parsed.spec.controllers.ref
    if embedded is not None:
        return embedded.replicas
    other = await api.find(group_path(Key(key.namespace, ref.name))) if ref is not None else None
    if other is None:
        return Sizes().controllers
    read.add(other)
    return controllers_in(other)


def plan_document(made: Plan | None) -> dict[str, Any]:
    """For programs: actions [{action, reason, disruptive}], operation, blocked [{code, message, unblocks}]."""
    if made is None:
        return {"settled": False, "actions": [], "operation": None, "blocked": []}
    operation = made.operation
    return {
        "settled": True,
        "actions": [
            {"action": type(each).__name__, "reason": each.reason, "disruptive": each.disruptive}
            for each in made.actions
        ],
        "operation": None if operation is None else {
            "type": operation.type.value, "state": operation.state, "message": operation.message,
        },
        "blocked": [
            {"code": each.code.value, "message": each.message, "unblocks": each.unblocks} for each in made.blocked
        ],
    }  # fmt: skip


def plan_text(document: Document) -> str:
    """For people."""
    if not document["settled"]:
        return "the cluster is about to change; ask again in a moment"
    lines = [f"{each['action']}: {each['reason']}" for each in document["actions"]]
    if not lines:
        operation = document["operation"]
        lines = [f"waits: {operation['message']}" if operation else "nothing is to be done"]
    return "\n".join(
        [*lines, *(f"held: {each['message']}; it takes: {each['unblocks']}" for each in document["blocked"])]
    )


def _parsed(group: Document) -> BrokerGroup:
    metadata = group["metadata"]
    plain = {
        "apiVersion": group["apiVersion"], "kind": group["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}, "spec": group.get("spec", {}),
    }  # fmt: skip
    return runnable_group(plain, source=f"{metadata['namespace']}/{metadata['name']}")
