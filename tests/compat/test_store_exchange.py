"""A store that one of the two wrote is opened by the other and read in full by a stock client."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat.driver import Driver, message
from compat.logherd_server import start_logherd
from compat.payloads import every_kind
from compat.processes import free_port, until
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.server import Server

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]
TOPIC, GROUP, BATCHES = "Exchange", "exchange-group", "Batches"
# The shape of the files is configuration on both sides. Only small segments, so that there are several; what RocketMQ
# ships with for the rest, because nothing else can be exported.
SEGMENT = 16 << 20
SIZES = {"mappedFileSizeCommitLog": str(SEGMENT), "maxHashSlotNum": "5000000", "maxIndexNum": "20000000"}
CHECKSUMS = {**SIZES, "enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}
LOGHERD = {"store": {"segmentSize": SEGMENT}}
# What a message must keep; sizes and positions too, since the log itself is handed over.
KEPT = ("queueId", "offset", "position", "msgId", "storeSize", "length", "sha256", "tags", "keys", "flag", "sysFlag",
        "bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes")  # fmt: skip
Everything = dict[str, dict[str, list[dict[str, Any]]]]


def write(driver: Driver, server: Server) -> None:
    """Messages of every kind, a batch, enough for several segments, and a group that read part of it."""
    for topic in (TOPIC, BATCHES):
        server.create_topic(topic)
    server.create_group(GROUP)
    send = {"name": "p", "mode": "sync"}
    driver.call("producer.start", name="p", group="exchange", nameServer=server.name_server)
    kinds = [message(body, **fields) for body, fields in every_kind().values()]
    for queue_id in range(4):
        driver.call("producer.send", topic=TOPIC, messages=kinds, queueId=queue_id, **send)
    for size in (10, 300_000):
        batch = [message(f"{i}-".encode() + b"b" * size, tags=f"Tag{i % 3}", keys=f"batch-{i}") for i in range(10)]
        driver.call("producer.send", topic=BATCHES, messages=batch, **{**send, "mode": "batch"})
    # Three segments: a store whose records never meet the end of a file proves little.
    driver.call("producer.start", name="raw", group="raw", nameServer=server.name_server, compressOver=1 << 23)
    for i in range(12):
        driver.call("producer.send", topic=TOPIC, messages=[message(b"%d" % i + b"r" * 3_000_000)],
                    **{**send, "name": "raw"})  # fmt: skip
    where = {"topic": TOPIC, "group": GROUP, "nameServer": server.name_server}
    for queue_id in range(4):
        driver.call("offset.commit", queueId=queue_id, offset=queue_id + 1, **where)
    for name in ("p", "raw"):
        driver.call("producer.stop", name=name)


def read(driver: Driver, server: Server) -> Everything:
    """Topic -> queue -> messages, each reduced to what must survive."""
    found: Everything = {}
    for topic in (TOPIC, BATCHES):
        queues = driver.call("query.readAll", nameServer=server.name_server, topic=topic)
        found[topic] = {
            queue: [{name: seen[name] for name in KEPT} for seen in messages] for queue, messages in queues.items()
        }
    return found


def count(found: Everything) -> int:
    return sum(len(messages) for queues in found.values() for messages in queues.values())


def check(driver: Driver, server: Server, written: Everything) -> None:
    """Every message is there, is found by key and by id, the group goes on where it was, and appends continue."""
    assert read(driver, server) == written
    where = {"topic": TOPIC, "nameServer": server.name_server}
    assert {seen["keys"] for seen in driver.call("query.key", key="second", **where)} == {"first second third"}
    last = written[TOPIC]["0"][-1]
    assert driver.call("query.id", msgId=last["msgId"], **where)["sha256"] == last["sha256"]
    assert [server.committed(GROUP, TOPIC, queue_id) for queue_id in range(4)] == [1, 2, 3, 4]
    driver.call("producer.start", name="p", group="exchange", nameServer=server.name_server)
    sending = {"name": "p", "topic": TOPIC, "mode": "sync", "queueId": 0}
    (answer,) = driver.call("producer.send", messages=[message("goes on")], **sending)
    driver.call("producer.stop", name="p")
    assert answer["offset"] == len(written[TOPIC]["0"])
    assert len(read(driver, server)[TOPIC]["0"]) == answer["offset"] + 1


@pytest.fixture
def reader(driver: Driver) -> Iterator[Driver]:
    yield driver
    driver.call("query.stop")


@pytest.mark.parametrize(
    ("settings", "clean"), [(SIZES, True), (CHECKSUMS, False)], ids=["stopped", "killed-with-checksums"]
)
def test_store_of_rocketmq_is_read_in_full_from_logherd(
    java_classes: str, reader: Driver, tmp_path: Path, settings: dict[str, str], clean: bool
) -> None:
    port = free_port((-2, 1))
    theirs = start_rocketmq(java_classes, tmp_path / "theirs", RocketMQOptions(extra=settings), broker_port=port)
    with theirs:
        write(reader, theirs)
        written = read(reader, theirs)
        reader.call("query.stop")
        if clean:
            theirs.stop()
        else:
            # RocketMQ writes offsets down every five seconds; what it has not written is not in its store.
            offsets = theirs.store / "config" / "consumerOffset.json"
            until(lambda: offsets.exists() and GROUP in offsets.read_text(), seconds=60, what="offsets on disk")
    (tmp_path / "ours").mkdir()
    theirs.store.rename(tmp_path / "ours" / "store")
    with start_logherd(tmp_path / "ours", broker_port=port, **LOGHERD) as ours:
        check(reader, ours, written)


@dataclass(frozen=True, slots=True)
class Exported:
    """A store of LogHerd, made ready for RocketMQ, with what a client read from it before."""

    directory: Path
    port: int
    written: Everything


@pytest.fixture(scope="module")
def exported(driver: Driver, workspace: Path) -> Exported:
    port, target = free_port((-2, 1)), workspace / "exported"
    with start_logherd(workspace / "to-export", broker_port=port, **LOGHERD) as ours:
        write(driver, ours)
        written = read(driver, ours)
        driver.call("query.stop")
        assert ours.stop() == 0
    command = [sys.executable, "-m", "logherd", "store", "export", "--rocketmq", str(ours.store), "--to", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Exported(target, port, written)


def test_rocketmq_checks_the_checksums_that_logherd_wrote(
    java_classes: str, reader: Driver, tmp_path: Path, exported: Exported
) -> None:
    # Rule H1. One letter of the last record's properties, which no other checksum covers, must cost that record.
    store = tmp_path / "theirs" / "store"
    shutil.copytree(exported.directory, store, ignore=shutil.ignore_patterns("index"))
    last = max(path for path in (store / "commitlog").iterdir() if b"WAIT\x01true" in path.read_bytes())
    head, found, tail = last.read_bytes().rpartition(b"WAIT\x01true")
    last.write_bytes(head + found[:-1] + b"u" + tail)
    options = RocketMQOptions(extra=CHECKSUMS)
    with start_rocketmq(java_classes, tmp_path / "theirs", options, broker_port=exported.port) as theirs:
        left = read(reader, theirs)
    assert count(left) == count(exported.written) - 1


def test_store_of_logherd_is_read_in_full_from_rocketmq(
    java_classes: str, reader: Driver, tmp_path: Path, exported: Exported
) -> None:
    shutil.copytree(exported.directory, tmp_path / "theirs" / "store")
    # With both settings on, RocketMQ checks the checksum of every record that it recovers (rule H1).
    options = RocketMQOptions(extra=CHECKSUMS)
    with start_rocketmq(java_classes, tmp_path / "theirs", options, broker_port=exported.port) as theirs:
        check(reader, theirs, exported.written)
