"""Print the part of requirements.lock that some parts of the project need, hashes included: images carry nothing else.

    python tools/locked_part.py [EXTRA | PACKAGE] ...

An extra brings its dependencies, `project` those of the project itself, a package itself; and all bring what they need.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"^([A-Za-z0-9._-]+)")


def plain(requirement: str) -> str:
    """The name in `kopf>=1.45,<2`, as lock files spell it."""
    found = _NAME.match(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} is no requirement")
    return found[1].lower().replace("_", "-").replace(".", "-")


def blocks(lock: str) -> dict[str, str]:
    """The lines of each locked package, by its name."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            name = plain(line)
        if name:
            found[name] = found.get(name, "") + line
    return found


def part(lock: str, wanted: Iterable[str]) -> str:
    """The blocks of `wanted` and of all that they need; a block says on whose account it is there ("via")."""
    known = blocks(lock)
    parents = {name: set(re.findall(r"#\s+(?:via )?([a-z0-9-]+)", text)) for name, text in known.items()}
    chosen = set(wanted)
    missing = chosen - known.keys()
    if missing:
        raise SystemExit(f"not in requirements.lock: {', '.join(sorted(missing))}")
    while True:
        more = {name for name, theirs in parents.items() if theirs & chosen} - chosen
        if not more:
            return "".join(text for name, text in known.items() if name in chosen)
        chosen |= more


def requirements(names: Iterable[str]) -> set[str]:
    """The packages that the arguments stand for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {**project["optional-dependencies"], "project": project["dependencies"]}
    return {plain(each) for name in names for each in extras.get(name, [name])}


if __name__ == "__main__":
    sys.stdout.write(part((ROOT / "requirements.lock").read_text(), requirements(sys.argv[1:])))
