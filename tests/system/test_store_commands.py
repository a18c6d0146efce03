"""`logherd store` on the store of a real broker that was stopped: look, damage, repair, hand over."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

LOGHERD = str(Path(sys.executable).with_name("logherd"))
SEGMENT_BYTES = 64 << 20
GROUP = f"""
apiVersion: logherd.dev/v1alpha1
kind: BrokerGroup
metadata: {{name: demo}}
spec: {{replicas: 1, config: {{mappedFileSizeCommitLog: "{SEGMENT_BYTES}"}}}}
"""
FREE = ("--name-service-port", "0", "--broker-port", "0", "--admin-port", "0")


def logherd(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOGHERD, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def name_server(folder: Path) -> str:
    found: str = json.loads(logherd(folder, "status", "-o", "json").stdout)["nameServer"]
    return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a group that was stopped after ten messages."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "group.yaml").write_text(GROUP)
    assert logherd(folder, "up", "-f", "group.yaml", "--detach", *FREE).returncode == 0
    try:
        bodies = [f"message {number}" for number in range(10)]
        sent = logherd(folder, "send", "t", *bodies, "--queue-key", "same", "--name-server", name_server(folder))
        assert len(sent.stdout.splitlines()) == 10
        running = logherd(folder, "store", "verify", ".logherd/demo/broker-0")
        assert (running.returncode, running.stderr.count("\n")) == (1, 1)
        assert "another process holds" in running.stderr
    finally:
        logherd(folder, "down")
    return folder


@pytest.fixture
def group(stopped: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be damaged."""
    shutil.copy(stopped / "group.yaml", tmp_path)
    subprocess.run(["cp", "-r", "--sparse=always", stopped / ".logherd", tmp_path], check=True)
    return tmp_path


def damage_message(group: Path, text: bytes) -> None:
    [segment] = (group / ".logherd/demo/broker-0/commitlog").iterdir()
    with segment.open("r+b") as file:
        content = file.read(1 << 20)
        file.seek(content.rindex(text))
        file.write(text.swapcase())


def test_a_whole_store_is_called_whole(group: Path) -> None:
    answer = logherd(group, "store", "verify", ".logherd/demo/broker-0", "-o", "json")
    report = json.loads(answer.stdout)
    assert (answer.returncode, report["whole"]) == (0, True)
    kinds = {file["path"].partition("/")[0]: file["records"] for file in report["files"]}
    assert kinds["commitlog"] >= 10
    assert not any(file["problems"] for file in report["files"])


def test_damage_is_found_named_and_cut_only_when_told_so(group: Path) -> None:
    store = ".logherd/demo/broker-0"
    damage_message(group, b"message 5")
    found = logherd(group, "store", "verify", store)
    assert found.returncode == 3
    assert "commitlog/00000000000000000000: byte" in found.stdout
    planned = json.loads(logherd(group, "store", "repair", store, "-o", "json").stdout)
    assert (planned["applied"], planned["droppedRecords"] >= 4) == (False, True)
    assert logherd(group, "store", "verify", store).returncode == 3
    done = logherd(group, "store", "repair", store, "--apply")
    assert done.returncode == 0
    assert list((group / store / "dropped").iterdir())
    try:
        assert logherd(group, "up", "-f", "group.yaml", "--detach", *FREE).returncode == 0
        received = logherd(
            group, "receive", "t", "--name-server", name_server(group), "--from", "first", "--count", "5"
        )
        assert [line.partition(" ")[2] for line in received.stdout.splitlines()] == [f"message {n}" for n in range(5)]
    finally:
        logherd(group, "down")


def test_a_store_damaged_in_a_crash_does_not_start_and_says_why(group: Path) -> None:
    assert logherd(group, "up", "-f", "group.yaml", "--detach", *FREE).returncode == 0
    server = name_server(group)
    bodies = [f"later {number}" for number in range(10)]
    assert logherd(group, "send", "t", *bodies, "--queue-key", "same", "--name-server", server).returncode == 0
    os.kill(json.loads(logherd(group, "status", "-o", "json").stdout)["leader"]["pid"], signal.SIGKILL)
    damage_message(group, b"later 5")
    started = logherd(group, "up", "-f", "group.yaml", "--detach", *FREE)
    assert started.returncode == 1
    assert "commitlog/00000000000000000000" in started.stderr
    assert "logherd store repair" in started.stderr


def test_an_export_has_what_rocketmq_needs(group: Path) -> None:
    answer = logherd(group, "store", "export", "--rocketmq", ".logherd/demo/broker-0", "--to", "out")
    assert answer.returncode == 0, answer.stderr
    assert f"note: set mappedFileSizeCommitLog={SEGMENT_BYTES} in RocketMQ" in answer.stdout
    topics = json.loads((group / "out/config/topics.json").read_text())["topicConfigTable"]
    assert "t" in topics
    assert (group / "out/commitlog/00000000000000000000").stat().st_size == SEGMENT_BYTES


def test_an_export_for_nobody_is_a_usage_error(group: Path) -> None:
    answer = logherd(group, "store", "export", ".logherd/demo/broker-0")
    assert (answer.returncode, "say for whom: --rocketmq" in answer.stderr) == (2, True)


def test_a_folder_without_a_store_is_said_in_one_line(group: Path) -> None:
    answer = logherd(group, "store", "verify", ".")
    assert (answer.returncode, answer.stderr) == (1, "logherd: . holds no commit log\n")
