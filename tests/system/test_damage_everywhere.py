"""Damage that all brokers of a group have: what docs/stores.md says of that, done with its commands."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from checkers.history import Outcome
from logherd.store import StoreDamaged
from logherd.store.damage_note import note_damage
from logherd.store.files_os import OsFiles
from system.blocking import BlockingClient
from system.local_group import FREE, LOGHERD, LocalGroup, await_true

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]

MESSAGES, BYTES = 120, 60_000
"""More than one file of 4 MiB."""
SPOILT = 20
NUMBERS = (1, 2, 3)


def store(group: LocalGroup, number: int) -> Path:
    return group.data / f"broker-{number}"


def first_file(group: LocalGroup, number: int) -> Path:
    return store(group, number) / "commitlog" / f"{0:020d}"


def fill(group: LocalGroup) -> None:
    host, _, port = group.settle(1, 3)["leader"]["address"].rpartition(":")
    with closing(BlockingClient(int(port), host=host)) as client:
        for number in range(MESSAGES):
            assert client.send("Fill", 0, f"fill-{number}", padding=BYTES).outcome is Outcome.OK


def read(group: LocalGroup, *, count: int) -> list[str]:
    """The beginnings of the first messages."""
    received = group.client("receive", "Fill", "--from", "first", "--count", str(count), "--wait", "30")
    return [line.split(" ", 1)[1].partition(".")[0] for line in received.stdout.splitlines()]


def spoil(group: LocalGroup) -> bytes:
    """In the first file of all stores one message, which each of them has met; the file as it was."""
    sound = first_file(group, 1).read_bytes()
    for number in NUMBERS:
        path, root = first_file(group, number), str(store(group, number))
        assert path.read_bytes() == sound
        at = sound.index(f"fill-{SPOILT}.".encode()) + 100
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"\x55" * 4)
        note_damage(OsFiles(), root, StoreDamaged(str(path), at, "spoilt", root))
    return sound


@contextmanager
def waiting_up(group: LocalGroup) -> Iterator["subprocess.Popen[str]"]:
    """`logherd up` in another terminal: the group does not serve, so it waits."""
    command = [LOGHERD, "up", "-f", str(group.file), *FREE, "--wait", "600", "--data", str(group.data)]
    with subprocess.Popen(command, cwd=group.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        try:
            yield up
        finally:
            group.logherd("down", "--wait", "5")
            up.communicate(timeout=60)


def all_heal_in_vain(group: LocalGroup) -> None:
    """And it is told, though four of the seven places are empty: by the brokers' own words, and in their logs."""

    def told() -> bool:
        status = group.status()
        logs = [(group.data / f"broker-{number}.log").read_text().splitlines() for number in NUMBERS]
        nobody = ["no broker of this group has what is damaged here" in log[-1] for log in logs]
        both = [log[-1].count("damaged here, too") for log in logs]
        healing = [each["role"] for each in status["brokers"]] == ["healing"] * 3
        return healing and all(nobody) and both == [2, 2, 2]

    await_true(told, lambda: group.logherd("status").stdout)
    faults = [str(each["why"]) for each in group.status()["brokers"]]
    assert all("no broker of its group has that whole" in each for each in faults), faults


@pytest.mark.parametrize("replication", ["", "{mode: Raft}"])
def test_bytes_from_a_copy_heal_all_of_them_without_loss(tmp_path: Path, replication: str) -> None:
    with LocalGroup(tmp_path, replication=replication) as group:
        assert group.up().returncode == 0
        fill(group)
        assert group.logherd("down").returncode == 0
        sound = spoil(group)
        with waiting_up(group):
            all_heal_in_vain(group)
        first_file(group, 2).write_bytes(sound)
        up = group.up()
        assert up.returncode == 0, up.stderr
        group.settle(1, 3)
        assert read(group, count=MESSAGES) == [f"fill-{number}" for number in range(MESSAGES)]
        assert group.logherd("down").returncode == 0
        assert {first_file(group, number).read_bytes() for number in NUMBERS} == {sound}


@pytest.mark.parametrize("left", [False, True], ids=["moved away", "left where they are"])
def test_what_nobody_has_is_given_up_by_name_and_the_rest_goes_on(tmp_path: Path, *, left: bool) -> None:
    """The stores of the others, which wait for what the repaired one has no more, and it for one of them to follow."""
    with LocalGroup(tmp_path) as group:
        assert group.up().returncode == 0
        fill(group)
        assert group.logherd("down").returncode == 0
        spoil(group)
        with waiting_up(group):
            all_heal_in_vain(group)
        shutil.copytree(store(group, 2), tmp_path / "kept")
        repair = [LOGHERD, "store", "repair", str(store(group, 2)), "--apply"]
        subprocess.run(repair, check=True, capture_output=True, text=True, timeout=120)
        for number in () if left else (1, 3):
            store(group, number).rename(tmp_path / f"away-{number}")
        with waiting_up(group) as up:
            await_true(lambda: any(each["role"] == "leader" for each in group.status()["controllers"]), group.status)
            elect(group)
            group.settle(1, 3)
            assert read(group, count=SPOILT) == [f"fill-{number}" for number in range(SPOILT)]
            assert group.client("send", "Fill", "more").returncode == 0
            assert up.poll() is None
            kept = [each.name for number in (1, 3) for each in store(group, number).iterdir() if "aside-" in each.name]
            assert len(kept) == 2 * left


def elect(group: LocalGroup) -> None:
    """As soon as the controllers know the broker's new store."""
    host, _, port = group.name_servers.rpartition(":")
    admin = f"{host}:{int(port) + 1}"
    command = [
        LOGHERD, "groups", "elect", "herd", "--broker", "2", "--unclean", "--yes", "--admin", admin,
        "--token-file", str(group.data / "admin-token"),
    ]  # fmt: skip

    def elected() -> bool:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        sys.stdout.write(done.stdout + done.stderr)
        return done.returncode == 0

    await_true(elected, group.status)
