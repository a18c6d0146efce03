"""The feature table of ARCHITECTURE.md names files, scripts, tests, defects and marks; each of them exists."""

import re
from pathlib import Path

from seeded.raft_bugs import BUGS
from sim.consensus.marks import MARKS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
TABLE = TEXT[TEXT.index("## What DLedger") : TEXT.index("## Decisions")]


def test_every_file_of_the_table_exists() -> None:
    named = set(re.findall(r"`((?:raft|replication)/\w+\.py)`", TABLE))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "broker" / "logherd" / name).exists()] == []


def test_every_test_of_the_table_exists() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert len(named) > 15
    assert [name for name in named if f"def {name}(" not in sources] == []


def test_every_script_defect_and_mark_of_the_table_exists() -> None:
    scripts = {path.stem for path in (ROOT / "tests" / "script" / "raft").glob("*.txt")}
    known = scripts | set(BUGS) | set(MARKS)
    last = "".join(row.rsplit("|", 2)[1] for row in TABLE.splitlines() if row.count("|") == 5)
    named = {name for name in re.findall(r"`([a-z0-9_-]+)`", last) if not name.startswith("test_")}
    assert len(named) > 20
    assert sorted(named - known) == []


def test_every_script_is_shown_in_the_table() -> None:
    scripts = {path.stem for path in (ROOT / "tests" / "script" / "raft").glob("*.txt")}
    assert sorted(name for name in scripts if f"`{name}`" not in TABLE) == []
