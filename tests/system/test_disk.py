"""A disk that fills up, fails or loses power costs availability, never an acknowledged message."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.blocking import BlockingClient
from system.disks import MIB, FailingDisk, LoopDisk
from system.load import TOPIC, Load, drained_history
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SERVICE_NOT_AVAILABLE = 14
EXIT_STORE_FAILED = 4


def test_a_full_disk_refuses_sends_serves_reads_and_recovers_by_itself(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=300) as disk:
        broker = BrokerProcess(disk.mount_point, store={"segmentSize": "16MiB", "reservedPercent": 10})
        broker.log_path = tmp_path / "broker.log"
        broker.start()
        try:
            with Load(broker) as load:
                load.wait_for(Outcome.OK, 200)
                filler = disk.fill(leave_bytes=16 * MIB)
                assert disk.free_bytes < 0.1 * 300 * MIB
                load.wait_for(Outcome.FAILED, 200)
                client = BlockingClient(broker.port)
                refused = client.ask(10, _send_header(), b"refused")
                assert refused.code == SERVICE_NOT_AVAILABLE, refused.remark
                assert refused.remark
                assert client.pull(TOPIC, 0, 0), "reads must go on"
                committed = client.ask(15, _offset_header(1))
                assert committed.code == 0, committed.remark
                told = client.ask(14, _offset_header(1))
                assert told.ext["offset"] == "1"
                client.close()
                broker.wait_for_line("the disk is at its reserve: messages are refused")
                filler.unlink()
                load.wait_for(Outcome.OK, 200)
                broker.wait_for_line("the disk has space again: messages are taken")
            verdict = check_log(drained_history(broker, load), ok_sends_min=400)
            assert verdict.name == "valid", verdict
            assert broker.stop() == 0
        finally:
            broker.kill()


def test_power_comes_back_though_another_mount_namespace_keeps_the_stopped_file_system(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=64) as disk:
        (disk.mount_point / "flushed").write_bytes(b"kept")
        os.sync()
        keeper = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == b"\n"
            disk.lose_power()
            assert disk.is_dead()
            disk.unmount()
            disk.mount()
            assert not disk.is_dead()
            assert (disk.mount_point / "flushed").read_bytes() == b"kept"
        finally:
            keeper.communicate(b"\n", timeout=30)


def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=300) as disk:
        broker = BrokerProcess(disk.mount_point, store={"segmentSize": "16MiB", "reservedPercent": 0})
        broker.start()
        try:
            with Load(broker) as load:
                for _ in range(5):
                    load.wait_for(Outcome.OK, 300)
                    os.kill(broker.pid, signal.SIGSTOP)
                    disk.lose_power()
                    assert disk.is_dead()
                    broker.kill()
                    disk.unmount()
                    disk.mount()
                    broker.start()
            verdict = check_log(drained_history(broker, load), ok_sends_min=1500)
        finally:
            broker.kill()
        assert verdict.name == "valid", verdict


def test_after_a_failed_flush_the_broker_acknowledges_nothing_and_stops_by_name(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=300) as disk:
        broker = BrokerProcess(disk.mount_point, store={"segmentSize": "16MiB", "reservedPercent": 0})
        broker.log_path = tmp_path / "broker.log"
        broker.start()
        try:
            with Load(broker) as load:
                load.wait_for(Outcome.OK, 200)
                disk.lose_power()
                assert disk.is_dead()
                assert broker.process is not None
                assert broker.process.wait(60) == EXIT_STORE_FAILED
                assert "its store failed" in broker.log_path.read_text()
                disk.unmount()
                disk.mount()
                broker.start()
                load.wait_for(Outcome.OK, 100)
            verdict = check_log(drained_history(broker, load), ok_sends_min=300)
        finally:
            broker.kill()
        assert verdict.name == "valid", verdict


def test_a_disk_that_lied_about_a_flush_is_found_out_at_the_next_start(tmp_path: Path) -> None:
    """A loop device over a full tmpfs reports short writes as done: acknowledged bytes are not there afterwards."""
    with FailingDisk(tmp_path, size_mib=400, good_mib=72) as disk:
        broker = BrokerProcess(disk.mount_point, store={"segmentSize": "64MiB", "reservedPercent": 0})
        broker.log_path = tmp_path / "broker.log"
        broker.start()
        try:
            with Load(broker) as load:
                assert broker.process is not None
                assert broker.process.wait(60) == EXIT_STORE_FAILED
                load.stop()
                disk.heal()
                disk.unmount()
                disk.mount()
                refusal = _refusal(broker)
                if refusal:
                    # The lie hit an acknowledged batch: nothing is served, and the person is told where to look.
                    assert "logherd store repair" in refusal
                    assert "commitlog" in refusal
                    return
            verdict = check_log(drained_history(broker, load), ok_sends_min=150)
        finally:
            broker.kill()
        assert verdict.name == "valid", verdict


def _refusal(broker: BrokerProcess) -> str:
    """Start the broker; the result says why it did not, or is empty."""
    try:
        broker.start()
    except RuntimeError as refused:
        return str(refused)
    return ""


def _send_header() -> dict[str, str]:
    return {
        "producerGroup": "system",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
    }


def _offset_header(offset: int) -> dict[str, str]:
    return {"consumerGroup": "TOOLS_CONSUMER", "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
