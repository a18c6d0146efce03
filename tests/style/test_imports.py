"""Who imports whom, and what nobody imports."""

import subprocess
import sys
import tomllib
from pathlib import Path

from style.reach import dead_modules, imported_names
from style.tree import ROOT, Module, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lint_imports(*options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


# Pure cores whose process is still to be built, and their log on files (raftlog), which that process will open. Until
# then the simulator is what runs them (and, for a controller's requests, the test that sends each of them); what these
# do not reach is dead all the same. Take a room out when `logherd.app` imports it.
SIMULATED = (
    "logherd_operator.cluster",
)  # fmt: skip
RUNNERS = (
    "sim/**/*.py", "script/**/*.py", "unit/service/controllers/*.py", "unit/operator_*/*.py", "contract/*.py",
)  # fmt: skip


def simulated() -> set[str]:
    known = {module.name: module for module in modules()}
    found: set[str] = set()
    for pattern in RUNNERS:
        for path in (ROOT / "tests").glob(pattern):
            found |= imported_names(Module(path.stem, str(path), path.read_text()), known)
    return {name for name in found if name.startswith(SIMULATED)}


def roots() -> set[str]:
    points = [*PROJECT["scripts"].values()]
    points += [target for group in PROJECT["entry-points"].values() for target in group.values()]
    return (
        {point.partition(":")[0] for point in points}
        | {module.name for module in modules() if module.name.endswith(".__main__")}
        | {"pyspark_logherd"}  # found by Spark, by its name
        | simulated()
    )


def test_the_import_contracts_are_kept() -> None:
    answer = lint_imports()
    assert answer.returncode == 0, answer.stdout


def test_a_broken_import_contract_is_noticed(tmp_path: Path) -> None:
    # The real packages under a contract that they cannot keep.
    config = tmp_path / "contracts.ini"
    config.write_text(
        "[importlinter]\nroot_package = logherd\n[importlinter:contract:no]\nname = no\ntype = forbidden\n"
        "source_modules = logherd.settings\nforbidden_modules = logherd.kit\n"
    )
    answer = lint_imports("--config", str(config))
    assert answer.returncode != 0
    assert "BROKEN" in answer.stdout


def test_every_room_stands_in_an_exhaustive_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = {contract["containers"][0]: contract for contract in contracts if contract["type"] == "layers"}
    assert set(layered) == {"logherd", "logherd_guardian", "logherd_operator", "logherd_spark"}
    assert all(contract["exhaustive"] for contract in layered.values())


def test_no_module_is_dead() -> None:
    assert dead_modules(modules(), roots()) == []


def test_a_dead_module_is_noticed() -> None:
    tree = [
        Module("a", "a/__init__.py", ""),
        Module("a.entry", "a/entry.py", "def f():\n    from a.used import x\n"),
        Module("a.used", "a/used.py", "from a.deep import inner\n"),
        Module("a.deep", "a/deep/__init__.py", ""),
        Module("a.deep.inner", "a/deep/inner.py", ""),
        Module("a.dead", "a/dead.py", "import a.used\n"),
    ]
    assert dead_modules(tree, ["a.entry"]) == ["a.dead"]
