"""A replica's log and metadata when its machine says that it leads and there is no room, and when its disk fails."""

import asyncio
import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import SystemClock, boot_ms
from logherd.app.engine import BrokerFailed
from logherd.app.group import damages as damages_module
from logherd.app.group import engine as engine_module
from logherd.app.group import replica as replica_module
from logherd.app.group import standing as standing_module
from logherd.app.group import unflushed
from logherd.app.group.about import decode_about
from logherd.app.group.by_roles import ByRoles
from logherd.app.group.engine import GroupEngine
from logherd.app.group.mode import Host
from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.app.guarded.keeper import Unguarded
from logherd.controller.reports import Granted, RoleView
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.group.inputs import Health, Heard, Input, Registered
from logherd.group.output import Leading, Serving
from logherd.group.table import next_epoch
from logherd.model.names import Epoch, Position
from logherd.service.forwarding.roles import Leading as LedHere
from logherd.service.forwarding.roles import Nobody as LedByNobody
from logherd.service.metadata import DefaultsOptions, Metadata, StoreLog, ensure_defaults
from logherd.store import MessageStore, StoreFull
from logherd.store.files_os import OsFiles
from logherd.store.writer import LogWriter
from unit.app.group.test_from_alone import REPLICA, options_of
from unit.store.helpers import HOST, SimClock, append, flush, none_left

FILES = OsFiles()
STATIC = {"mode": "static", "static": {"leader": 2}, "controllers": [], "peers": {"2": "b:1"}}
"""Nobody else has to be heard before it leads."""
ALONE = {"minInSync": 1}
"""In sync, under controllers."""


def filled(root: Path) -> None:
    """What a leader leaves whose last segment is full, to the last byte, on a disk without room for another one."""
    (data := root / "data").mkdir()
    ReplicaFile.open(FILES, str(data), GroupKey("c", "g"), 2, log_empty=True, mode="static")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OsFiles, "free_bytes", lambda *_: 0)
        store = MessageStore.open(data, REPLICA, FILES, clock=SimClock())
        metadata = Metadata.follow(StoreLog(store, SimClock(), host=HOST), SimClock(), committed=0)
        metadata.promote(1)
        for size in (1_800, 10):
            with suppress(StoreFull):
                while True:
                    append(store, body=b"x" * size, reserve=True)
        flush(store)
        store.advance(store.end_position)
        store.close()


def engine_of(
    root: Path, *, flush: Literal["sync", "async"] = "sync", segment: str = "1MiB",
    replication: dict[str, object] = STATIC,
) -> GroupEngine:  # fmt: skip
    return GroupEngine.open(
        replace(options_of(root, segment=segment, **replication), flush=flush), address="a:1", store_host=HOST,
        clock=SystemClock(), cached_files=8, keeper=Unguarded(), on_answer=lambda _: None,
        on_commit=lambda *_: None, on_failure=lambda: None,
    )  # fmt: skip


def why_not(engine: GroupEngine) -> str:
    assert isinstance(engine.mode, ByRoles)
    return engine.mode.why_not


@contextmanager
def opened(root: Path) -> Iterator[GroupEngine]:
    engine = engine_of(root)
    try:
        yield engine
    finally:
        engine.store.close()


async def test_a_leadership_whose_barrier_finds_no_room_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    free = 1000
    monkeypatch.setattr(OsFiles, "free_bytes", lambda *_: free)
    with opened(tmp_path) as engine:
        end = engine.store.end_position
        assert not engine.store.has_room_to_lead
        engine.take(Leading(Epoch(2), Position(end)))
        assert engine.store.end_position == end
        assert not engine.metadata.leading
        free = 1 << 30
        engine.store.background_work()
        assert engine.store.has_room_to_lead
        append(engine.store, reserve=True)
        assert engine.replica.log.epochs.last_epoch == 1, "what follows is of no epoch that never began"
        engine.take(Leading(Epoch(3), Position(end)))
        assert engine.replica.log.epochs.last_epoch == 3
        assert engine.metadata.leading


async def test_a_leadership_without_a_descriptor_does_not_end_the_process_and_is_not_given_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    with opened(tmp_path) as engine:
        engine.take(Leading(Epoch(1), Position(0)))
        flush(engine.store)
        engine.metadata.demote()
        heard = list[Input]()
        monkeypatch.setattr(engine.replica, "step", heard.append)
        end = engine.store.end_position
        with monkeypatch.context() as patch:
            patch.setattr(StoreLog, "bounds", none_left)
            engine.take(Leading(Epoch(2), Position(end)))
            assert engine.store.end_position == end
            assert not engine.metadata.leading
            engine.tick()
            engine.replica._look_at_disk()
            assert heard[-1] == Health(barrier=False)
        engine.tick()
        engine.replica._look_at_disk()
        assert heard[-1] == Health()
        engine.take(Leading(Epoch(3), Position(end)))
        assert engine.replica.log.epochs.last_epoch == 3
        assert engine.metadata.leading


async def test_h4_a_leadership_begins_at_the_reserve_and_takes_all_but_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So reads and offsets go on where the disks of all brokers have filled up together."""
    with opened(tmp_path) as engine:
        monkeypatch.setattr(OsFiles, "free_bytes", lambda *_: 0)
        engine.store.keep_free(1 << 20)
        engine.store.background_work()
        assert not engine.store.accepts_messages
        assert engine.store.has_room_to_lead
        engine.take(Leading(Epoch(1), Position(engine.store.end_position)))
        assert engine.replica.log.epochs.last_epoch == 1
        assert engine.metadata.leading
        with pytest.raises(StoreFull):
            append(engine.store)
        before = engine.store.end_position
        append(engine.store, "offsets", reserve=True)
        assert engine.store.end_position > before


async def test_h4_a_leader_whose_log_fills_the_disk_says_so_though_the_reserve_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is refused, for it would take a further segment; so another one should lead."""
    (tmp_path / "data").mkdir()
    reserve, heard = 1 << 20, list[Input]()
    free = reserve + 1000
    monkeypatch.setattr(OsFiles, "free_bytes", lambda *_: free)
    with opened(tmp_path) as engine:
        engine.store.keep_free(reserve)
        engine.take(Leading(Epoch(1), Position(0)))
        monkeypatch.setattr(engine.replica, "step", heard.append)
        while engine.store.disk.accepts_messages:
            append(engine.store, body=b"x" * 1_800)
        with pytest.raises(StoreFull, match="the log needs a further segment"):
            append(engine.store, body=b"x" * 196_000)
        assert engine.store.accepts_messages
        engine.replica._look_at_disk()
        assert heard == [Health(messages=False)]
        free = 1 << 30
        engine.store.background_work()
        engine.replica._look_at_disk()
        assert heard[1:] == [Health()]


async def test_a_replica_whose_segments_are_to_have_another_length_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Also if all replicas are given the same other one: who has the next file already rolls where others do not."""
    filled(tmp_path)
    log = tmp_path / "data" / "commitlog"
    before = {path.name: path.stat().st_mtime_ns for path in log.iterdir()}
    with pytest.raises(ReplicaFileError, match=r"store\.segmentSize: 2097152 is not right: files .* 1048576 bytes"):
        engine_of(tmp_path, segment="2MiB")
    assert {path.name: path.stat().st_mtime_ns for path in log.iterdir()} == before
    interrupted = log / f"{1 << 20:020d}"
    interrupted.write_bytes(bytes(5))
    with pytest.raises(ReplicaFileError, match="1048576 bytes"):
        engine_of(tmp_path, segment="2MiB")
    interrupted.unlink()
    with opened(tmp_path) as engine:
        assert (engine.store.recovery.store, engine.store.recovery.tail) == ("ours", "end")


async def test_a_replica_whose_log_was_deleted_with_its_checkpoint_is_another_store(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        before = engine.store_id
    shutil.rmtree(tmp_path / "data" / "commitlog")
    (tmp_path / "data" / "checkpoint").unlink()
    with opened(tmp_path) as engine:
        renewed = engine.store_id
        assert renewed != before
    with opened(tmp_path) as engine:
        assert engine.store_id == renewed


async def test_a_replica_says_in_its_hello_in_which_mode_it_is(tmp_path: Path) -> None:
    """Else one of another mode could have it promise an epoch that nobody of its own ever comes to."""
    filled(tmp_path)
    with opened(tmp_path) as engine:
        about = decode_about(engine._links._hello().about)
        assert about is not None
        assert about.mode == "static"
    assert msgspec.json.decode(by_controllers(tmp_path / "other"))["mode"] == "controller"


def by_controllers(root: Path) -> str:
    root.mkdir()
    engine = engine_of(root, replication=ALONE)
    try:
        return engine._links._hello().about
    finally:
        engine.store.close()


async def test_a_disk_that_fails_while_the_broker_stops_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(tmp_path)
    engine.replica.start()

    async def fail() -> None:
        monkeypatch.setattr(LogWriter, "_step", Mock(side_effect=OSError(errno.EIO, "the disk is gone")))
        while engine.store.disk.stopped is None:
            await asyncio.sleep(0)

    monkeypatch.setattr(engine.mode, "stop", fail)
    await engine.close(orderly=True, seconds=30)
    with pytest.raises(BrokerFailed, match="the disk is gone"):
        engine.check()
    assert (tmp_path / "data" / "abort").exists(), "it is not marked as closed in order"


@pytest.mark.parametrize("later", [False, True])
async def test_a_disk_that_does_nothing_any_more_is_no_damage_to_be_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    """Whoever reads may be the first to meet it."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "data").mkdir()
    with opened(tmp_path) as engine:
        monkeypatch.setattr(damages_module, "note_damage", fail)
        if later:
            engine.damages.found(engine.store.damaged(0, "it cannot be read"))
            leaving = asyncio.ensure_future(engine._leave_to_heal())
            while engine.replica.failure is None:
                await asyncio.sleep(0)
            leaving.cancel()
            engine.settle()
        else:
            engine.fail(engine.store.damaged(0, "it cannot be read"))
        with pytest.raises(BrokerFailed, match=r"StoreStopped: .* cannot be read, and nothing can be written") as told:
            engine.check()
        assert not told.value.starts_again


async def test_whoever_is_promoted_may_lack_something_if_its_machine_went_down_before_it_had_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(tmp_path, flush="async")
    engine.mode.told(Serving(next_epoch(1, Epoch(0), "i")))
    assert not why_not(engine)
    engine.store.close()
    with monkeypatch.context() as another:
        another.setattr(unflushed, "boot_id", lambda: "another start of the machine")
        engine = engine_of(tmp_path, flush="async")
        assert why_not(engine) == "this store has not had everything yet that was acknowledged"
        engine.store.close()
    with opened(tmp_path) as engine:
        assert why_not(engine), "until it has had everything again"


async def test_a_stop_flushes_what_would_be_flushed_later_and_leaves_no_mark_of_it(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, flush="async")
    engine.store.flush_every(60_000)
    replica = engine.replica
    replica.start()
    host = Host(replica.step, replica.fail, lambda _: None, lambda: None, lambda: ())
    engine.mode.start(host, TaskGuard(on_end=lambda _: None))
    while not engine.may_answer() or engine.store.flushed_position < engine.store.end_position:
        await asyncio.sleep(0)
    append(engine.store)
    end = engine.store.end_position
    assert (mark := tmp_path / "data" / "unflushed.json").exists()
    await engine.close(orderly=True, seconds=30)
    engine.check()
    assert not mark.exists()
    assert engine.store.flushed_position == end


async def test_a_stop_in_order_does_not_make_good_what_a_store_lost_before_it_has_heard_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process would lead at once, and acknowledge messages until a follower tells it what it lacks."""
    engine = engine_of(tmp_path, flush="async")
    append(engine.store)
    flush(engine.store)
    engine.store.close()
    monkeypatch.setattr(unflushed, "boot_id", lambda: "another start of the machine")
    another = {**STATIC, "peers": {"2": "b:1", "3": "c:1"}}
    for replication in (another, another, STATIC):
        engine = engine_of(tmp_path, flush="async", replication=replication)
        assert not engine.mode.seat.trusted
        replica = engine.replica
        replica.start()
        host = Host(replica.step, replica.fail, lambda _: None, lambda: None, lambda: ())
        engine.mode.start(host, TaskGuard(on_end=lambda _: None))
        while replication is STATIC and not engine.may_answer():
            await asyncio.sleep(0)
        assert (replica.machine.leads is None) == (replication is another)
        await engine.close(orderly=True, seconds=30)
        engine.check()
        assert (tmp_path / "data" / "unflushed.json").exists() == (replication is another)


@pytest.mark.parametrize("known", [False, True])
async def test_a_store_that_may_have_lost_its_end_is_trusted_anew_once_it_is_known_what_that_has_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Else each crash of a process passes for one of the machine, for ever after that has gone down once."""
    monkeypatch.setattr(engine_module, "_ACCOUNT_SECONDS", 0)
    engine_of(tmp_path, flush="async").store.close()
    monkeypatch.setattr(unflushed, "boot_id", lambda: "another start of the machine")
    monkeypatch.setattr(ByRoles, "accounted", property(lambda _: known))
    engine = engine_of(tmp_path, flush="async")
    accounting = asyncio.ensure_future(engine._account())
    await asyncio.wait([accounting], timeout=None if known else 0)
    accounting.cancel()
    engine.store.close()
    engine = engine_of(tmp_path, flush="async")
    assert engine.mode.seat.trusted == known
    engine.store.close()


LEASE_MS = 60_000


def granted(epoch: int, *, hand_over: int | None = None, later_ms: int = 0) -> Heard:
    """Broker 2 is to lead, alone in sync; asked for so much later than now."""
    view = RoleView(
        epoch=Epoch(epoch), master=BrokerId(2), master_address="b:1", master_registration=Registration(1), version=1,
        members=(BrokerId(2),), processes=(Registration(1),), learners=(), min_in_sync=1,
    )  # fmt: skip
    target = None if hand_over is None else BrokerId(hand_over)
    return Heard(Granted(view=view, holder_ms=LEASE_MS, hand_over=target), boot_ms() + later_ms)


async def test_a_leader_that_hears_of_later_epochs_by_its_own_next_leadership_leads_that(tmp_path: Path) -> None:
    """It was elected again while it did not hear, be it suspended: one step ends the one and begins the other."""
    (tmp_path / "data").mkdir()
    engine = engine_of(tmp_path, replication=ALONE)
    engine.replica.start()
    engine.replica.step(Registered(Registration(1)))
    for epoch in (1, 3):
        engine.replica.step(granted(epoch))
        engine.check()
        assert (engine.metadata.epoch, engine.metadata.leading) == (epoch, True)
        while not engine.may_answer():
            await asyncio.sleep(0)
        append(engine.store)
    await engine.close(orderly=True, seconds=30)
    engine.check()


def registered(root: Path) -> GroupEngine:
    """The engine of a replica that the controllers know."""
    (root / "data").mkdir()
    engine = engine_of(root, replication=ALONE)
    engine.replica.step(Registered(Registration(1)))
    return engine


async def test_a_hand_over_that_is_withdrawn_before_service_begins_begins_none(tmp_path: Path) -> None:
    engine = registered(tmp_path)
    for target in (None, 3, None):
        engine.replica.step(granted(1, hand_over=target))
    assert not engine.may_answer(), "nothing is flushed yet, the barrier neither"
    assert engine.leadership.current == LedByNobody()
    engine.replica.start()
    while not engine.may_answer():
        await asyncio.sleep(0)
    assert engine.leadership.current == LedHere(1)
    await engine.close(orderly=True, seconds=30)


async def test_a_hand_over_that_is_withdrawn_after_the_lease_has_ended_begins_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = registered(tmp_path)
    engine.replica.start()
    engine.replica.step(granted(1))
    while not engine.may_answer():
        await asyncio.sleep(0)
    engine.replica.step(granted(1, hand_over=3))
    late = granted(1)
    for module in (replica_module, standing_module):
        monkeypatch.setattr(module, "boot_ms", lambda: boot_ms() + 2 * LEASE_MS)
    engine.replica.step(late)
    assert not engine.may_answer()
    assert engine.leadership.current == LedByNobody()
    engine.replica.step(granted(1, later_ms=2 * LEASE_MS))
    assert engine.leadership.current == LedHere(1)
    await engine.close(orderly=True, seconds=30)


async def test_who_hands_over_takes_nothing_when_its_barrier_is_committed(tmp_path: Path) -> None:
    engine = registered(tmp_path)
    engine.replica.step(granted(1))
    engine.replica.step(granted(1, hand_over=3))
    engine.replica.start()
    while not engine.may_answer():
        await asyncio.sleep(0)
    assert engine.leadership.current == LedByNobody()
    engine.replica.step(granted(1))
    assert engine.leadership.current == LedHere(1)
    await engine.close(orderly=True, seconds=30)


async def test_a_leader_whose_store_has_failed_answers_nothing_though_its_lease_runs(tmp_path: Path) -> None:
    engine = registered(tmp_path)
    engine.replica.start()
    engine.replica.step(granted(1))
    while not engine.may_answer():
        await asyncio.sleep(0)
    engine.replica.fail(OSError(errno.EIO, "a flush failed"))
    assert engine.replica.machine.serving(boot_ms()) == Epoch(1), "the machine has not heard of it"
    assert not engine.may_answer()
    assert engine.readable() is None
    assert engine.leadership.current == LedByNobody()
    await engine.close(orderly=False, seconds=30)


async def test_what_is_committed_is_known_to_a_follower_before_whoever_waits_hears_of_it(tmp_path: Path) -> None:
    seen: list[int] = []
    (tmp_path / "data").mkdir()
    with opened(tmp_path) as engine:
        engine.metadata.promote(1)
        ensure_defaults(engine.metadata, DefaultsOptions("c", "g"))
        engine.metadata.demote()
        assert len(engine.metadata.topics) == 0, "nothing of it is committed"
        flush(engine.store)
        engine._owner = engine._owner._replace(on_commit=lambda *_: seen.append(len(engine.metadata.topics)))
        position = Position(engine.store.end_position)
        engine.committed(engine.store.advance(position), position)
        assert seen[0] > 0


async def test_a_follower_without_a_descriptor_for_metadata_reads_on_later_and_answers_nothing_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    with opened(tmp_path) as engine:
        engine.metadata.promote(1)
        ensure_defaults(engine.metadata, DefaultsOptions("c", "g"))
        engine.metadata.demote()
        flush(engine.store)
        monkeypatch.setattr(engine.replica.machine, "readable", lambda _: Position(0))
        monkeypatch.setattr(engine.replica, "step", lambda _: None)
        assert engine.readable() == 0
        position = Position(engine.store.end_position)
        with monkeypatch.context() as patch:
            patch.setattr(MessageStore, "read", none_left)
            engine.committed(engine.store.advance(position), position)
            engine.tick()
            assert engine.readable() is None
        engine.tick()
        assert engine.readable() == 0
        assert len(engine.metadata.topics) > 0


async def test_who_leads_by_a_lease_may_say_what_is_given_up_before_it_serves(tmp_path: Path) -> None:
    """A replica that heals may be just the one whose copy is needed before anything is committed."""
    engine = registered(tmp_path)
    assert engine.mode.rules(boot_ms()) is None
    engine.replica.step(granted(1))
    assert not engine.may_answer()
    assert engine.mode.rules(boot_ms()) == 1
    assert engine.mode.rules(boot_ms() + 2 * LEASE_MS) is None
    await engine.close(orderly=False, seconds=30)
