"""The files that the rules look at, parsed once."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["PACKAGES", "ROOT", "Module", "modules", "rooms", "tracked_files"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "logherd": ROOT / "broker/logherd",
    "logherd_guardian": ROOT / "broker/logherd_guardian",
    "logherd_operator": ROOT / "operator/logherd_operator",
    "logherd_spark": ROOT / "spark/logherd_spark",
    "pyspark_logherd": ROOT / "spark/pyspark_logherd",
}


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name (a file's path outside the packages), its text, its syntax tree."""

    name: str
    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.text)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the packages, sorted by name."""
    return tuple(sorted(_modules(), key=lambda module: module.name))


def _modules() -> Iterator[Module]:
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield Module(name, str(path.relative_to(ROOT)), path.read_text())


@cache
def rooms() -> tuple[str, ...]:
    """Folders with an `__init__.py` directly under a package, as paths from the root; or the package, if none."""
    found = []
    for folder in PACKAGES.values():
        found += [path.parent for path in folder.glob("*/__init__.py")] or [folder]
    return tuple(sorted(str(path.relative_to(ROOT)) for path in found))


@cache
def tracked_files() -> tuple[Path, ...]:
    """Text files that a commit of this tree would hold: known to git, or not ignored by it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return tuple(ROOT / name for name in sorted(set(names)) if name and (ROOT / name).is_file())
