"""Each `.txt` here is a transcript that must come out as it is written.

`PYTHONPATH=broker:tests python -m script.rewrite` writes them anew; the difference is then reviewed like
code.
"""

from pathlib import Path

import pytest

from script.controller.stage import play

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
def test_script_comes_out_as_written(name: str) -> None:
    (path,) = [path for path in SCRIPTS if path.stem == name]
    text = path.read_text()
    assert play(text) == text


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 10
