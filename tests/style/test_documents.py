"""The documents say what is so: blocks run as printed, tables name real folders, generated pages are fresh."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logherd_operator.local.addresses import Ports, choose_ports
from style.console import Step, differences, masked, steps
from style.tree import ROOT, rooms

MARKS = re.compile(r'^  "(\w+): ', re.MULTILINE)


@pytest.fixture
def tour(tmp_path: Path) -> dict[str, str]:
    """An environment in which the README's commands find the examples, `logherd` and ports that nobody uses."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    ports = choose_ports("127.0.0.1", Ports(name_service=0, broker=0, admin=0))
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LOGHERD_NAME_SERVICE_PORT": str(ports.name_service),
        "LOGHERD_BROKER_PORT": str(ports.broker),
        "LOGHERD_ADMIN_PORT": str(ports.admin),
        "NAMESRV_ADDR": f"127.0.0.1:{ports.name_service}",
    }


@pytest.mark.timeout(600)
def test_the_blocks_of_the_readme_run_as_printed(tmp_path: Path, tour: dict[str, str]) -> None:
    try:
        assert differences((ROOT / "README.md").read_text(), tmp_path, tour) == []
    finally:
        subprocess.run(
            [Path(sys.executable).with_name("logherd"), "down"], cwd=tmp_path, capture_output=True, check=False
        )


def test_a_block_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    document = "```console\n$ echo one; echo two\none\n$ echo pid 12\npid 34\n$ true\n```\n"
    assert list(steps(document)) == [
        Step("echo one; echo two", "one\n"),
        Step("echo pid 12", "pid 34\n"),
        Step("true", ""),
    ]
    found = differences(document, tmp_path, os.environ)
    assert found == ["$ echo one; echo two\nshown:\none\n\nprinted:\none\ntwo\n"]


def test_only_what_differs_from_run_to_run_is_masked() -> None:
    assert masked("pid 1 at 127.0.0.1:2 id " + "A" * 32) == "pid <pid> at 127.0.0.1:<port> id <id>"
    assert masked("queue 0 offset 7") == "queue 0 offset 7"


def table_rows(document: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    section = document.partition(heading)[2]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    end = next((n for n, line in enumerate(section.splitlines()) if line.startswith("## ") and n > 1), None)
    if end is not None:
        lines = [line for line in section.splitlines()[:end] if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_of_rooms_names_exactly_the_rooms() -> None:
    rows = table_rows((ROOT / "ARCHITECTURE.md").read_text(), "## Rooms")
    assert sorted(row[0].rstrip("/") for row in rows) == sorted(rooms())


def test_a_table_with_a_missing_room_is_noticed() -> None:
    document = "## Rooms\n\n| a | b |\n| - | - |\n| `broker/logherd/kit/` | x |\n\n## Next\n\n| c |\n| - |\n| e |\n"
    assert [row[0] for row in table_rows(document, "## Rooms")] == ["broker/logherd/kit/"]


def test_the_table_of_test_folders_names_exactly_the_folders() -> None:
    rows = table_rows((ROOT / "tests/README.md").read_text(), "## Folders")
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and list(path.rglob("*.py"))]
    assert sorted(row[0].rstrip("/") for row in rows) == sorted(folders)


def test_the_table_of_marks_names_exactly_the_marks() -> None:
    rows = table_rows((ROOT / "tests/README.md").read_text(), "## Marks")
    project = (ROOT / "pyproject.toml").read_text()
    declared = MARKS.findall(project.partition("markers = [")[2].partition("]")[0])
    assert sorted(row[0] for row in rows) == sorted(declared)


@pytest.mark.parametrize("page", ["settings", "metrics"])
def test_the_page_is_as_generated(page: str) -> None:
    fresh = subprocess.run(
        [sys.executable, f"tools/{page}_page.py"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert (ROOT / f"docs/{page}.md").read_text() == fresh.stdout, "run: make docs"


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests/README.md"]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def anchors(document: str) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes it: the second of one name gets `-1`."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", document, flags=re.M | re.S), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
    found = [f"{name}-{again}" if (again := names[:n].count(name)) else name for n, name in enumerate(names)]
    return set(found)


def test_links_to_a_part_of_a_page_name_a_heading_of_it() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests/README.md"]
    broken = [
        f"{document.name}: {target}#{anchor}"
        for document in documents
        for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", document.read_text())
        if "://" not in target and anchor not in anchors((document.parent / target if target else document).read_text())
    ]
    assert broken == []


def test_a_heading_is_called_as_in_links() -> None:
    assert anchors("# A `b` c\n\n```\n# no\n```\n## A b, c\n## Don't\n") == {"a-b-c", "a-b-c-1", "dont"}


def wrong_settings(document: str, known: set[str]) -> set[str]:
    """Dotted names in code marks that begin as a setting does and are none, nor a part above settings."""
    parts = {key.rsplit(".", n)[0] for key in known for n in range(1, key.count(".") + 1)}
    owners = {key.partition(".")[0] for key in known if "." in key}
    said = re.findall(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)(?:: [^`]*)?`", document)
    ours = {name for name in said if name.partition(".")[0] in owners and not name.startswith("spark.sql.")}
    return {name for name in ours - known - parts if not name.endswith(".json")}


def test_every_setting_that_a_page_names_exists() -> None:
    known = {
        key.replace("[]", "") for key in re.findall(r"^\| `([^`]+)`", (ROOT / "docs/settings.md").read_text(), re.M)
    }
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    wrong = {(page.name, name) for page in pages for name in wrong_settings(page.read_text(), known)}
    assert wrong == {("operations.md", "replication.requests.read")}  # a part of GET /status


def test_a_setting_that_does_not_exist_is_noticed() -> None:
    known = {"store.retention.age", "flush"}
    assert wrong_settings("`store.retention.ages` `store.retention` `status.x` `flush: Sync`", known) == {
        "store.retention.ages"
    }


def test_every_direct_dependency_is_explained() -> None:
    project = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("]")[0]
    names = re.findall(r'"([a-z0-9-]+)', project)
    explained = [
        row[0].lower() for row in table_rows((ROOT / "ARCHITECTURE.md").read_text(), "## What we did not write")
    ]
    assert sorted(names) == sorted(explained)
