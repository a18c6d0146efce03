"""An invariant that holds is silent; one that does not stops, also under `python -O`."""

import subprocess
import sys

import pytest

from logherd.kit.errors import InvariantError, LogHerdError, ensure


def test_a_rule_that_holds_is_silent() -> None:
    ensure(True, "numbers are numbers")  # noqa: FBT003


def test_a_broken_rule_names_itself_and_its_values() -> None:
    with pytest.raises(InvariantError, match=r"^the end is not before the start: \(5, 3\)$"):
        ensure(3 > 5, "the end is not before the start", 5, 3)
    with pytest.raises(InvariantError, match=r"^never$"):
        ensure(3 > 5, "never")


def test_nobody_handles_a_broken_rule_by_accident() -> None:
    assert not issubclass(InvariantError, LogHerdError)


def test_optimisation_does_not_remove_the_check() -> None:
    code = "from logherd.kit.errors import ensure; ensure(False, 'kept')"
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "InvariantError: kept" in run.stderr
