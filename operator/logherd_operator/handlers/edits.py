"""What others say in a pod template, by the API server's own record of who said which field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from logherd_operator.clients.api import FIELD_MANAGER

__all__ = ["edits_of"]

Fields = Mapping[str, Any]

_BEFORE = "before-first-apply"
"""Not a person: the API server's name for all that was there when the first one applied."""

_FILLED_IN = frozenset(
    f"f:{each}"
    for each in (
        "apiVersion", "defaultMode", "dnsPolicy", "failureThreshold", "imagePullPolicy", "periodSeconds", "protocol",
        "restartPolicy", "schedulerName", "scheme", "successThreshold", "terminationMessagePath",
        "terminationMessagePolicy", "timeoutSeconds",
    )
)  # fmt: skip
"""What the API server fills in where nobody says it: who writes the whole object back, as `kubectl replace` does, is
recorded as having said that, too."""


def edits_of(metadata: Mapping[str, Any]) -> str:
    """Who, and what beyond that which we say: `kubectl-edit: spec.containers[broker].env[DEBUG]`; empty if nothing.

    What we say too is applied over theirs, so that it stands as we have it.
    """
    records = metadata.get("managedFields") or ()
    ours: Fields = next((_template(each) for each in records if _is_applied(each)), {})
    said = ((_manager(each), sorted(_beyond(_template(each), ours))) for each in records)
    theirs = ((who, places) for who, places in said if places and who not in (FIELD_MANAGER, _BEFORE))
    return "; ".join(f"{who or '(unnamed)'}: {', '.join(places)}" for who, places in theirs)


def _is_applied(record: Fields) -> bool:
    """Is it what we apply? What we patch beside it, as counts, has a record of its own."""
    return (_manager(record), record.get("operation")) == (FIELD_MANAGER, "Apply")


def _manager(record: Fields) -> str:
    return str(record.get("manager", ""))


def _template(record: Fields) -> Fields:
    fields: Fields = (record.get("fieldsV1") or {}).get("f:spec", {}).get("f:template", {})
    return fields


def _beyond(theirs: Fields, ours: Fields, place: str = "") -> Iterator[str]:
    for key, inner in theirs.items():
        if key == ".":  # the thing itself, beside what is in it
            continue
        where = f"{place}{_words(key)}".removeprefix(".")
        if key not in ours:
            if key not in _FILLED_IN and not (key == "f:securityContext" and not inner):
                yield where
        else:
            yield from _beyond(inner, ours[key], where)


def _words(key: str) -> str:
    """Of one step: a field, or what tells an item of a list from the others."""
    kind, _, name = key.partition(":")
    if kind == "k":
        return f"[{', '.join(str(each) for each in json.loads(name).values())}]"
    return f".{name}" if kind == "f" and "." not in name else f"[{name}]"
