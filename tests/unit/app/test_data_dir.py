"""What `dataDir` names is a folder, or a sentence says what it is not."""

from pathlib import Path

import pytest

from logherd.app.data_dir import NoDataDir, make_data_dir


def test_the_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    made = make_data_dir(f"{tmp_path}/a/b")
    assert made.is_dir()
    assert make_data_dir(f"{tmp_path}/a/b") == made


@pytest.mark.parametrize("name", ["file", "file/below", "loop"])
def test_a_file_is_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NoDataDir, match=f"^dataDir: {tmp_path}/{name} is not right: it, or .* is no folder; name one,"):
        make_data_dir(f"{tmp_path}/{name}")


def test_a_folder_that_cannot_be_made_is_told_with_the_reason() -> None:
    with pytest.raises(NoDataDir, match=r"^dataDir: /proc/nothing is not right: it cannot be made: No such file"):
        make_data_dir("/proc/nothing")
