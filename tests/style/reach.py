"""Which modules a running program can ever import, found without running it."""

import ast
from collections.abc import Iterable, Mapping

from style.tree import Module

__all__ = ["dead_modules", "imported_names"]


def imported_names(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Modules of `known` that `module` imports anywhere in its text, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in found if name in known}


def dead_modules(modules: Iterable[Module], roots: Iterable[str]) -> list[str]:
    """Modules that no chain of imports reaches from `roots`. Importing a module also runs the packages above it."""
    known = {module.name: module for module in modules}
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in known:
            continue
        reached.add(name)
        parent = name.rpartition(".")[0]
        waiting.extend([parent, *imported_names(known[name], known)])
    return sorted(set(known) - reached)
