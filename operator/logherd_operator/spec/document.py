"""From the text of a YAML or JSON document to a BrokerGroup, or to sentences that say what is wrong with it.

Safe constructors only; a key that appears twice is an error; exactly one document.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup
from logherd_operator.spec.unsupported import not_yet
from logherd_operator.spec.words import found_and_right, place

__all__ = ["parse_group", "parse_runnable", "runnable_group"]

_TEXT_LENGTH_MAX = 1 << 20


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would let the last of two equal keys win, and a few aliases fill all memory."""

    def get_single_node(self) -> yaml.Node | None:
        """The document, if it is not much more than its text."""
        node = super().get_single_node()
        if node is not None and _weight(node, {}) > _TEXT_LENGTH_MAX:
            problem = f"with what its aliases repeat it has more than {_TEXT_LENGTH_MAX} values"
            raise yaml.composer.ComposerError(problem=problem, problem_mark=node.start_mark)
        return node


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values this is, those counted again that an alias repeats."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 1  # of one that holds itself the constructor complains
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] += sum(_weight(each, known) for each in parts)
    return known[id(node)]


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        key = str(key_node.value)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                problem=f"the key {key} appears twice", problem_mark=key_node.start_mark
            )
        seen.add(key)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_group(text: str, *, source: str) -> BrokerGroup:
    """The group in `text`; `source` names the text in messages.

    Raises: SpecError, with one line for each fault.
    """
    document = _parse_yaml(text, source)
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


def _parse_yaml(text: str, source: str) -> Any:
    if len(text) > _TEXT_LENGTH_MAX:
        raise SpecError(f"{source}: has {len(text)} characters; a BrokerGroup has at most {_TEXT_LENGTH_MAX}")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 -- derives from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SpecError(f"{source}: {where}{error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError) as error:
        # What is no such time or number, or a list as a key, Python's own types refuse, each in its own way.
        raise SpecError(f"{source}: is not YAML: {error}") from error


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
