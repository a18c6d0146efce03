"""YAML with the safe constructors only, where a key that appears twice is an error and not a silent last-one-wins.

Broker and operator have it each, for they share no code; `tests/contract` holds the two alike.
"""

from itertools import chain
from typing import Any

import yaml

from logherd_operator.spec.errors import SpecError

__all__ = ["parse_yaml"]

_NODES_MAX = 1 << 20
_SAID = (
    (r"found character '\t'", "a tab stands here; indent with spaces"),
    ("found character", "nothing begins with this character; put a text with it in quotes"),
    ("could not find expected ':'", "a key should have ': ' and its value behind it"),
    ("sequence entries are not allowed", "a list in lines should begin on the line below its key"),
    ("mapping keys are not allowed", "a key should begin on a line of its own"),
    ("mapping values are not allowed", "no key can stand here; indent keys alike, and put a text with ': ' in quotes"),
    ("expected <block end>", "the line should be indented as those that it belongs to"),
    ("expected ',' or ']'", "a list in [ ] should have ',' between its values and ']' at its end"),
    ("expected ',' or '}'", "keys in { } should have ',' between them and '}' at their end"),
    ("expected the node content", "a value should stand here, and each bracket have its counterpart"),
    ("found unexpected end of stream", "the quotes should be closed before the end"),
    ("found unexpected document separator", "the quotes should be closed before the document's end"),
    ("found unknown escape character", "in double quotes write \\\\ for a backslash, or use single quotes"),
    ("expected escape sequence", "in double quotes write \\\\ for a backslash, or use single quotes"),
    ("but found another document", "there should be one document, and a second one begins here"),
    ("expected '<document start>'", "one document should stand here, and it ends before this"),
    ("found undefined alias", "a name behind * should stand behind & before; put a text in quotes"),
    ("second occurrence", "a name with & should be given once"),
    ("expected chomping", "nothing but a comment should stand behind | and >"),
    ("could not determine a constructor for the tag 'tag:yaml.org,2002:m", "<< is no key here; write its keys out"),
    ("could not determine a constructor", "no value has this tag; leave it out, or put a text in quotes"),
    ("found unconstructable recursive node", "a value should not hold itself"),
)  # fmt: skip
"""What the library says of a place begins so, and what it should be there."""


class _FaultError(yaml.MarkedYAMLError):
    """In our own words."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would let the last of two equal keys win, and a few aliases fill all memory."""

    def get_single_node(self) -> yaml.Node | None:
        """The document, if it is not much more than its text."""
        try:
            node = super().get_single_node()
        except (ValueError, OverflowError) as error:
            raise _FaultError("there is no such character or number", self.get_mark()) from error
        if node is not None and _weight(node, {}) > _NODES_MAX:
            problem = f"with what its aliases repeat it has more than {_NODES_MAX} values"
            raise _FaultError(problem, node.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value. What is no such time or number, Python's own types refuse, each in its own way."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            problem = "there is no such number, time or truth value; put a text in quotes"
            raise _FaultError(problem, node.start_mark) from error


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
        if not isinstance(key_node, yaml.ScalarNode):
            problem = "a key should be a text, in quotes where it begins with [ or {"
            raise _FaultError(problem, key_node.start_mark)
        key = key_node.value
        if key in seen:
            raise _FaultError(f"the key {key} appears twice", key_node.start_mark)
        seen.add(key)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_yaml(text: str, *, source: str) -> Any:
    """The document in `text`; `source` is only for messages.

    Raises: SpecError with line and column for anything that is not one plain YAML document.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 -- derives from SafeLoader
    except yaml.MarkedYAMLError as error:
        raise SpecError(f"{source}: {_place(error.problem_mark)}{_plain(error)}") from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        raise SpecError(f"{source}: line {line}, column {column}: a text has no such character") from error
    except RecursionError as error:
        raise SpecError(f"{source}: is not YAML: it is nested too deeply") from error


def _place(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _plain(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if isinstance(error, _FaultError):
        return problem
    return next((said for begin, said in _SAID if problem.startswith(begin)), "what stands here is not YAML")
