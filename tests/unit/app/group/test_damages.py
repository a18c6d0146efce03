"""A replica that has met damage: it is written down at once, and the process ends when the group can do without it."""

import asyncio
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from logherd.app.group import damages as damages_module
from logherd.app.group.beginning import failure_of
from logherd.app.group.damages import Damages, MustHeal
from logherd.app.group.giving import Giving
from logherd.app.group.mode import FollowerState, Mode
from logherd.controller.values import BrokerId
from logherd.group.seat import cluster_of
from logherd.model.names import Epoch, Position
from logherd.peers.pieces import Asked, decode_piece
from logherd.replication.epochs import NOWHERE, ORIGIN, EpochHistory, Point, Run
from logherd.replication.messages import ClusterId
from logherd.service.replica_view import InSyncView
from logherd.store import StoreDamaged, StoreFull, StoreStopped, begin_later
from logherd.store.damage_note import noted_damage
from logherd.store.files_os import OsFiles
from logherd.store.mending import survey
from logherd.store.pieces import PieceAsk, PieceState
from unit.app.group.stand import GROUP, OPTIONS
from unit.app.group.test_healing import filled, open_store, spoil
from unit.store.helpers import append

FILES = OsFiles()
SEGMENT = OPTIONS.log.segment_bytes


@dataclass
class Machine:
    leads: Epoch | None = None
    cluster: ClusterId = field(default_factory=lambda: cluster_of(GROUP))

    def serving(self, now: int) -> Epoch | None:
        del now
        return self.leads


@dataclass
class Lead:
    """As much of a mode as is asked."""

    name: str = "controller"
    machine: Machine = field(default_factory=Machine)
    in_sync: tuple[int, ...] = (1,)
    flushed: int | None = None
    roster: object = None

    def rules(self, now: int) -> Epoch | None:
        return self.machine.serving(now)

    def followers(self) -> Sequence[FollowerState]:
        return [
            FollowerState(BrokerId(2), 2 in self.in_sync, None if self.flushed is None else Position(self.flushed), 0)
        ]

    def members(self) -> InSyncView:
        return InSyncView(members=self.in_sync, version=1, min_in_sync=2)


def damages_of(root: Path, mode: Lead) -> Damages:
    return Damages(FILES, str(root), cast("Mode", mode))


def damage(root: Path, offset: int = 7) -> StoreDamaged:
    return StoreDamaged(f"{root}/commitlog/{0:020d}", offset, "the record checksum differs", str(root))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damages_module, "_LOOK_SECONDS", 0)


async def test_a_follower_ends_at_once_and_each_place_is_noted_once(tmp_path: Path) -> None:
    damages = damages_of(tmp_path, Lead())
    waiting = asyncio.ensure_future(damages.time_to_heal())
    await asyncio.sleep(0)
    assert not waiting.done()
    for offset in (7, 7, 9):
        damages.found(damage(tmp_path, offset))
    await asyncio.wait_for(waiting, 10)
    assert damages.count == 2
    assert [place.offset for place in noted_damage(FILES, str(tmp_path))] == [7, 9]


@pytest.mark.parametrize(("mode", "enough"), [("controller", (1, 2)), ("raft", (1, 2, 3))])
async def test_a_leader_ends_once_others_could_lead(tmp_path: Path, mode: str, enough: tuple[int, ...]) -> None:
    lead = Lead(mode, Machine(Epoch(4)), enough[:-1])
    damages = damages_of(tmp_path, lead)
    damages.found(damage(tmp_path))
    waiting = asyncio.ensure_future(damages.time_to_heal())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    lead.in_sync = enough
    await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize(("number", "stopped"), [(errno.EIO, True), (errno.EROFS, True), (errno.EMFILE, False)])
async def test_damage_that_cannot_be_noted_because_the_disk_does_nothing_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, stopped: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(damages_module, "note_damage", fail)
    damages = damages_of(tmp_path, Lead("controller", Machine(Epoch(4)), (1,)))
    damages.found(damage(tmp_path))
    waiting = asyncio.ensure_future(damages.time_to_heal())
    for _ in range(20):
        await asyncio.sleep(0)
    assert waiting.done() == stopped, "though nobody could lead in its place"
    assert isinstance(damages.stopped, StoreStopped) == stopped
    waiting.cancel()


@pytest.mark.parametrize("why", [StoreFull("no space"), OSError(errno.EMFILE, os.strerror(errno.EMFILE))])
async def test_nobody_leaves_to_heal_before_the_damage_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    """The next process would know of nothing to heal, and meet the same damage."""

    def full(*_: object) -> None:
        raise why

    damages = damages_of(tmp_path, Lead())
    with monkeypatch.context() as patch:
        patch.setattr(damages_module, "note_damage", full)
        damages.found(damage(tmp_path))
        damages.found(damage(tmp_path, 9))
        waiting = asyncio.ensure_future(damages.time_to_heal())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 10)
    assert damages.stopped is None
    assert [place.offset for place in noted_damage(FILES, str(tmp_path))] == [7, 9]


async def test_a_leader_that_is_named_by_hand_stays(tmp_path: Path) -> None:
    lead = Lead("static", Machine(Epoch(4)), (1, 2, 3))
    damages = damages_of(tmp_path, lead)
    damages.found(damage(tmp_path))
    waiting = asyncio.ensure_future(damages.time_to_heal())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    lead.machine.leads = None  # somebody else was promoted
    await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize(("mode", "in_sync"), [("controller", (1, 2)), ("raft", (1, 2)), ("static", (1,))])
async def test_a_leader_whose_damage_holds_up_a_follower_ends_once_another_has_what_is_damaged(
    tmp_path: Path, mode: str, in_sync: tuple[int, ...]
) -> None:
    lead = Lead(mode, Machine(Epoch(4)), (1,), flushed=5_000)
    damages = damages_of(tmp_path, lead)
    damages.withheld(damage(tmp_path), 5_000)
    waiting = asyncio.ensure_future(damages.time_to_heal())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    lead.flushed, lead.in_sync = 5_001, in_sync
    await asyncio.wait_for(waiting, 10)


def test_whatever_met_the_damage_the_next_process_heals() -> None:
    error = failure_of(StoreDamaged("commitlog/0", 7, "met while shipping", "."))
    assert isinstance(error, MustHeal)
    assert error.starts_again
    again = MustHeal("met by a reader")
    assert failure_of(again) is again


async def test_what_is_asked_for_is_given_and_damage_met_by_that_is_noted(tmp_path: Path) -> None:
    root = filled(tmp_path)
    spoil(root, SEGMENT + 700)
    (root / "damage.json").unlink()
    store = open_store(root)
    try:
        lead = Lead(machine=Machine(Epoch(2)))
        giving = Giving(FILES, str(root), store, cast("Mode", lead), epochs=EpochHistory)

        async def said(start: int, end: int, cluster: str = str(GROUP)) -> tuple[PieceState, bool, int] | None:
            ask = PieceAsk(start=start, end=end)
            answer = await giving.give(Asked(cluster=cluster, broker="2", ask=ask))
            if answer is None:
                return None
            given, data = decode_piece(b"".join(answer))
            return given.state, given.leads, len(data)

        assert await said(0, 100, "another/group") is None
        first = await said(0, 100)
        assert first is not None
        assert first[:2] == (PieceState.WHOLE, True)
        assert first[2] >= 100
        append(store, body=b"flushed, and not committed")
        batch = store.take_batch()
        assert batch is not None
        batch.write_and_flush()
        store.flushed(batch)
        assert store.committed_position < store.flushed_position
        assert await said(store.committed_position - 10, store.committed_position + 1) == (PieceState.NOT_YET, True, 0)
        ask = PieceAsk(start=store.committed_position, end=store.committed_position + 1)
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=ask))
        assert answer is not None
        given, _ = decode_piece(answer[0])
        assert (given.log_end, given.knows) == (store.end_position, None)
        lead.roster = SimpleNamespace(brokers=(1, 2, 3))
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=PieceAsk(start=0, end=100)))
        assert answer is not None
        assert decode_piece(answer[0])[0].knows == (1, 2, 3)
        assert giving.damages.count == 0
        (spoilt,) = survey(FILES, str(root)).damages
        assert await said(spoilt.start, spoilt.start + 1) == (PieceState.DAMAGED, True, 0)
        assert giving.damages.count == 1
    finally:
        store.close()


async def test_a_replica_that_hears_of_no_commit_gives_what_another_one_knows_to_be_committed(tmp_path: Path) -> None:
    """In a group of two, of which the other one heals, there is nobody from whom to hear it."""
    root = filled(tmp_path, uncommitted=9)
    (root / "whole").mkdir()
    other = filled(root / "whole", uncommitted=9)
    store = open_store(other)
    store.advance(store.end_position)
    store.close()
    committed = survey(FILES, str(root)).committed
    spoil(other, committed + 50)
    (damage,) = survey(FILES, str(other)).mendable
    assert damage.start == committed
    ask = PieceAsk(start=damage.start, end=damage.end, before=damage.before, after=damage.after)
    store = open_store(root)
    try:
        assert store.committed_position == committed
        giving = Giving(FILES, str(root), store, cast("Mode", Lead()), epochs=EpochHistory)
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=ask))
        assert answer is not None
        given, data = decode_piece(b"".join(answer))
        assert (given.state, given.end) == (PieceState.WHOLE, damage.end)
        assert len(data) == damage.end - damage.start
    finally:
        store.close()


async def test_whoever_asks_for_what_is_deleted_hears_where_the_log_begins(tmp_path: Path) -> None:
    root = filled(tmp_path)
    begin_later(FILES, str(root), position=2 * SEGMENT, epoch=2)
    store = open_store(root)
    try:
        base = Point(Epoch(2), Position(store.min_position))
        follows = cast("Mode", Lead(machine=Machine(None)))
        giving = Giving(FILES, str(root), store, follows, epochs=lambda: EpochHistory(base))
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=PieceAsk(start=SEGMENT, end=SEGMENT + 1)))
        assert answer is not None
        given, _ = decode_piece(b"".join(answer))
        assert (given.state, given.start, given.epoch, given.leads) == (PieceState.GONE, 2 * SEGMENT, 2, False)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("leads", "seen", "beyond", "lacks"),
    [
        (5, 4, 1, True),  # committed there in epoch 4 or before; all of that which is here ends before it
        (5, 4, 0, False),  # it is here, and not known to be committed
        (5, 5, 1, False),  # it may have been committed in epoch 5
        (5, None, 1, False),  # a former release does not say
        (None, 4, 1, False),  # who does not lead decides nothing
    ],
)  # fmt: skip
async def test_a_leader_knows_by_its_epochs_what_an_operator_has_given_up(
    tmp_path: Path, leads: int | None, seen: int | None, beyond: int, lacks: bool
) -> None:
    """Also before anything of its epoch is committed: it may have to wait for just the replica that asks."""
    store = open_store(filled(tmp_path))
    try:
        committed = store.committed_position
        append(store, body=b"of epochs before")
        begun = Position(store.end_position)
        append(store, body=b"the barrier")
        history = EpochHistory(ORIGIN, (Run(Epoch(3), NOWHERE), Run(Epoch(5), begun)))
        lead = Lead(machine=Machine(Epoch(leads) if leads is not None else None))
        giving = Giving(FILES, str(tmp_path), store, cast("Mode", lead), epochs=lambda: history)
        ask = PieceAsk(start=committed, end=begun + beyond)
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=ask, epoch=seen))
        assert answer is not None
        given, _ = decode_piece(answer[0])
        assert given.state is (PieceState.DIFFERS if lacks else PieceState.NOT_YET)
        assert given.leads is (leads is not None)
    finally:
        store.close()


@pytest.mark.parametrize("next_too", [False, True])
async def test_damage_beside_what_is_given_is_noted_and_one_record_beside_it_is_enough(
    tmp_path: Path, *, next_too: bool
) -> None:
    root, asker = filled(tmp_path / "here"), filled(tmp_path / "there")
    spoil(root, SEGMENT + 700)
    (here,) = survey(FILES, str(root)).damages
    spoil(asker, here.end + 50)
    (there,) = survey(FILES, str(asker)).damages
    assert there.before is not None
    assert there.before.end == here.end == there.start
    if next_too:
        spoil(root, there.end + 50)
    store = open_store(root)
    try:
        giving = Giving(FILES, str(root), store, cast("Mode", Lead()), epochs=EpochHistory)
        ask = PieceAsk(start=there.start, end=there.end, before=there.before, after=there.after)
        answer = await giving.give(Asked(cluster=str(GROUP), broker="2", ask=ask))
        assert answer is not None
        given, _ = decode_piece(answer[0])
        assert given.state is (PieceState.NOT_YET if next_too else PieceState.WHOLE)
        assert bool(answer[1]) is not next_too
        assert given.log_end == (store.end_position if next_too else None), "it is here, and nothing proves it"
        assert giving.damages.count == 1
    finally:
        store.close()
