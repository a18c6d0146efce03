"""Files of what a process is are read strictly: what is unknown is refused by name, not dropped with the next write."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from logherd.store.files_os import OsFiles
from logherd.store.format_file import newest_segment_size
from logherd.store.state_file import StateFileError, read_state
from unit.store.bad_disk import BadFiles


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


@pytest.mark.parametrize("error", [errno.EIO, errno.ENODATA, errno.EILSEQ])
def test_what_the_disk_does_not_give_is_refused_by_name(tmp_path: Path, error: int) -> None:
    files, path = BadFiles(error), tmp_path / "state.json"
    path.write_text('{"format":3,"epoch":7}')
    files.lose(str(path), 0)
    with pytest.raises(StateFileError, match=f"^{path} cannot be read: {os.strerror(error)}$"):
        read_state(files, str(path), Content, known=3)


def test_no_other_error_says_anything_of_the_file(tmp_path: Path) -> None:
    files, path = BadFiles(errno.ENOMEM), tmp_path / "state.json"
    path.write_text('{"format":3,"epoch":7}')
    files.lose(str(path), 0)
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        read_state(files, str(path), Content, known=3)


def test_of_a_format_file_that_the_disk_does_not_give_the_opening_of_the_store_tells(tmp_path: Path) -> None:
    """A replica asks before that how long the files of its log are."""
    files, path = BadFiles(), tmp_path / "store.json"
    path.write_text("{}")
    files.lose(str(path), 0)
    assert newest_segment_size(files, str(tmp_path)) is None
