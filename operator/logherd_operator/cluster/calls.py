"""Actions as calls: to the API server, to the controllers' admin port, to a broker's. Each carries what it expects.

A call may be sent again when its answer was lost. The API server answers 409 to a precondition that does not hold, a
controller 409 with a reason: the action has failed, and the next look decides anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from logherd_operator.plan import actions as plan
from logherd_operator.resources.site import Site

__all__ = ["At", "Call", "calls_of", "refused_settings"]

Target = Literal["cluster", "controllers"] | int
_MERGE = "application/merge-patch+json"
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request. `target`: the API server, the controllers (whoever leads them), or a broker by its ordinal."""

    target: Target
    method: Literal["POST", "PATCH", "DELETE"]
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    content_type: str = _JSON


class At(NamedTuple):
    """Where the calls go. `versions`: resource versions of the StatefulSets that were looked at, by name."""

    site: Site
    versions: Mapping[str, str]


def calls_of(action: plan.Action, at: At) -> tuple[Call, ...]:
    """What to send for an action, in order.

    Places that were never made come with the group's other objects, so that needs no call of its own.
    """
    return _CALLS[type(action)](action, at)


def refused_settings(values: Mapping[str, str], answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Which of the settings (`name=value`) that a broker was told it will not take: the one that its answer names, for
    it takes all or nothing and so left right ones, too; all, where it names none."""
    named = answer.get("field")
    wrong = {named: values[named]} if isinstance(named, str) and named in values else values
    return tuple(f"{name}={value}" for name, value in sorted(wrong.items()))


def _workload(site: Site, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{site.namespace}/statefulsets/{name}"


def _core(site: Site, kind: str, name: str) -> str:
    return f"/api/v1/namespaces/{site.namespace}/{kind}/{name}"


def _scale(at: At, name: str, count: int) -> tuple[Call, ...]:
    body = {"metadata": {"resourceVersion": at.versions[name]}, "spec": {"replicas": count}}
    path = _workload(at.site, name)
    return (Call(target="cluster", method="PATCH", path=path, body=body, content_type=_MERGE),)


def _set_members(action: plan.SetMembers, at: At) -> tuple[Call, ...]:
    if action.before is None:
        return ()
    return _scale(at, at.site.workload(action.component), action.count)


def _remove_member(action: plan.RemoveMember, at: At) -> tuple[Call, ...]:
    return _scale(at, at.site.workload("broker"), action.count)


def _restart(action: plan.Restart, at: At) -> tuple[Call, ...]:
    name = at.site.pod(action.component, action.ordinal)
    if not action.serving:
        return (_delete_pod(at.site, name, action.uid),)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": at.site.namespace},
        "deleteOptions": {"preconditions": {"uid": action.uid}},
    }
    return (Call(target="cluster", method="POST", path=f"{_core(at.site, 'pods', name)}/eviction", body=body),)


def _delete_pod(site: Site, name: str, uid: str) -> Call:
    return Call(target="cluster", method="DELETE", path=_core(site, "pods", name), body=_only(uid))


def _only(uid: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}


def _claim(site: Site, component: str, ordinal: int) -> str:
    return _core(site, "persistentvolumeclaims", f"data-{site.name}-{component}-{ordinal}")


def _grow(action: plan.GrowVolume, at: At) -> tuple[Call, ...]:
    body = {
        "metadata": {"uid": action.uid},
        "spec": {"resources": {"requests": {"storage": str(action.size)}}},
    }
    path = _claim(at.site, action.component, action.ordinal)
    return (Call(target="cluster", method="PATCH", path=path, body=body, content_type=_MERGE),)


def _renew_claims(action: plan.RenewClaims, at: At) -> tuple[Call, ...]:
    name = at.site.workload(action.component)
    body = {
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan",
        "preconditions": {"resourceVersion": at.versions[name]},
    }  # fmt: skip
    return (Call(target="cluster", method="DELETE", path=_workload(at.site, name), body=body),)


def _delete_volume(action: plan.DeleteVolume, at: At) -> tuple[Call, ...]:
    path = _claim(at.site, "broker", action.ordinal)
    return (Call(target="cluster", method="DELETE", path=path, body=_only(action.uid)),)


def _rebuild(action: plan.Rebuild, at: At) -> tuple[Call, ...]:
    """The claim goes when the pod does, and both are made anew."""
    path = _claim(at.site, "broker", action.ordinal)
    claim = Call(target="cluster", method="DELETE", path=path, body=_only(action.volume_uid))
    return (claim, _delete_pod(at.site, at.site.pod("broker", action.ordinal), action.uid)) if action.uid else (claim,)


def _of_group(verb: str, fields: Callable[[Any], dict[str, Any]]) -> Callable[..., tuple[Call, ...]]:
    def make(action: plan.Action, at: At) -> tuple[Call, ...]:
        path = f"/groups/{at.site.cluster}/{at.site.name}/{verb}"
        return (Call(target="controllers", method="POST", path=path, body=fields(action)),)

    return make


def _of_quorum(verb: str, fields: Callable[[Any], dict[str, Any]]) -> Callable[..., tuple[Call, ...]]:
    def make(action: plan.Action, _at: At) -> tuple[Call, ...]:
        return (Call(target="controllers", method="POST", path=f"/quorum/{verb}", body=fields(action)),)

    return make


def _learner(action: plan.Promote | plan.Demote) -> dict[str, Any]:
    return {"brokerId": action.broker_id, "expectedEpoch": action.expected_epoch}


def _push(action: plan.PushConfig, _at: At) -> tuple[Call, ...]:
    return (Call(target=action.ordinal, method="POST", path="/config", body={"values": dict(action.values)}),)


def _rules(action: plan.SetRules) -> dict[str, Any]:
    preferred = {} if action.preferred is None else {"preferred": action.preferred}
    return {"replicas": action.replicas, "minInSync": action.min_in_sync, **preferred}


def _elect(action: plan.Switchover, at: At) -> tuple[Call, ...]:
    """The controllers do it; where none lead the group, whoever leads it hands over."""
    body = {"brokerId": action.target, "expectedEpoch": action.expected_epoch}
    if action.leader is not None:
        return (Call(target=action.leader - 1, method="POST", path="/replica/hand-over", body=body),)
    path = f"/groups/{at.site.cluster}/{at.site.name}/elect"
    return (Call(target="controllers", method="POST", path=path, body={**body, "requestId": action.request_id}),)


def _take_lead(action: plan.TakeLead, _at: At) -> tuple[Call, ...]:
    body = {"after": action.after, "synchronous": list(action.synchronous), "copies": action.copies}
    return (Call(target=action.target - 1, method="POST", path="/replica/promote", body=body),)


_CALLS: dict[type[plan.Action], Callable[..., tuple[Call, ...]]] = {
    plan.SetMembers: _set_members,
    plan.RemoveMember: _remove_member,
    plan.Restart: _restart,
    plan.Switchover: _elect,
    plan.TakeLead: _take_lead,
    plan.Promote: _of_group("promote", _learner),
    plan.Demote: _of_group("demote", _learner),
    plan.Forget: _of_group(
        "forget", lambda action: {"brokerIds": [action.broker_id], "expectedEpoch": action.expected_epoch}
    ),
    plan.SetRules: _of_group("rules", _rules),
    plan.PushConfig: _push,
    plan.LeaveOut: _push,
    plan.TransferQuorum: _of_quorum("transfer", lambda action: {"node": action.node}),
    plan.SettleQuorum: _of_quorum("members", lambda action: {"voters": list(action.voters)}),
    plan.GrowVolume: _grow,
    plan.RenewClaims: _renew_claims,
    plan.DeleteVolume: _delete_volume,
    plan.Rebuild: _rebuild,
}
