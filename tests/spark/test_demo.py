"""`make demo` on a slice of its flights: Spark, three brokers, the death of their leader, the table and the page."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = 30_000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What it printed, told and drew; and the folder in which its group was."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "group").mkdir()
    done = subprocess.run(
        [sys.executable, ROOT / "tools/demo.py", "--rows", str(ROWS), "--json", "told.json"],
        cwd=folder, env={**os.environ, "TMPDIR": str(folder / "group")}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + (folder / "flights.log").read_text()[-3000:]
    return {
        "printed": done.stdout, "told": json.loads((folder / "told.json").read_text()),
        "page": (folder / "flights.html").read_text(), "folder": folder / "group",
    }  # fmt: skip


@pytest.mark.timeout(600)
def test_every_flight_arrives_once_and_in_order(demo: dict[str, Any]) -> None:
    told = demo["told"]
    assert (told["sent"], told["stored"]) == (ROWS, ROWS)
    assert (told["lost"], told["duplicated"], told["misplaced"]) == (0, 0, 0)
    assert "rows stored" in demo["printed"]
    assert f"{ROWS:,}" in demo["printed"]


@pytest.mark.timeout(600)
def test_the_leader_died_in_the_middle_and_another_one_stored_the_rest(demo: dict[str, Any]) -> None:
    kill = demo["told"]["kill"]
    assert kill["new"]["epoch"] > kill["old"]["epoch"]
    assert kill["new"]["pid"] != kill["old"]["pid"]
    assert 0 < kill["rows_before"] < ROWS
    assert 0 < demo["told"]["storedAfterKill"] < ROWS
    assert demo["told"]["outage"] > 0


@pytest.mark.timeout(600)
def test_the_page_shows_the_table_and_two_drawings(demo: dict[str, Any]) -> None:
    page = ElementTree.fromstring(demo["page"].removeprefix("<!doctype html>\n"))
    cells = [[cell.text for cell in row] for row in page.iter("tr")]
    assert ["rows stored", f"{ROWS:,}"] in cells
    assert len(cells) > len(["sent", "stored", "lost", "duplicated", "out of order", "outage"])
    stored, late = page.iter("svg")
    assert any(text.text == "leader killed" for text in stored.iter("text"))
    assert list(stored.iter("rect"))
    assert len(list(late.iter("polyline"))) == demo["told"]["routes"]


@pytest.mark.timeout(600)
def test_nothing_is_left_of_its_group(demo: dict[str, Any]) -> None:
    assert list(demo["folder"].glob("logherd-demo-*")) == []
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [each for each in running if str(demo["folder"]).encode() in each]


def test_java_is_asked_for_in_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/bash", ROOT / "tools/need", "java"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    asked = "This needs a Java runtime, version 17 or newer (on Debian: apt install openjdk-17-jre-headless).\n"
    assert done.stderr == asked
