"""How much memory the process can have: the least limit of all control groups that it is in."""

from pathlib import Path

import pytest

from logherd.app.memory import BUFFERS_MAX, buffers_for, granted_memory

MIB = 1 << 20


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def granted(folder: Path, own: str) -> int:
    write(folder / "own", own)
    return granted_memory(folder / "own", folder / "root")


def test_without_control_groups_it_is_the_machine_s(tmp_path: Path) -> None:
    machine = granted_memory(tmp_path / "nothing", tmp_path)
    assert machine > 64 * MIB
    assert granted(tmp_path, "0::/\n") == machine


@pytest.mark.parametrize(("own", "name"), [
    ("0::/pods/a\n", "memory.max"), ("1:name=systemd:/x\n9:cpu,memory:/pods/a\n0::/\n", "memory/memory.limit_in_bytes"),
])  # fmt: skip
def test_a_container_sees_its_own_limit_at_the_root(tmp_path: Path, own: str, name: str) -> None:
    write(tmp_path / "root" / name, f"{48 * MIB}\n")
    assert granted(tmp_path, own) == 48 * MIB


def test_the_least_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    for path, limit in (("pods/a", "max"), ("pods", str(32 * MIB)), ("", str(64 * MIB)), ("other", str(MIB))):
        write(tmp_path / "root" / path / "memory.max", limit + "\n")
    assert granted(tmp_path, "0::/pods/a\n") == 32 * MIB


def test_what_cannot_be_read_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path / "root/memory.max", "a lot\n")
    assert granted(tmp_path, "0::/\n") > 64 * MIB


@pytest.mark.parametrize(("most", "buffers"), [
    (8 * MIB, 16 * MIB), (256 * MIB, 64 * MIB), (1024 * MIB, 256 * MIB), (64_000 * MIB, BUFFERS_MAX),
])  # fmt: skip
def test_a_quarter_of_it_is_for_clients(most: int, buffers: int) -> None:
    assert buffers_for(most) == buffers
