"""Each script about static mode must come out as it is written; `python -m script.rewrite` writes them anew."""

import pytest

from script.static.stage import SCRIPTS, play


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
def test_script_comes_out_as_written(name: str) -> None:
    (path,) = [path for path in SCRIPTS if path.stem == name]
    text = path.read_text()
    assert play(text) == text


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 5
