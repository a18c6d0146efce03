"""The recorder's files: what was written comes back, and what is torn, missing or contradictory is refused."""

from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.operations import HistoryDamaged, Recorder, read_operations


def recorded(path: Path) -> Path:
    with Recorder(path, process=3) as recorder:
        recorder.invoke("write", "k", {"value": "a"})
        recorder.answered(Outcome.OK)
        recorder.invoke("read", "k", {})
        recorder.answered(Outcome.OK, {"value": "a"})
        recorder.invoke("write", "k", {"value": "b"}, attempt=2)
    return path


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    first, second, third = read_operations([recorded(tmp_path / "h")])
    assert (first.process, first.key, first.name, first.outcome) == (3, "k", "write", Outcome.OK)
    assert first.returned is not None
    assert first.called <= first.returned <= second.called
    assert second.answer == {"value": "a"}
    assert (third.outcome, third.returned) == (Outcome.UNKNOWN, None), "a client that died leaves its request open"


def test_an_unknown_outcome_never_returns(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", process=1) as recorder:
        recorder.invoke("write", "k", {"value": "a"})
        recorder.answered(Outcome.UNKNOWN)
    assert read_operations([tmp_path / "h"])[0].returned is None


def test_outcomes_are_counted_while_they_come(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", process=1) as recorder:
        recorder.invoke("write", "k", {"value": "a"})
        recorder.answered(Outcome.FAILED)
        assert recorder.outcomes == {("write", Outcome.FAILED): 1}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: text.replace('"ph":"invoke"', '"ph":"in', 1),
        lambda text: text + text.splitlines()[1] + "\n",
        lambda text: "".join(line + "\n" for line in text.splitlines()[1:]),
        lambda text: text.replace('"t"', '"x"', 1).replace('"k"', '"y"'),
    ],
    ids=["empty", "torn", "cut inside", "answered twice", "answered before it was asked", "fields missing"],
)
def test_a_damaged_history_is_refused(tmp_path: Path, damage: object) -> None:
    path = recorded(tmp_path / "h")
    assert callable(damage)
    path.write_text(damage(path.read_text()))
    with pytest.raises(HistoryDamaged):
        read_operations([path])


def test_a_missing_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryDamaged):
        read_operations([tmp_path / "absent"])
    with pytest.raises(HistoryDamaged):
        read_operations([])
