"""Size rules: functions, classes and files stay small; what was large when the rule came may only shrink."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles

from style.tree import Module

__all__ = [
    "FUNCTION_LINES_MAX",
    "Size",
    "class_fields",
    "file_faults",
    "function_lines",
    "ratchet_faults",
    "spread_faults",
]

FUNCTION_LINES_WANTED = 45
FUNCTION_LINES_MAX = 60
CLASS_FIELDS_WANTED = 12
CLASS_FIELDS_MAX = 20
FILE_LINES_MAX = 500
EXPLANATION = "Longer than 500 lines because"


@dataclass(frozen=True)
class Size:
    """How large one thing is; `name` is module:qualified.name."""

    name: str
    size: int


def function_lines(module: Module) -> Iterator[Size]:
    """Lines of every function without its docstring, decorators included."""
    for name, node in _named(module.tree, ast.FunctionDef, ast.AsyncFunctionDef):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
        yield Size(f"{module.name}:{name}", lines)


def class_fields(module: Module) -> Iterator[Size]:
    """Instance fields of every class: annotated in its body, or assigned to `self` in a method."""
    for name, node in _named(module.tree, ast.ClassDef):
        fields = {
            statement.target.id
            for statement in node.body
            if isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and "ClassVar" not in ast.unparse(statement.annotation)
        }
        fields.update(
            inner.attr
            for inner in ast.walk(node)
            if isinstance(inner, ast.Attribute)
            and isinstance(inner.ctx, ast.Store)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
        )
        yield Size(f"{module.name}:{name}", len(fields))


def ratchet_faults(sizes: Iterable[Size], *, wanted: int, hard_max: int, ratchet: dict[str, int]) -> list[str]:
    """What is too large, and entries of the ratchet that are no longer true.

    `ratchet` holds what is above `wanted` on purpose, with the size that it may not exceed; never above `hard_max`.
    """
    found = {size.name: size.size for size in sizes}
    faults = []
    for name, size in found.items():
        allowed = min(ratchet.get(name, wanted), hard_max)
        if size > allowed:
            faults.append(f"{name} has {size}, allowed are {allowed}")
    for name, allowed in ratchet.items():
        size = found.get(name, 0)
        if size < allowed:
            faults.append(f"{name} is in the ratchet with {allowed} and now has {size}: lower the ratchet")
        elif allowed <= wanted:
            faults.append(f"{name} needs no place in the ratchet")
    return faults


def spread_faults(sizes: Iterable[Size]) -> list[str]:
    """The house as a whole: a median of at most 10 lines, 95 of 100 functions within 45."""
    lines = [size.size for size in sizes]
    faults = []
    if median(lines) > 10:
        faults.append(f"the median function has {median(lines)} lines, wanted are at most 10")
    if (high := quantiles(lines, n=100)[94]) > FUNCTION_LINES_WANTED:
        faults.append(f"the 95th percentile of functions has {high} lines, wanted are at most {FUNCTION_LINES_WANTED}")
    return faults


def file_faults(module: Module) -> list[str]:
    """A long file explains itself in its header."""
    lines = module.text.count("\n")
    if lines > FILE_LINES_MAX and EXPLANATION not in (ast.get_docstring(module.tree) or ""):
        return [f"{module.path} has {lines} lines and no sentence in its header: {EXPLANATION} ..."]
    return []


def _named(tree: ast.Module, *kinds: type[ast.AST]) -> Iterator[tuple[str, ast.stmt]]:
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, parent = stack.pop()
        for node in ast.iter_child_nodes(parent):
            name = prefix
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{node.name}" if prefix else node.name
                if isinstance(node, kinds):
                    yield name, node
            stack.append((name, node))
