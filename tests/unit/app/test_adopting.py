"""A store that was ours, then RocketMQ's, and is ours again: what RocketMQ said last holds."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from logherd.app import engine as engines
from logherd.app.adopting import expect_adoption
from logherd.app.clock import SystemClock
from logherd.app.engine import Engine
from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.controller.values import GroupKey
from logherd.model.topic import TopicConfig
from logherd.service.metadata.rocketmq import AdoptionError, export_config
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore
from logherd.store.files_os import OsFiles
from logherd.store.tools import export_rocketmq, options_of
from unit.store.helpers import HOST, SimClock, append


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({
        "brokerGroup": "g", "clusterName": "c", "dataDir": str(tmp_path / "data"),
        "store": {"segmentSize": "8MiB", "reservedPercent": 0},
    }))  # fmt: skip
    return load_broker_options(path)


async def opened(options: BrokerOptions) -> Engine:
    engine = Engine.open(
        options, store_host=HOST, clock=SystemClock(), cached_files=8, on_commit=lambda _queues, _position: None,
        on_failure=lambda: None,
    )  # fmt: skip
    await engine.begin(options)
    return engine


async def closed(engine: Engine) -> None:
    await engine.close(orderly=True, seconds=10)
    engine.check()


@pytest.mark.parametrize("kept", [True, False])
def test_topics_whose_batches_are_one_record_are_refused_by_name(options: BrokerOptions, kept: bool) -> None:
    """What RocketMQ calls BatchCQ. Taken for damage, the store would be told to be repaired, which drops the log."""
    store = Path(options.data_dir)
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    for topic in ("bulk", "gone", "many"):
        (store / "batchconsumequeue" / topic / "0").mkdir(parents=True)
    if kept:
        for topic in ("many", "bulk"):
            (store / "batchconsumequeue" / topic / "0" / f"{0:020d}").write_bytes(bytes(46))
        with pytest.raises(AdoptionError, match=r"batchconsumequeue: .* \(bulk, many\)"):
            expect_adoption(OsFiles(), options.data_dir)
        assert not (store / "config").exists()
    else:
        expect_adoption(OsFiles(), options.data_dir)
        assert (store / "config" / "adopting").exists()


async def handed_over(options: BrokerOptions) -> Path:
    """The folder of RocketMQ's files, after it has made a topic, dropped one, and consumed on."""
    engine = await opened(options)
    for name in ("kept", "dropped"):
        engine.metadata.topics.put(TopicConfig(name))
    for _ in range(5):
        append(engine.store, "kept")
    append(engine.store, "dropped")
    engine.metadata.offsets.commit("readers", "kept", 0, 2)
    await closed(engine)
    files = export_config(engine.metadata)
    export_rocketmq(Path(options.data_dir), None, files, clock=SimClock())
    topics, offsets = json.loads(files["topics.json"]), json.loads(files["consumerOffset.json"])
    table = topics["topicConfigTable"]
    table["made"] = {**table.pop("dropped"), "topicName": "made"}
    offsets["offsetTable"]["kept@readers"]["0"] = 4
    folder = Path(options.data_dir) / "config"
    (folder / "topics.json").write_text(json.dumps(topics))
    (folder / "consumerOffset.json").write_text(json.dumps(offsets))
    return folder


def said(engine: Engine) -> tuple[set[str], int | None]:
    """The topics, of those three, and the group's offset."""
    names = {topic.name for topic in engine.metadata.topics}
    return names & {"kept", "dropped", "made"}, engine.metadata.offsets.get("readers", "kept", 0)


@pytest.mark.parametrize("interrupted", [False, True])
async def test_what_rocketmq_said_last_replaces_what_the_log_says(options: BrokerOptions, interrupted: bool) -> None:
    await handed_over(options)
    if interrupted:  # a process that died right after it had opened the store
        directory, files = Path(options.data_dir), OsFiles()
        expect_adoption(files, options.data_dir)
        MessageStore.open(directory, options_of(directory), files, clock=SimClock()).close()
    engine = await opened(options)
    assert said(engine) == ({"kept", "made"}, 4)
    assert engine.store.find_queue("dropped", 0) is None, "a topic of that name that is made now begins at 0"
    await closed(engine)


async def test_what_was_taken_is_on_the_disk_before_it_is_forgotten_that_it_is_to_be(
    options: BrokerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await handed_over(options)
    ends, flushed = engines.adopting_ends, list[bool]()

    def end(files: OsFiles, data_dir: str) -> None:
        flushed.append(engine.store.flushed_position >= engine.metadata.position)
        ends(files, data_dir)

    monkeypatch.setattr(engines, "adopting_ends", end)
    later = replace(options, flush="async")
    engine = Engine.open(
        later, store_host=HOST, clock=SystemClock(), cached_files=8, on_commit=lambda _queues, _position: None,
        on_failure=lambda: None,
    )  # fmt: skip
    await engine.begin(later)
    assert flushed == [True]
    await closed(engine)


@pytest.mark.parametrize("left", [None, b"", bytes(512), b'{"offsetTable":{"kept@rea'])
async def test_of_a_file_that_rocketmq_was_killed_in_writing_its_backup_is_taken(
    options: BrokerOptions, left: bytes | None
) -> None:
    """As RocketMQ does. Nothing else says how far its groups had consumed."""
    folder = await handed_over(options)
    for name in ("topics.json", "consumerOffset.json"):
        (folder / name).rename(folder / f"{name}.bak")
        if left is not None:
            (folder / name).write_bytes(left)
    engine = await opened(options)
    assert said(engine) == ({"kept", "made"}, 4)
    await closed(engine)


@pytest.mark.parametrize(("left", "backup"), [(b"{", None), (b"{", b""), (b"{", b"[]"), (b"", b"["), (None, b"[")])
async def test_a_damaged_file_without_a_sound_backup_is_refused(
    options: BrokerOptions, left: bytes | None, backup: bytes | None
) -> None:
    folder = await handed_over(options)
    (folder / "consumerOffset.json").unlink()
    for name, content in {"consumerOffset.json": left, "consumerOffset.json.bak": backup}.items():
        if content is not None:
            (folder / name).write_bytes(content)
    with pytest.raises(AdoptionError, match=r"consumerOffset\.json"):
        await opened(options)


async def test_what_rocketmq_has_not_left_is_named(options: BrokerOptions, caplog: pytest.LogCaptureFixture) -> None:
    folder = await handed_over(options)
    (folder / "consumerOffset.json").unlink()
    engine = await opened(options)
    (line,) = (each for each in caplog.records if each.levelname == "WARNING")
    assert vars(line)["fields"] == {"files": "consumerOffset.json"}
    await closed(engine)


async def test_a_backup_counts_for_nothing_while_the_file_is_sound(options: BrokerOptions) -> None:
    folder = await handed_over(options)
    offsets = json.loads((folder / "consumerOffset.json").read_text())
    offsets["offsetTable"]["kept@readers"]["0"] = 1
    (folder / "consumerOffset.json.bak").write_text(json.dumps(offsets))
    engine = await opened(options)
    assert said(engine)[1] == 4
    await closed(engine)


async def test_it_is_taken_once(options: BrokerOptions) -> None:
    folder = await handed_over(options)
    engine = await opened(options)
    engine.metadata.offsets.commit("readers", "kept", 0, 5)
    await closed(engine)
    assert (folder / "topics.json").exists()
    engine = await opened(options)
    assert said(engine) == ({"kept", "made"}, 5)
    await closed(engine)


async def test_no_offset_beyond_a_queues_end_is_taken(options: BrokerOptions) -> None:
    """The messages are deleted, and the queue begins anew here: what comes next would be passed over."""
    folder = await handed_over(options)
    offsets = json.loads((folder / "consumerOffset.json").read_text())
    offsets["offsetTable"]["kept@readers"]["0"] = 1000
    (folder / "consumerOffset.json").write_text(json.dumps(offsets))
    engine = await opened(options)
    assert said(engine)[1] == 5
    await closed(engine)


async def test_a_store_of_which_rocketmq_has_deleted_a_part_is_refused_with_what_to_do(options: BrokerOptions) -> None:
    engine = await opened(options)
    engine.metadata.topics.put(TopicConfig("kept"))
    while engine.store.end_position < 8 << 20:
        append(engine.store, "kept", body=b"x" * 1_000_000)
    engine.metadata.topics.put(TopicConfig("late"))
    await closed(engine)
    end = engine.store.end_position
    export_rocketmq(Path(options.data_dir), None, export_config(engine.metadata), clock=SimClock())
    (Path(options.data_dir) / "commitlog" / f"{0:020d}").unlink()
    for _ in range(2):
        with pytest.raises(AdoptionError, match=f"when RocketMQ has deleted everything below position {end} "):
            await opened(options)


async def test_a_replicas_store_is_not_taken_by_a_broker_alone(options: BrokerOptions) -> None:
    """It would lead beside the group, and begin an epoch that the group begins, too."""
    root = options.data_dir
    Path(root).mkdir()
    ReplicaFile.open(OsFiles(), root, GroupKey("c", "g"), 2, log_empty=True)
    with pytest.raises(ReplicaFileError, match=r"replica\.json .* replication\.mode is alone"):
        await opened(options)
    assert OsFiles().list(root) == ["replica.json", "replica.json.spare"], "nothing was made or changed"
    (Path(root) / "replica.json").unlink()
    await closed(await opened(options))
