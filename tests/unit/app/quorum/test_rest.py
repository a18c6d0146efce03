"""What a member leaves for its next life is believed once, on the boot that it was written on, and never else."""

import json
from pathlib import Path

import pytest

from logherd.app import clock
from logherd.app.clock import boot_ms
from logherd.app.quorum.rest import leave_word, take_word


def test_the_word_is_taken_once(tmp_path: Path) -> None:
    before = boot_ms()
    leave_word(tmp_path)
    taken = take_word(tmp_path)
    assert taken is not None
    assert before <= taken <= boot_ms()
    assert take_word(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_word_nobody_knows(tmp_path: Path) -> None:
    assert take_word(tmp_path) is None


def test_another_boot_has_another_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_word(tmp_path)
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "boot")
    assert take_word(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": 1}', '{"boot": 1, "at": "x"}'])
def test_what_cannot_be_understood_is_no_word(tmp_path: Path, text: str) -> None:
    (tmp_path / "silent-since.json").write_text(text)
    assert take_word(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_time_that_has_not_come_is_no_word(tmp_path: Path) -> None:
    leave_word(tmp_path)
    path = tmp_path / "silent-since.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "at": boot_ms() + 60_000}))
    assert take_word(tmp_path) is None


def test_where_nothing_can_be_written_the_stop_goes_on(tmp_path: Path) -> None:
    leave_word(tmp_path / "is not there")
