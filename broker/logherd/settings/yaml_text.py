"""YAML with the safe constructors only, where a key that appears twice is an error and not a silent last-one-wins."""

from pathlib import Path
from typing import Any

import yaml

from logherd.settings.errors import SettingsError

__all__ = ["parse_yaml"]


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would let the last of two equal keys win."""


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
