"""YAML with the safe constructors only, where a key that appears twice is an error and not a silent last-one-wins."""

from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from logherd.settings.errors import SettingsError

__all__ = ["parse_yaml"]

_NODES_MAX = 1 << 20


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would let the last of two equal keys win, and a few aliases fill all memory."""

    def get_single_node(self) -> yaml.Node | None:
        """The document, if it is not much more than its text."""
        node = super().get_single_node()
        if node is not None and _weight(node, {}) > _NODES_MAX:
            problem = f"with what its aliases repeat it has more than {_NODES_MAX} values"
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
            mark = key_node.start_mark
            raise yaml.constructor.ConstructorError(problem=f"the key {key} appears twice", problem_mark=mark)
        seen.add(key)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_yaml(path: Path, data: bytes) -> Any:
    """The document in `data`; `path` is only for messages.

    Raises: SettingsError with line and column for anything that is not one plain YAML document.
    """
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506 -- derives from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{path}: {where}{error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError) as error:
        # What is no such time or number, or a list as a key, Python's own types refuse, each in its own way.
        raise SettingsError(f"{path}: is not YAML: {error}") from error
