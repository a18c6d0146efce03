"""What people hear of a group: its status, written when it differs, and one Event for each thing that happened."""

from collections.abc import Iterator, Mapping
from typing import Any

from logherd_operator.clients.events import Happening
from logherd_operator.plan.actions import Action, Restart
from logherd_operator.spec.group import API_VERSION, KIND

__all__ = ["happenings", "invalid_status", "not_done", "of_action", "same", "status_patch"]

Document = Mapping[str, Any]
_SAID = ("Available", "LeaderElected", "QuorumHealthy", "Degraded", "StorageReady", "ConfigApplied")
_GOOD_IF_FALSE = ("Degraded",)


def same(before: Document, now: Document) -> bool:
    """Do two statuses say the same? What is empty in one may be missing in the other."""
    return bool(_plain(before) == _plain(now))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: plain for name, each in value.items() if (plain := _plain(each)) not in ({}, [], None)}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def status_patch(group: Document, status: Document) -> dict[str, Any]:
    """To be applied to the status subresource of exactly the version that was looked at (OP-18).

    An empty map is left out, which takes away what stood in it: sent, it would become null, and that is refused.
    """
    metadata = group["metadata"]
    return {
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": {name: each for name, each in status.items() if each != {}},
    }  # fmt: skip


def invalid_status(group: Document, fault: str, when: str) -> dict[str, Any]:
    """The status of a spec that cannot be read, or of a group that cannot be looked at because the API server refuses
    that: one condition says why. The others are not told until that has changed, and everything else stays as it was
    seen last, but for what counts by a spec that was another."""
    before: Document = group.get("status") or {}
    generation = int(group["metadata"].get("generation", 0))
    known = {each["type"]: each for each in before.get("conditions", ()) if "type" in each}
    conditions = [
        {"type": kind, "status": "Unknown", "reason": "InvalidSpec",
         "message": "not told while the spec, a look at the group or its status is refused",
         "observedGeneration": generation}
        for kind in known if kind != "Degraded"
    ]  # fmt: skip
    conditions.append(_invalid(fault, generation))
    for each in conditions:
        each["lastTransitionTime"] = _since(each, known, when)
    counted = {} if before.get("observedGeneration") == generation else {"updatedReplicas": 0}
    told = {"phase": "Degraded", "observedGeneration": generation, "conditions": conditions}
    return {**before, **counted, **told}


def _invalid(fault: str, generation: int) -> dict[str, Any]:
    return {
        "type": "Degraded", "status": "True", "reason": "InvalidSpec", "message": fault[:4096],
        "observedGeneration": generation,
    }  # fmt: skip


def _since(condition: Document, known: Document, when: str) -> str:
    """How long it has had its status."""
    old = known.get(str(condition["type"]), {})
    since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
    return str(since or when)


def happenings(before: Document, now: Document) -> Iterator[Happening]:
    """What has changed from one status to the next and is worth an Event."""
    yield from _conditions(before, now)
    old, new = before.get("leader") or {}, now.get("leader") or {}
    if new and new.get("epoch") != old.get("epoch"):
        came = f"{new['pod']} leads in epoch {new['epoch']}"
        note = f"{came}, after {old['pod']} in epoch {old['epoch']}" if old else came
        yield Happening("Normal", "LeaderChanged", "Follow", note, f"epoch {new['epoch']}")
    known = {each["code"] for each in before.get("blocked", ())}
    for each in now.get("blocked", ()):
        if each["code"] not in known:
            note = f"{each['message']}; what unblocks it: {each['unblocks']}"
            yield Happening("Warning", each["code"], "Refuse", note, f"blocked since {each['since']}")


def _conditions(before: Document, now: Document) -> Iterator[Happening]:
    known = {each["type"]: each for each in before.get("conditions", ())}
    for each in now.get("conditions", ()):
        kind, status = each["type"], each["status"]
        good = (status == "True") != (kind in _GOOD_IF_FALSE)
        if kind not in _SAID or not _is_news(each, known.get(kind, {}), good=good):
            continue
        if kind not in known and not good:
            continue  # nothing was promised yet
        if status == "Unknown" and each["reason"] == "InvalidSpec":
            continue  # one Event is enough, that of Degraded
        identity = f"{kind}={status} since {each['lastTransitionTime']}"
        yield Happening("Normal" if good else "Warning", each["reason"], kind, f"{kind}: {each['message']}", identity)


def _is_news(condition: Document, before: Document, *, good: bool) -> bool:
    """Another status is, and of a group that stays degraded another reason, once for each while it does: the time since
    when it is degraded is part of the Event's name."""
    if before.get("status") != condition["status"]:
        return True
    return condition["type"] in _GOOD_IF_FALSE and not good and before.get("reason") != condition["reason"]


def of_action(action: Action, generation: int) -> Happening:
    """That something is done, and why."""
    kind = type(action).__name__
    reason = action.why.value if isinstance(action, Restart) else kind
    return Happening("Normal", reason, kind, f"{_words(action)}: {action.reason}", f"{action!r} of {generation}")


def not_done(action: Action, why: str, generation: int) -> Happening:
    """That something was tried and refused."""
    kind = type(action).__name__
    return Happening(
        "Warning", f"{kind}Refused", kind, f"{_words(action)}: {why}", f"{action!r} of {generation}: {why}"
    )


def _words(action: Action) -> str:
    ordinal = getattr(action, "ordinal", None)
    number = getattr(action, "broker_id", None) or getattr(action, "target", None)
    if ordinal is not None:
        return f"{getattr(action, 'component', 'broker')} at place {ordinal}"
    return f"broker {number}" if number is not None else "the group"
