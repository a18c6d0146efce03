"""Files of what a process is are read strictly: what is unknown is refused by name, not dropped with the next write."""

from pathlib import Path

import msgspec
import pytest

from logherd.store.files_os import OsFiles
from logherd.store.state_file import StateFileError, read_state


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    epoch: int


def read(directory: Path) -> Content | None:
    return read_state(OsFiles(), str(directory / "state.json"), Content, known=3)


def test_a_file_is_read_and_none_is_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "state.json").write_text('{"format":3,"epoch":7}')
    assert read(tmp_path) == Content(format=3, epoch=7)


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"format":4,"term":{}}', "is of format 4; this release knows 3"),
     ('{"format":2,"epoch":7}', "is of format 2; this release knows 3"),
     ('{"format":3,"epoch":7,"vote":1}', "damaged, or of a later release: Object contains unknown field `vote`"),
     ('{"format":3,"epoch":"7"}', "damaged, or of a later release: Expected `int`, got `str`"),
     ('{"format":"3","epoch":7}', "damaged, or of a later release: Expected `int`, got `str`"),
     ('{"format":3}', "damaged, or of a later release: Object missing required field `epoch`"),
     ("[3]", "damaged, or of a later release: Expected `object`, got `array`"),
     ('{"format":3,"epoch":', "is damaged: Input data was truncated"), ("", "is damaged: Input data was truncated"),
     ("\xff", "is damaged: "), ("[" * 100_000, "is damaged: ")],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StateFileError) as refusal:
        read(tmp_path)
    assert str(refusal.value).startswith(f"{path} ")
    assert why in str(refusal.value)
