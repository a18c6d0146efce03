"""What others say in a pod template, by the API server's own record of who said which field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from logherd_operator.clients.api import FIELD_MANAGER

__all__ = ["edits_of"]

Fields = Mapping[str, Any]


def edits_of(metadata: Mapping[str, Any]) -> str:
    """Who, and what beyond that which we say: `kubectl-edit: spec.containers[broker].env[DEBUG]`; empty if nothing.

    What we say too is applied over theirs, so that it stands as we have it.
    """
    records = metadata.get("managedFields") or ()
    ours: Fields = next((_template(each) for each in records if _is_applied(each)), {})
    said = ((each["manager"], _beyond(_template(each), ours)) for each in records if each["manager"] != FIELD_MANAGER)
    return "; ".join(f"{who}: {', '.join(places)}" for who, found in said if (places := sorted(found)))


def _is_applied(record: Fields) -> bool:
    """Is it what we apply? What we patch beside it, as counts, has a record of its own."""
    return (record["manager"], record["operation"]) == (FIELD_MANAGER, "Apply")


def _template(record: Fields) -> Fields:
    fields: Fields = (record.get("fieldsV1") or {}).get("f:spec", {}).get("f:template", {})
    return fields


def _beyond(theirs: Fields, ours: Fields, place: str = "") -> Iterator[str]:
    for key, inner in theirs.items():
        if key == ".":  # the thing itself, beside what is in it
            continue
        where = f"{place}{_words(key)}".removeprefix(".")
        if key not in ours:
            yield where
        else:
            yield from _beyond(inner, ours[key], where)


def _words(key: str) -> str:
    """Of one step: a field, or what tells an item of a list from the others."""
    kind, _, name = key.partition(":")
    if kind == "k":
        return f"[{', '.join(str(each) for each in json.loads(name).values())}]"
    return f".{name}" if kind == "f" and "." not in name else f"[{name}]"
