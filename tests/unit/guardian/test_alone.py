"""The guardian and a broker's half of it load the standard library and nothing large."""

import subprocess
import sys

import pytest

LARGE = {
    "argparse", "asyncio", "contextlib", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "threading",
    "typing", "unicodedata",
}  # fmt: skip


def loaded_by(module: str) -> set[str]:
    """Names of top-level modules that importing it loads, beyond those of a bare interpreter."""
    code = f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return {name.partition(".")[0] for name in answer.stdout.split()}


@pytest.mark.parametrize("module", ["logherd_guardian.__main__", "logherd_guardian.child"])
def test_only_the_standard_library_is_loaded(module: str) -> None:
    loaded = loaded_by(module)
    assert "logherd_guardian" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"logherd_guardian"}


def test_nothing_large_is_loaded() -> None:
    assert loaded_by("logherd_guardian.entry") & LARGE == set()


def test_the_childs_side_loads_none_of_the_guardians_machinery() -> None:
    code = "import sys, logherd_guardian.child; print(*(name for name in sys.modules if 'guardian' in name))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    names = {name.rpartition(".")[2] for name in answer.stdout.split()}
    assert names == {"logherd_guardian", "child", "clock", "page", "proxy", "values"}
