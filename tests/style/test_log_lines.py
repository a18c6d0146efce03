"""What the pages say of log lines and metrics is what the code writes."""

import re

from style.tree import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
METRICS = re.compile(r"^\| `([a-z_]+)` \| (?:gauge|counter|histogram) \|", re.MULTILINE)


def test_every_log_line_of_the_page_about_changes_of_leader_is_written_somewhere() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.split("## A change of leader in the logs", 1)[1].split("\n## ", 1)[0]
    rows = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    lines = [line for row in rows for line in re.findall(r"`([^`]+)`", row)]
    assert len(lines) >= 12
    code = "".join(path.read_text() for path in sorted((ROOT / "broker").rglob("*.py")))
    assert [line for line in lines if not re.search(rf"""\(\s*f?"{line}[":]""", code)] == []


def test_every_metric_that_a_page_names_is_documented() -> None:
    known = set(METRICS.findall((ROOT / "docs" / "metrics.md").read_text()))
    packages = {path.name for part in ("broker", "operator", "spark") for path in (ROOT / part).iterdir()}
    named = {name for page in PAGES for name in re.findall(r"\blogherd_[a-z_]+", page.read_text())} - packages
    parts = re.compile(r"_(bucket|sum|count)$")
    assert len(known) > 50
    assert sorted(name for name in named if not {name, parts.sub("", name)} & known) == []
