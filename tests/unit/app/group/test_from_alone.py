"""A store that is to be a group's first replica: what becomes of it, and what cannot be one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logherd.app.classic.side_files import FollowerFileError, Marker, SideFiles
from logherd.app.group.from_alone import FirstReplica, make_first_replica
from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.app.group.roster import read_roster
from logherd.controller.values import GroupKey
from logherd.model.names import Epoch
from logherd.model.topic import TopicConfig
from logherd.replica import ReplicaStore
from logherd.replication.epochs import Run
from logherd.service.metadata import Metadata, StoreLog, barriers
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore, StoreInUse, accept_bare
from logherd.store.files_os import OsFiles
from unit.store.helpers import HOST, SimClock, append, bodies, flush, small_options

FILES = OsFiles()
GROUP = GroupKey("c", "g")
STORE = small_options(log={"segment_bytes": 1 << 20})
REPLICA = replace(STORE, replicated=True)


def options_of(root: Path, *, segment: str = "1MiB", **replication: object) -> BrokerOptions:
    document: dict[str, Any] = {
        "clusterName": "c", "brokerGroup": "g", "brokerId": 2, "dataDir": str(root / "data"),
        "replication": {
            "mode": "controller", "controllers": ["127.0.0.1:1"], "peers": {"1": "a:1", "2": "b:1", "3": "c:1"},
            **replication,
        },
        "store": {"segmentSize": segment, "messageSizeMax": "64KiB"},
        "nameService": {"mode": "external", "addresses": ["127.0.0.1:2"]},
    }  # fmt: skip
    path = root / "broker.json"
    path.write_text(json.dumps(document))
    return load_broker_options(path)


def alone(root: Path, *, lives: int = 1) -> None:
    """What a broker alone leaves after so many lives."""
    for life in range(lives):
        store = MessageStore.open(root / "data", STORE, FILES, clock=SimClock())
        metadata = Metadata.open(StoreLog(store, SimClock(), host=HOST), SimClock())
        if not life:
            metadata.topics.put(TopicConfig("T"))
        append(store, body=b"life %d" % life)
        metadata.end_pass()
        flush(store)
        store.close()


def test_it_keeps_its_log_and_goes_by_the_epochs_of_its_barriers(tmp_path: Path) -> None:
    alone(tmp_path, lives=3)
    made = make_first_replica(options_of(tmp_path), SimClock())
    assert (made.group, made.broker_id, made.epoch, made.bare_end, made.topics) == ("c/g", 2, 4, 0, 1)
    file = ReplicaFile.open(FILES, str(tmp_path / "data"), GROUP, 2, log_empty=False)
    assert (file.promise.epoch, file.mode) == (Epoch(4), "controller")
    assert read_roster(FILES, str(tmp_path / "data")) == {2}
    store = MessageStore.open(tmp_path / "data", REPLICA, FILES, clock=SimClock())
    assert store.committed_position == store.end_position == made.position
    assert bodies(store) == [b"life 0", b"life 1", b"life 2"]
    log = ReplicaStore(store, barriers(StoreLog(store, SimClock(), host=HOST)))
    assert [run.epoch for run in log.epochs.runs] == [1, 2, 3, 4]
    assert log.epochs.runs[0] == Run(Epoch(1), log.epochs.base.position)
    store.close()


def test_a_log_without_a_barrier_at_its_start_begins_with_epoch_0(tmp_path: Path) -> None:
    """As one that RocketMQ wrote."""
    store = MessageStore.open(tmp_path / "data", STORE, FILES, clock=SimClock())
    append(store, body=b"theirs")
    flush(store)
    first = store.end_position
    store.close()
    made = make_first_replica(options_of(tmp_path), SimClock())
    store = MessageStore.open(tmp_path / "data", REPLICA, FILES, clock=SimClock())
    log = ReplicaStore(store, barriers(StoreLog(store, SimClock(), host=HOST)))
    assert log.epochs.runs == (
        Run(Epoch(0), log.epochs.base.position),
        Run(Epoch(1), log.epochs.point_at(first).position),
    )
    assert log.end == made.position
    store.close()


def refused(root: Path, words: str, **replication: object) -> None:
    with pytest.raises(ReplicaFileError, match=words):
        make_first_replica(options_of(root, **replication), SimClock())


def test_what_cannot_be_a_groups_first_replica_is_refused_and_left_alone(tmp_path: Path) -> None:
    refused(tmp_path, "holds no log")
    alone(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    refused(tmp_path, "replication.mode: raft cannot begin with a log", mode="raft", controllers=[])
    whole = options_of(tmp_path)
    larger = options_of(tmp_path, segment="2MiB")
    with pytest.raises(ReplicaFileError, match=r"store\.segmentSize: 2097152 is not right: files .* 1048576 bytes"):
        make_first_replica(larger, SimClock())
    side = SideFiles(FILES, tmp_path / "data")
    FILES.make_directory(str(tmp_path / "data/classic"))
    side.keep_marker(Marker(group="c/g", state="following"))
    with pytest.raises(FollowerFileError, match="promote"):
        make_first_replica(whole, SimClock())
    side.end()
    held = FILES.lock(str(tmp_path / "data/lock"))
    assert held is not None
    with pytest.raises(StoreInUse):
        make_first_replica(whole, SimClock())
    held.release()
    after = {path: path.stat().st_mtime_ns for path in before}
    assert after == before
    made = make_first_replica(whole, SimClock())
    assert isinstance(made, FirstReplica)
    refused(tmp_path, "is a replica's already")


def test_a_replica_takes_records_without_a_checksum_of_the_whole_below_the_position_that_it_was_told(
    tmp_path: Path,
) -> None:
    store = MessageStore.open(tmp_path / "data", REPLICA, FILES, clock=SimClock())
    assert store.recovery.bare_end == 0
    append(store)
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
    with pytest.raises(StoreInUse):
        accept_bare(tmp_path / "data", FILES, end=5000)
    store.close()
    for end in (5000, 4000):
        accept_bare(tmp_path / "data", FILES, end=end)
        store = MessageStore.open(tmp_path / "data", REPLICA, FILES, clock=SimClock())
        assert store.recovery.bare_end == 5000
        append(store)
        store.close()
