"""From the text of a YAML or JSON document to a BrokerGroup, or to sentences that say what is wrong with it.

Safe constructors only; a key that appears twice is an error; exactly one document.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup
from logherd_operator.spec.unsupported import not_yet
from logherd_operator.spec.words import found_and_right, place
from logherd_operator.spec.yaml_text import parse_yaml

__all__ = ["parse_group", "parse_runnable", "runnable_group"]

_TEXT_LENGTH_MAX = 1 << 20


def parse_group(text: str, *, source: str) -> BrokerGroup:
    """The group in `text`; `source` names the text in messages.

    Raises: SpecError, with one line for each fault.
    """
    if len(text) > _TEXT_LENGTH_MAX:
        raise SpecError(f"{source}: has {len(text)} characters; a BrokerGroup has at most {_TEXT_LENGTH_MAX}")
    document = parse_yaml(text, source=source)
    if not isinstance(document, dict):
        found = {type(None): "nothing", list: "a list", str: "a text"}.get(type(document), repr(document))
        raise SpecError(f"{source}: should hold a BrokerGroup object, and holds {found}")
    return _validated(document, source)


def _validated(document: Mapping[str, Any], source: str) -> BrokerGroup:
    try:
        return BrokerGroup.model_validate(document)
    except ValidationError as error:
        lines = [_line(fault) for fault in error.errors(include_url=False)]
        raise SpecError("\n".join([f"{source}: the BrokerGroup is wrong", *lines])) from error


def parse_runnable(text: str, *, source: str) -> BrokerGroup:
    """As `parse_group`, for a cluster. Raises: SpecError also for a value that nothing in this version acts on."""
    return _runnable(parse_group(text, source=source), source)


def runnable_group(document: Mapping[str, Any], *, source: str) -> BrokerGroup:
    """As `parse_runnable`, of an object as the API server has it. It may be large, and 1 MiB of YAML takes 20 s, in
    which nobody renews a lease. Keeps what is free in it, which is not to be changed. Raises: SpecError.
    """
    return _runnable(_validated(document, source), source)


def _runnable(group: BrokerGroup, source: str) -> BrokerGroup:
    lines = not_yet(group)
    if lines:
        raise SpecError("\n".join([f"{source}: this version cannot run it", *lines]))
    return group


def _line(fault: Any) -> str:
    path = place(fault)
    if fault["type"] == "extra_forbidden":
        return f"{path}: unknown key; {_known_keys([str(part) for part in fault['loc']])}"
    if fault["type"] == "missing":
        return f"{path}: missing; it has no default"
    quotes = fault["type"] == "literal_error" and isinstance(fault["input"], bool)
    hint = "; YAML reads a bare On or Off as a truth value, so put it in quotes" if quotes else ""
    return f"{path}: {found_and_right(fault)}{hint}"


def _known_keys(location: list[str]) -> str:
    model: type[BaseModel] = BrokerGroup
    for part in location[:-1]:
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        inner = None if field is None else _model_in(field.annotation)
        model = inner or model
    known = [field.alias or name for name, field in model.model_fields.items()]
    close = get_close_matches(location[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation such as `X`, `X | None` or `tuple[X, ...]` holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
