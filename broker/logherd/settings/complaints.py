"""Says what is wrong with a document in sentences: path, value, what is right."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from logherd.settings.words import found_and_right, place

__all__ = ["complain"]


def complain(model: type[BaseModel], error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """One line for each fault, in the order of the document: `store.segmentSize: '1': should be ...`.

    `names`: what a person calls some of the paths.
    """
    return "\n".join(_line(model, fault, names or {}) for fault in error.errors(include_url=False))


def _line(model: type[BaseModel], fault: Any, names: Mapping[str, str]) -> str:
    path = place(fault)
    path = names.get(path, path)
    if fault["type"] == "extra_forbidden":
        return f"{path}: unknown key; {_known_keys(model, [str(part) for part in fault['loc']])}"
    if fault["type"] == "missing":
        return f"{path}: missing; it has no default"
    return f"{path}: {found_and_right(fault)}"


def _known_keys(model: type[BaseModel], location: list[str]) -> str:
    group: type[BaseModel] = model
    for part in location[:-1]:
        if part.isdigit():  # a place in the list of groups that was entered by its key
            continue
        inner = next((f.annotation for f in group.model_fields.values() if f.alias == part), None)
        inner = next(iter(get_args(inner)), inner)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        group = inner
    known = [field.alias or name for name, field in group.model_fields.items()]
    close = get_close_matches(location[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
