"""Retention deletes nothing that the metadata in the log, or the mode of a group, still needs."""

import asyncio
import json
from pathlib import Path

import pytest

from logherd.app.clock import SystemClock
from logherd.app.engine import Engine
from logherd.app.group.by_controllers import ByControllers
from logherd.app.group.engine import GroupEngine
from logherd.model.names import Position
from logherd.model.topic import TopicConfig
from logherd.settings.load import load_broker_options
from unit.app.forwarding.rig import eventually
from unit.app.group.test_engine import granted, registered
from unit.store.helpers import HOST, append

LATER_MS = 1 << 50
"""By then all messages are too old to be kept."""


async def fill(engine: Engine | GroupEngine, segment_bytes: int) -> None:
    """A topic, and more messages than two segments hold, all of it committed, and derived from on the disk."""
    engine.metadata.topics.put(TopicConfig("kept"))
    while engine.store.end_position < 5 * segment_bytes // 2:
        append(engine.store, body=b"x" * 60_000, at=LATER_MS // 2)
        engine.schedule()
        await asyncio.sleep(0)
    engine.schedule()
    await eventually(lambda: engine.store.committed_position == engine.store.end_position)
    noted = engine.store._writer.checkpoint
    while min(noted.value.queues_dispatched, noted.value.index_dispatched) <= 2 * segment_bytes:
        engine.tick()
        await asyncio.sleep(0)


async def asks_for_a_snapshot_first(engine: Engine | GroupEngine, segment_bytes: int) -> None:
    """Nothing is deleted before a snapshot of the metadata is committed behind what is to go."""
    engine.apply_retention(LATER_MS)
    assert (engine.store.min_position, engine.metadata.pinned_position, engine.segments_deleted) == (0, 0, 0)
    engine.schedule()
    await eventually(lambda: engine.metadata.pinned_position > 2 * segment_bytes)


async def test_h2_a_leader_deletes_what_a_committed_snapshot_stands_behind_and_nothing_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, size = registered(tmp_path), 1 << 20
    engine.replica.start()
    engine.replica.step(granted(1))
    while not engine.may_answer():
        await asyncio.sleep(0)
    await fill(engine, size)
    await asks_for_a_snapshot_first(engine, size)
    with monkeypatch.context() as patch:
        patch.setattr(ByControllers, "pinned", Position(size))
        engine.apply_retention(LATER_MS)
        assert engine.store.min_position == size
    engine.apply_retention(LATER_MS)
    assert engine.store.min_position == 2 * size
    await engine.close(orderly=True, seconds=30)
    engine.check()


async def test_h2_a_broker_alone_deletes_what_a_committed_snapshot_stands_behind_and_nothing_before(
    tmp_path: Path,
) -> None:
    path, size = tmp_path / "broker.json", 1 << 20
    store = {"segmentSize": "1MiB", "messageSizeMax": "64KiB"}
    path.write_text(json.dumps({"clusterName": "c", "brokerGroup": "g", "dataDir": str(tmp_path), "store": store}))
    options = load_broker_options(path)
    engine = Engine.open(
        options, store_host=HOST, clock=SystemClock(), cached_files=8, on_commit=lambda *_: None,
        on_failure=lambda: None,
    )  # fmt: skip
    await engine.begin(options)
    await fill(engine, size)
    await asks_for_a_snapshot_first(engine, size)
    engine.apply_retention(LATER_MS)
    assert engine.store.min_position == 2 * size
    await engine.close(orderly=True, seconds=30)
    engine.check()
