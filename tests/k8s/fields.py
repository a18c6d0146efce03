"""Server-side apply over plain documents: who said which field. Lists are one value, as atomic lists are."""

import copy
from typing import Any

__all__ = ["applied", "emptied", "merged"]

Fields = set[tuple[str, ...]]


def leaves(value: Any, path: tuple[str, ...] = ()) -> Fields:
    if isinstance(value, dict) and value:
        return {leaf for name, each in value.items() for leaf in leaves(each, (*path, name))}
    return {path}


def applied(
    live: dict[str, Any], said: dict[str, Any], before: Fields, others: Fields
) -> tuple[dict[str, Any], Fields]:
    """The object after a manager has said `said`, and what it owns then; `before` is what it owned."""
    now = leaves(said)
    found = copy.deepcopy(live)
    for path in before - now - others:
        if not any(each[: len(path)] == path for each in now):
            _drop(found, path)
    return _laid(found, said), now


def emptied(said: Any, before: Fields, path: tuple[str, ...] = ()) -> list[str]:
    """Maps of which a manager now says that they are empty, and which held something of its own before.

    The real one makes them null then, which no schema of a custom resource takes; Kubernetes' own kinds do.
    """
    if not isinstance(said, dict):
        return []
    if not said:
        return [".".join(path)] if any(each[: len(path)] == path != each for each in before) else []
    return [each for name, inner in said.items() for each in emptied(inner, before, (*path, name))]


def merged(live: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = dict(live) if isinstance(live, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def _laid(live: Any, said: Any) -> Any:
    if not isinstance(said, dict) or not isinstance(live, dict):
        return copy.deepcopy(said)
    return {**live, **{name: _laid(live.get(name), each) for name, each in said.items()}}


def _drop(found: dict[str, Any], path: tuple[str, ...]) -> None:
    *way, last = path
    nodes = [found]
    for name in way:
        inner = nodes[-1].get(name)
        if not isinstance(inner, dict):
            return
        nodes.append(inner)
    nodes[-1].pop(last, None)
    for name, parent, child in reversed(list(zip(way, nodes, nodes[1:], strict=False))):
        if not child:
            parent.pop(name, None)
