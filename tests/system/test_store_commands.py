"""`logherd store` on the store of a real broker that was stopped: look, damage, repair, hand over."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

LOGHERD = str(Path(sys.executable).with_name("logherd"))
SEGMENT_BYTES = 64 << 20


def logherd(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOGHERD, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def broker_in(folder: Path) -> BrokerProcess:
    """A broker alone, whose store is `data` there: what its replicas could make good is not what this is about."""
    return BrokerProcess(folder, properties={"mappedFileSizeCommitLog": str(SEGMENT_BYTES)})


def name_server(broker: BrokerProcess) -> str:
    return str(broker.status()["nameServer"])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a broker that was stopped after ten messages."""
    folder = tmp_path_factory.mktemp("stopped")
    broker = broker_in(folder)
    broker.start()
    try:
        bodies = [f"message {number}" for number in range(10)]
        sent = logherd(folder, "send", "t", *bodies, "--queue-key", "same", "--name-server", name_server(broker))
        assert len(sent.stdout.splitlines()) == 10
        running = logherd(folder, "store", "verify", "data")
        assert (running.returncode, running.stderr.count("\n")) == (1, 1)
        assert "another process holds" in running.stderr
    finally:
        broker.stop()
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be damaged."""
    subprocess.run(["cp", "-r", "--sparse=always", stopped / "data", tmp_path], check=True)
    return tmp_path


def damage_message(folder: Path, text: bytes) -> None:
    [segment] = (folder / "data/commitlog").iterdir()
    with segment.open("r+b") as file:
        content = file.read(1 << 20)
        file.seek(content.rindex(text))
        file.write(text.swapcase())


def test_a_whole_store_is_called_whole(folder: Path) -> None:
    answer = logherd(folder, "store", "verify", "data", "-o", "json")
    report = json.loads(answer.stdout)
    assert (answer.returncode, report["whole"]) == (0, True)
    kinds = {file["path"].partition("/")[0]: file["records"] for file in report["files"]}
    assert kinds["commitlog"] >= 10
    assert not any(file["problems"] for file in report["files"])


def test_damage_is_found_named_and_cut_only_when_told_so(folder: Path) -> None:
    store = "data"
    damage_message(folder, b"message 5")
    found = logherd(folder, "store", "verify", store)
    assert found.returncode == 3
    assert "commitlog/00000000000000000000: byte" in found.stdout
    planned = json.loads(logherd(folder, "store", "repair", store, "-o", "json").stdout)
    assert (planned["applied"], planned["droppedRecords"] >= 4) == (False, True)
    assert logherd(folder, "store", "verify", store).returncode == 3
    done = logherd(folder, "store", "repair", store, "--apply")
    assert done.returncode == 0
    assert list((folder / store / "dropped").iterdir())
    broker = broker_in(folder)
    broker.start()
    try:
        received = logherd(
            folder, "receive", "t", "--name-server", name_server(broker), "--from", "first", "--count", "5"
        )
        assert [line.partition(" ")[2] for line in received.stdout.splitlines()] == [f"message {n}" for n in range(5)]
    finally:
        broker.stop()


def test_a_store_damaged_in_a_crash_does_not_start_and_says_why(folder: Path) -> None:
    broker = broker_in(folder)
    broker.start()
    try:
        bodies = [f"later {number}" for number in range(10)]
        sent = logherd(folder, "send", "t", *bodies, "--queue-key", "same", "--name-server", name_server(broker))
        assert sent.returncode == 0
    finally:
        broker.kill()
    damage_message(folder, b"later 5")
    with pytest.raises(RuntimeError, match="commitlog/00000000000000000000") as refused:
        broker.start()
    assert "logherd store repair" in str(refused.value)


def test_an_export_has_what_rocketmq_needs(folder: Path) -> None:
    answer = logherd(folder, "store", "export", "--rocketmq", "data", "--to", "out")
    assert answer.returncode == 0, answer.stderr
    assert f"note: set mappedFileSizeCommitLog={SEGMENT_BYTES} in RocketMQ" in answer.stdout
    topics = json.loads((folder / "out/config/topics.json").read_text())["topicConfigTable"]
    assert "t" in topics
    assert (folder / "out/commitlog/00000000000000000000").stat().st_size == SEGMENT_BYTES


def test_an_export_for_nobody_is_a_usage_error(folder: Path) -> None:
    answer = logherd(folder, "store", "export", "data")
    assert (answer.returncode, "say for whom: --rocketmq" in answer.stderr) == (2, True)


def test_a_folder_without_a_store_is_said_in_one_line(folder: Path) -> None:
    answer = logherd(folder, "store", "verify", ".")
    assert (answer.returncode, answer.stderr) == (1, "logherd: . holds no commit log\n")
