"""Which disruption budgets are over a pod, as Kubernetes finds them before it evicts one."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["budgets_over"]

Object = Mapping[str, Any]


def budgets_over(pod: Object, budgets: Iterable[Object]) -> tuple[str, ...]:
    """Their names. `budgets` are those of the pod's namespace."""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return tuple(sorted(str(each["metadata"]["name"]) for each in budgets if _selects(each["spec"], labels)))


def _selects(spec: Object, labels: Mapping[str, str]) -> bool:
    """In policy/v1 an empty selector fits every pod, and none at all fits none."""
    selector = spec.get("selector")
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    rules = selector.get("matchExpressions") or ()
    return wanted.items() <= labels.items() and all(_fits(each, labels) for each in rules)


def _fits(rule: Object, labels: Mapping[str, str]) -> bool:
    key, values = rule["key"], rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:  # DoesNotExist: there is no other
            return key not in labels
