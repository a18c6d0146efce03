"""A replica heals with what others give it; what cannot be healed makes it another store, and never before that."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from logherd.app.group import healing
from logherd.app.group.beginning import set_aside
from logherd.app.group.healing import Healer, Progress
from logherd.app.group.muster import Muster
from logherd.app.group.replica_file import ReplicaFile
from logherd.group.output import Promise
from logherd.model.names import Epoch
from logherd.peers.errors import PeerError
from logherd.peers.pieces import Asked, Given
from logherd.service.controllers.asking import Enrolled
from logherd.store import MessageStore, StoreDamaged, begin_later
from logherd.store.checkpoint import SLOT_OFFSETS, encode_slot
from logherd.store.damage_note import note_damage, noted_damage
from logherd.store.files_os import OsFiles
from logherd.store.mending import replica_checkpoint, restore_files, survey
from logherd.store.pieces import Kept, PieceState, read_piece
from unit.app.group.stand import GROUP, OPTIONS
from unit.store.bad_disk import BLOCK, BadFiles, survives
from unit.store.helpers import SimClock, append, bodies

FILES = OsFiles()
SEGMENT = OPTIONS.log.segment_bytes


def open_store(root: Path, files: OsFiles = FILES) -> MessageStore:
    return MessageStore.open(root, OPTIONS, files, clock=SimClock())


def filled(root: Path, *, uncommitted: int = 0, more: int = 0) -> Path:
    """A closed store of a replica with several segments."""
    store = open_store(root)
    for number in range(150):
        append(store, "AB"[number % 2], body=b"%05d" % number * 40)
    for number in range(more):
        append(store, "B", body=b"more%d" % number * 33)
    committed = store.end_position
    for number in range(uncommitted):
        append(store, "A", body=b"late%d" % number * 20)
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
    store.advance(committed)
    store.close()
    identity(root).keep(Promise(Epoch(3)))
    return root


def identity(root: Path) -> ReplicaFile:
    empty = not (root / "replica.json").exists()
    return ReplicaFile.open(FILES, str(root), GROUP, 2, log_empty=empty)


def spoil(root: Path, position: int, size: int = 1) -> None:
    path = root / "commitlog" / f"{position - position % SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    at = position % SEGMENT
    data[at : at + size] = bytes(each ^ 0x11 for each in data[at : at + size])
    path.write_bytes(data)
    note_damage(FILES, str(root), StoreDamaged(str(path), at, "spoilt", str(root)))


class Peer:
    """Another replica with the store at `root`; None: it does not run."""

    def __init__(self, name: str, root: Path | None, *, leads: bool = False) -> None:
        self.name = name
        self.root = root
        self.leads = leads
        self.asked = 0
        self.heard: Asked | None = None
        self.says: PieceState | None = None
        self.spoils = 0
        self.begins: int | None = None
        self.knows: tuple[int, ...] | None = None
        self.log_end: int | None = None

    async def ask(self, asked: Asked) -> tuple[Given, bytes]:
        self.asked += 1
        self.heard = asked
        if self.root is None:
            raise PeerError("connection refused")
        if self.says is not None:
            return Given(state=self.says, leads=self.leads, log_end=self.log_end, knows=self.knows), b""
        found = survey(FILES, str(self.root))
        kept = Kept(found.log_start, found.committed)
        piece = read_piece(FILES, str(self.root), asked.ask, kept, bytes_max=2000)
        data = bytearray(piece.data)
        if self.spoils and data:
            self.spoils -= 1
            data[-1] ^= 1
        start = (self.begins or found.log_start) if piece.state is PieceState.GONE else 0
        given = Given(
            state=piece.state, end=piece.end, leads=self.leads, start=start, epoch=2 if start else 0, knows=self.knows
        )
        return given, bytes(data)


def healer(root: Path, *peers: Peer, files: OsFiles = FILES) -> Healer:
    return Healer(
        files, str(root), str(GROUP), 2, peers, identity=lambda: identity(root), unlock=lambda: None,
        try_open=lambda: open_store(root, files).close(),
    )  # fmt: skip


async def heal(root: Path, *peers: Peer) -> Healer:
    made = healer(root, *peers)
    await asyncio.wait_for(made.run(), 30)
    assert noted_damage(FILES, str(root)) == ()
    return made


def heal_on(files: BadFiles, root: Path, whole: Path) -> None:
    """In a process of its own: nothing of what is lost may be touched in a mapping."""

    def run() -> None:
        made = healer(root, Peer("1", whole), files=files)
        asyncio.run(asyncio.wait_for(made.run(), 30))
        assert not files.lost
        assert noted_damage(FILES, str(root)) == ()

    survives(run)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "_ROUND_SECONDS", 0)
    monkeypatch.setattr(healing, "_DELETED_SECONDS", 0)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return filled(tmp_path / "damaged"), filled(tmp_path / "whole")


def content(root: Path) -> list[list[bytes]]:
    store = open_store(root)
    try:
        store.advance(store.end_position)
        return [bodies(store, topic) for topic in "AB"]
    finally:
        store.close()


async def test_it_asks_until_somebody_has_the_range_and_stays_the_store_that_it_was(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    before = identity(damaged)
    spoil(damaged, SEGMENT + 700)
    spoil(damaged, 2 * SEGMENT + 10, 3000)
    away, behind, good = Peer("1", None), Peer("3", whole), Peer("4", whole)
    behind.says = PieceState.NOT_YET
    good.spoils = 1
    made = await heal(damaged, away, behind, good)
    assert content(damaged) == content(whole)
    assert (identity(damaged).store_id, identity(damaged).promise) == (before.store_id, before.promise)
    assert made.progress.damaged_ranges == 2
    assert 3000 < made.progress.fetched_bytes < 6000
    assert away.asked < 5, "who has given something is asked first"


async def test_whose_bytes_are_refused_is_asked_last(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    spoil(damaged, 2 * SEGMENT + 10, 3000)
    bad, good = Peer("1", whole), Peer("3", whole)
    bad.spoils = 1_000_000
    await heal(damaged, bad, good)
    assert content(damaged) == content(whole)
    assert bad.asked == 1


async def test_who_alone_gives_and_gives_what_is_wrong_is_told_of_once(
    pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    bad = Peer("1", whole)
    bad.spoils = 20
    made = healer(damaged, bad)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while bad.spoils > 10 or made.progress.doing != "waiting":
            await asyncio.sleep(0)
        assert made.progress.in_vain.startswith("broker 1: gives what does not belong there")
        await running
    assert content(damaged) == content(whole)
    assert caplog.messages.count("what a peer gave was refused") == 1


async def test_it_waits_and_tells_why_while_nobody_has_it(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    away, other = Peer("1", None), Peer("3", whole)
    other.says = PieceState.DIFFERS  # it does not lead, so this decides nothing
    made = healer(damaged, away, other)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while made.progress.doing != "waiting":
            await asyncio.sleep(0)
        assert made.progress.said == {"1": "connection refused", "3": str(PieceState.DIFFERS)}
        away.root = whole
        await running
    assert content(damaged) == content(whole)


@pytest.mark.parametrize(
    ("states", "nobody"),
    [
        ((PieceState.DAMAGED, PieceState.DAMAGED), True), ((PieceState.DAMAGED, PieceState.GONE), True),
        ((PieceState.DAMAGED, PieceState.NOT_YET), True), ((PieceState.DAMAGED, None), False),
        ((PieceState.DAMAGED, PieceState.DIFFERS), False), ((PieceState.NOT_YET, PieceState.NOT_YET), False),
    ],
)  # fmt: skip
async def test_that_nobody_can_ever_give_it_is_told_apart_from_a_peer_that_is_away(
    pair: tuple[Path, Path], states: tuple[PieceState | None, ...], nobody: bool
) -> None:
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    peers = [Peer(name, whole if state is not None else None) for name, state in zip("13", states, strict=True)]
    for peer, state in zip(peers, states, strict=True):
        peer.says, peer.log_end = state, 0
    made = healer(damaged, *peers)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while made.progress.doing != "waiting":
            await asyncio.sleep(0)
        assert made.progress.nobody_has is nobody
        peers[0].root, peers[0].says = whole, None  # as when its volume was brought back
        await running
    assert made.progress.nobody_has is False
    assert content(damaged) == content(whole)


def knowing(name: str, root: Path | None, *knows: int, says: PieceState | None = None) -> Peer:
    peer = Peer(name, root)
    peer.knows, peer.says = knows or None, says
    return peer


@pytest.mark.parametrize(
    ("roster", "third", "nobody"),
    [
        ((1, 2, 3), (1, 2, 3), True),
        ((1, 2, 3, 4), (1, 2, 3), False),  # a broker that this one has met is away
        ((1, 2, 3), (1, 2, 3, 4), False),  # or one that another has met
        ((1, 2, 3), (), False),  # whom it knows a former release does not say
    ],
)  # fmt: skip
async def test_empty_places_of_the_group_do_not_hide_that_nobody_has_it(
    pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture, roster: tuple[int, ...], third: tuple[int, ...],
    nobody: bool,
) -> None:  # fmt: skip
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    peers = [knowing("1", whole, 1, 2, 3, says=PieceState.DAMAGED), knowing("3", whole, *third, says=PieceState.GONE)]
    made = healer(damaged, *peers, *(Peer(str(number), None) for number in (4, 5, 6, 7)))
    made.muster = Muster(2, frozenset(roster))
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while peers[0].asked < 10:
            await asyncio.sleep(0)
        assert made.progress.nobody_has is nobody
        assert survey(FILES, str(damaged)).log_start == 0
        peers[0].says = None
        await running
    assert content(damaged) == content(whole)
    told = [each.getMessage() for each in caplog.records if "no broker of this group has" in each.getMessage()]
    assert len(told) == nobody
    assert not any("broker 4" in each for each in told), "nobody is there who could say anything"


@pytest.mark.parametrize("known", ["here", "there"])
async def test_whom_no_setting_here_names_and_somebody_knows_may_have_it(pair: tuple[Path, Path], known: str) -> None:
    """As when this replica was away while broker 4 came."""
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    told = (1, 2, 3, 4) if known == "there" else ()
    peers = [knowing(name, whole, *told, says=PieceState.DAMAGED) for name in "13"]
    made = healer(damaged, *peers)
    made.muster = Muster(2, frozenset({1, 2, 3, 4}) if known == "here" else None)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while peers[1].asked < 10:
            await asyncio.sleep(0)
        assert made.progress.nobody_has is False
        peers[0].says = None
        await running


@pytest.mark.parametrize(("extra", "nobody"), [(0, True), (1, False)])
async def test_who_waits_to_hear_that_it_is_committed_may_have_it(
    pair: tuple[Path, Path], extra: int, nobody: bool
) -> None:
    damaged, whole = pair
    spoil(damaged, SEGMENT + 700)
    (damage,) = survey(FILES, str(damaged)).damages
    behind = knowing("3", whole, says=PieceState.NOT_YET)
    behind.log_end = damage.start + extra
    peers = [knowing("1", whole, says=PieceState.DAMAGED), behind]
    made = healer(damaged, *peers)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(30):
        while behind.asked < 10:
            await asyncio.sleep(0)
        assert made.progress.nobody_has is nobody
        behind.says = None
        await running
    assert content(damaged) == content(whole)


@pytest.mark.parametrize("order", [1, -1])
async def test_two_of_which_each_lacks_what_is_next_to_the_damage_of_the_other_heal_each_other(
    pair: tuple[Path, Path], tmp_path: Path, order: int
) -> None:
    """What stands beside the damage is compared; at the other one just that is damaged."""
    one, other = pair
    whole = filled(tmp_path / "never damaged")
    spoil(one, SEGMENT + 700)
    (first,) = survey(FILES, str(one)).damages
    spoil(other, first.end + 50 if order > 0 else first.start - 50)
    (second,) = survey(FILES, str(other)).damages
    assert first.end == second.start if order > 0 else second.end == first.start
    await heal(one, Peer("1", other))
    await heal(other, Peer("2", one))
    assert content(one) == content(other) == content(whole)


@pytest.mark.parametrize("at", [SEGMENT + 700, 2 * SEGMENT - 900, SEGMENT - 900], ids=["middle", "end", "next file"])
async def test_two_of_which_one_lacks_all_that_is_next_to_the_damage_of_the_other_heal_each_other(
    pair: tuple[Path, Path], tmp_path: Path, at: int
) -> None:
    """A leader that nobody can replace goes on so, and the other one waits for nobody else."""
    one, other = pair
    whole = filled(tmp_path / "never damaged")
    spoil(one, at)
    (first,) = survey(FILES, str(one)).damages
    assert first.after is not None
    spoil(other, first.start - 50)
    spoil(other, first.after.start + 50)
    leader = Peer("1", other, leads=True)
    await heal(one, leader)
    assert leader.heard is not None
    assert leader.heard.ask.further
    await heal(other, Peer("2", one))
    assert content(one) == content(other) == content(whole)


async def test_uncommitted_damage_ends_the_log_before_it_under_another_name(tmp_path: Path) -> None:
    damaged, whole = filled(tmp_path / "damaged", uncommitted=10), filled(tmp_path / "whole")
    before = identity(damaged).store_id
    found = survey(FILES, str(damaged))
    spoil(damaged, found.committed + 250)
    spoil(damaged, SEGMENT + 700)
    peer = Peer("1", whole)
    await heal(damaged, peer)
    assert peer.asked == 1
    assert identity(damaged).store_id != before
    store = open_store(damaged)
    assert found.committed <= store.end_position < found.committed + 400
    store.close()
    for kept, all_of_it in zip(content(damaged), content(whole), strict=True):
        assert kept[: len(all_of_it)] == all_of_it[: len(kept)]
    assert any((damaged / "dropped").iterdir())


async def test_a_store_that_does_not_open_is_set_aside_rather_than_cut_where_it_is_committed(
    pair: tuple[Path, Path],
) -> None:
    """What was fetched the disk has lost again before the store is opened."""
    damaged, whole = pair
    before = identity(damaged).store_id
    spoil(damaged, SEGMENT + 700)

    def opens() -> None:
        if (damaged / "commitlog").exists():
            spoil(damaged, SEGMENT + 700)
            raise StoreDamaged("commitlog", SEGMENT + 700, "spoilt again", str(damaged))

    made = Healer(
        FILES, str(damaged), str(GROUP), 2, [Peer("1", whole)], identity=lambda: identity(damaged),
        unlock=lambda: None, try_open=opens,
    )  # fmt: skip
    await asyncio.wait_for(made.run(), 30)
    assert identity(damaged).store_id != before
    assert not list((damaged / "commitlog").glob("*"))
    assert not list(damaged.rglob("dropped")), "all that was here is still together"


@pytest.mark.parametrize("blocks", [[0], [1], [0, 1]])
def test_what_the_disk_cannot_read_is_fetched_and_written_over(pair: tuple[Path, Path], blocks: list[int]) -> None:
    damaged, whole = pair
    before, files = identity(damaged).store_id, BadFiles()
    for block in blocks:
        files.lose(f"{damaged}/commitlog/{SEGMENT:020d}", block * BLOCK)
    heal_on(files, damaged, whole)
    assert content(damaged) == content(whole)
    assert identity(damaged).store_id == before


def test_a_disk_that_keeps_nothing_at_a_place_is_named_and_left_alone(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It takes every write, and gives the same error afterwards."""
    damaged, whole = pair
    monkeypatch.setattr(healing, "_UNKEPT_SECONDS", 3600)
    files, peer = BadFiles(mends=False), Peer("1", whole)
    files.lose(f"{damaged}/commitlog/{SEGMENT:020d}", 0)

    async def until_told() -> None:
        made = healer(damaged, peer, files=files)
        task = asyncio.create_task(made.run())
        try:
            while not made.progress.unkept:
                await asyncio.wait([task], timeout=0.01)
                assert not task.done()
                assert caplog.messages.count("damage in the log") <= 3
        finally:
            task.cancel()
        assert f"{SEGMENT:020d}" in made.progress.unkept
        assert "replace the disk" in made.progress.unkept
        assert caplog.messages.count("damage in the log") == 3

    survives(lambda: asyncio.run(asyncio.wait_for(until_told(), 30)))


async def test_what_a_disk_does_not_keep_holds_up_nothing_else(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, whole = pair
    monkeypatch.setattr(healing, "_UNKEPT_SECONDS", 3600)
    spoil(damaged, SEGMENT + 700)
    (unkept,) = survey(FILES, str(damaged)).damages
    mends = list[int]()

    def mend(files: OsFiles, root: str, start: int, data: bytes, *, end: int) -> None:
        healing_mend(files, root, start, data, end=end)
        mends.append(start)
        if start == unkept.start:
            spoil(damaged, SEGMENT + 700)
            if len(mends) == 3:  # and more is met when the log is read again
                spoil(damaged, 2 * SEGMENT + 300)

    healing_mend = healing.mend
    monkeypatch.setattr(healing, "mend", mend)
    made = healer(damaged, Peer("1", whole))
    run = asyncio.create_task(made.run())
    async with asyncio.timeout(30):
        while len(mends) < 4 or made.progress.doing != "waiting":
            await asyncio.sleep(0)
    run.cancel()
    assert mends[:3] == [unkept.start] * 3
    assert len(mends) == 4
    assert [each.start for each in survey(FILES, str(damaged)).damages] == [unkept.start]
    assert "replace the disk" in made.progress.unkept
    assert made.progress.said == {}


def test_the_block_at_the_end_of_the_log_is_written_over_too(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    before, files = identity(damaged).store_id, BadFiles()
    end = survey(FILES, str(whole)).committed
    assert end % BLOCK
    files.lose(f"{damaged}/commitlog/{end - end % SEGMENT:020d}", end % SEGMENT)
    heal_on(files, damaged, whole)
    assert content(damaged) == content(whole)
    assert identity(damaged).store_id == before


def test_what_is_not_committed_and_cannot_be_read_ends_the_log_under_another_name(tmp_path: Path) -> None:
    damaged, whole = filled(tmp_path / "damaged", uncommitted=120), filled(tmp_path / "whole", more=10)
    before, files = identity(damaged).store_id, BadFiles()
    committed = survey(FILES, str(damaged)).committed
    lost = committed + 6000
    files.lose(f"{damaged}/commitlog/{lost - lost % SEGMENT:020d}", lost % SEGMENT)
    heal_on(files, damaged, whole)
    assert identity(damaged).store_id != before
    store = open_store(damaged)
    assert committed <= store.end_position <= lost
    store.close()
    assert any((damaged / "dropped").iterdir())


@pytest.mark.parametrize("lost", [True, False])
def test_a_format_file_that_is_lost_costs_no_name(pair: tuple[Path, Path], lost: bool) -> None:
    """The log is the one that it was, so what was acknowledged still counts."""
    damaged, whole = pair
    before, files = identity(damaged).store_id, BadFiles()
    if lost:
        files.lose(f"{damaged}/store.json", 0)
    else:
        (damaged / "store.json").write_bytes(b"")
    note_damage(FILES, str(damaged), StoreDamaged(f"{damaged}/store.json", 0, "lost", str(damaged)))
    heal_on(files, damaged, whole)
    assert content(damaged) == content(whole)
    assert identity(damaged).store_id == before


def test_queues_that_cannot_be_read_are_derived_again(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    files, path = BadFiles(), f"{damaged}/consumequeue/A/0/{0:020d}"
    files.lose(path, 0)
    note_damage(FILES, str(damaged), StoreDamaged(path, 0, "units cannot be read", str(damaged)))
    heal_on(files, damaged, whole)
    assert content(damaged) == content(whole)


async def test_what_was_not_committed_behind_damage_does_not_stand_against_what_was(tmp_path: Path) -> None:
    damaged, whole = filled(tmp_path / "damaged", uncommitted=10), filled(tmp_path / "whole", more=10)
    committed = survey(FILES, str(damaged)).committed
    spoil(damaged, committed - 100, 900)  # as far as into what was never committed
    (damage,) = survey(FILES, str(damaged)).mendable
    assert damage.after is not None
    assert damage.start < committed < damage.after.start
    await heal(damaged, Peer("1", whole))
    for kept, all_of_it in zip(content(damaged), content(whole), strict=True):
        assert kept == all_of_it[: len(kept)]
    assert survey(FILES, str(damaged)).committed >= committed


async def test_two_that_are_damaged_at_different_places_heal_each_other(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    one, other = pair
    whole = content(filled(tmp_path / "third"))
    spoil(one, SEGMENT + 700, 2000)
    spoil(other, 2 * SEGMENT + 100, 2000)
    await asyncio.gather(heal(one, Peer("2", other)), heal(other, Peer("1", one)))
    assert content(one) == content(other) == whole


@pytest.mark.parametrize("state", [PieceState.DIFFERS, PieceState.GONE])
async def test_a_leader_with_another_log_means_a_new_beginning(pair: tuple[Path, Path], state: PieceState) -> None:
    damaged, whole = pair
    before = identity(damaged).store_id
    spoil(damaged, SEGMENT + 700)
    leader = Peer("1", whole, leads=True)
    leader.says = state
    await heal(damaged, leader)
    assert identity(damaged).store_id != before
    (aside,) = damaged.glob("aside-*")
    assert (aside / "commitlog").is_dir()
    assert content(damaged) == [[], []]


@pytest.mark.parametrize("order", [1, -1])
async def test_a_leader_that_has_deleted_it_is_followed_in_that_under_the_same_name(
    pair: tuple[Path, Path], tmp_path: Path, order: int
) -> None:
    """Whoever is away: the group's log begins there. Before that whoever has it is asked, in whatever order."""
    damaged, old = pair
    before = identity(damaged).store_id
    begin_later(FILES, str(old), position=2 * SEGMENT, epoch=2)
    spoil(damaged, SEGMENT + 700)
    leader, other = Peer("1", old, leads=True), Peer("3", filled(tmp_path / "with all"))
    await heal(damaged, *[leader, other][::order])
    assert survey(FILES, str(damaged)).log_start == 0
    spoil(damaged, SEGMENT + 700)
    other.root = None
    await heal(damaged, leader, other)
    assert survey(FILES, str(damaged)).log_start == 2 * SEGMENT
    assert identity(damaged).store_id == before
    assert content(damaged) == content(old)
    assert not list(damaged.glob("aside-*"))


async def test_a_process_that_is_to_end_reads_no_log_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def long_survey(_files: OsFiles, _root: str, *, progress: Callable[[int, int], None]) -> None:
        begun.set()
        until = time.monotonic() + 10
        try:
            while time.monotonic() < until:
                progress(1, 2)
        finally:
            if time.monotonic() < until:
                ended.set()

    root = filled(tmp_path / "one")
    monkeypatch.setattr(healing, "survey", long_survey)
    running = asyncio.create_task(healer(root).run())
    assert await asyncio.to_thread(begun.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 10)


def test_what_is_set_aside_is_durable_there_before_it_is_gone_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = filled(tmp_path / "damaged")
    synced: list[str] = []
    file = identity(root)
    sync = OsFiles.sync_dir

    def noted(files: OsFiles, path: str) -> None:
        synced.append(path)
        sync(files, path)

    monkeypatch.setattr(OsFiles, "sync_dir", noted)
    set_aside(FILES, file, "another log leads")
    (aside,) = root.glob("aside-*")
    assert synced[-2:] == [str(aside), str(root)]


def test_what_is_set_aside_is_what_this_program_made(tmp_path: Path) -> None:
    root = filled(tmp_path / "damaged")
    (root / "lost+found").mkdir()
    set_aside(FILES, identity(root), "another log leads")
    (aside,) = root.glob("aside-*")
    assert {"replica.json", "lost+found"} <= {path.name for path in root.iterdir()}
    assert not {path.name for path in root.iterdir()} & {path.name for path in aside.iterdir()}


def derive_less(root: Path, *, queues: int, index: int) -> None:
    """As when a process is killed: its checkpoint says how far its derived files go at least."""
    checkpoint = replica_checkpoint(FILES, str(root))
    file = FILES.open(f"{root}/checkpoint")
    for more in (1, 2):
        slot = replace(
            checkpoint, counter=checkpoint.counter + more, queues_dispatched=queues, index_dispatched=index,
            closed=False,
        )  # fmt: skip
        file.write(SLOT_OFFSETS[slot.counter % 2], (encode_slot(slot),))
    file.close()


@pytest.mark.parametrize("derived", ["to the end", "no index", "no queues"])
async def test_what_another_has_deleted_and_nobody_holds_is_deleted_here_too(
    pair: tuple[Path, Path], derived: str
) -> None:
    damaged, old = pair
    before = identity(damaged)
    if derived != "to the end":
        derive_less(damaged, queues=0 if derived == "no queues" else 5 * SEGMENT // 2, index=0)
    begin_later(FILES, str(old), position=2 * SEGMENT, epoch=2)
    spoil(damaged, 300)
    spoil(damaged, SEGMENT + 700)
    wiped = Peer("3", old)
    wiped.says, wiped.log_end = PieceState.NOT_YET, 0
    await heal(damaged, Peer("1", old), wiped)
    assert content(damaged) == content(old)
    assert content(old)[0]
    assert (identity(damaged).store_id, identity(damaged).promise) == (before.store_id, before.promise)
    store = open_store(damaged)
    assert (store.min_position, store.start_epoch) == (2 * SEGMENT, 2)
    store.close()
    assert not (damaged / "commitlog" / f"{0:020d}").exists()


async def test_what_all_members_have_deleted_is_deleted_here_too_whatever_places_are_empty(
    pair: tuple[Path, Path],
) -> None:
    damaged, old = pair
    begin_later(FILES, str(old), position=2 * SEGMENT, epoch=2)
    spoil(damaged, SEGMENT + 700)
    wiped = knowing("3", old, 1, 2, 3, says=PieceState.NOT_YET)
    wiped.log_end = 0
    made = healer(damaged, knowing("1", old, 1, 2, 3), wiped, Peer("4", None), Peer("5", None))
    made.muster = Muster(2, frozenset({1, 2, 3}), epoch=7)
    await asyncio.wait_for(made.run(), 30)
    assert wiped.heard is not None
    assert wiped.heard.epoch == 7
    assert content(damaged) == content(old)
    assert survey(FILES, str(damaged)).log_start == 2 * SEGMENT


async def test_controllers_that_know_of_somebody_by_now_keep_the_log(pair: tuple[Path, Path]) -> None:
    """They are asked once more right before anything is deleted."""
    damaged, old = pair
    begin_later(FILES, str(old), position=2 * SEGMENT, epoch=2)
    spoil(damaged, SEGMENT + 700)
    asked = 0

    async def enrolled() -> Enrolled:
        nonlocal asked
        asked += 1
        return Enrolled(frozenset({1, 2} if asked == 1 else {1, 2, 3}), Epoch(3))

    peer = Peer("1", old)
    made = healer(damaged, peer)
    made.muster = Muster(2, frozenset({1, 2}), enrolled=enrolled, epoch=3)
    run = asyncio.create_task(made.run())
    while peer.asked < 20 and not run.done():
        await asyncio.sleep(0)
    assert not run.done()
    run.cancel()
    assert asked == 2
    assert survey(FILES, str(damaged)).log_start == 0


@pytest.mark.parametrize("other", ["away", "damaged, too", "another log", "begins elsewhere", "may hold it"])
async def test_what_somebody_may_still_hold_is_waited_for(pair: tuple[Path, Path], other: str) -> None:
    damaged, old = pair
    begin_later(FILES, str(old), position=2 * SEGMENT, epoch=2)
    spoil(damaged, SEGMENT + 700)
    peers = [Peer("1", old), Peer("3", None if other == "away" else old)]
    peers[1].says = {
        "damaged, too": PieceState.DAMAGED, "another log": PieceState.DIFFERS, "begins elsewhere": PieceState.NOT_YET,
        "may hold it": PieceState.NOT_YET,
    }.get(other)  # fmt: skip
    (damage,) = survey(FILES, str(damaged)).damages
    peers[1].log_end = damage.start + (other == "may hold it")
    peers[0].begins = 2 * SEGMENT + 8 if other == "begins elsewhere" else None
    made = healer(damaged, *peers)
    run = asyncio.create_task(made.run())
    while peers[1].asked < 100 and not run.done():
        await asyncio.sleep(0)
    assert not run.done()
    assert made.progress.doing == "waiting"
    run.cancel()
    assert survey(FILES, str(damaged)).log_start == 0


@pytest.mark.parametrize("number", [0, 1, -2])
@pytest.mark.parametrize("kept", [None, 0, 3000])
async def test_a_file_that_is_gone_or_short_is_fetched(pair: tuple[Path, Path], number: int, kept: int | None) -> None:
    damaged, whole = pair
    before = identity(damaged).store_id
    path = sorted((damaged / "commitlog").iterdir())[number]
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept])
    made = await heal(damaged, Peer("1", whole))
    assert content(damaged) == content(whole)
    assert identity(damaged).store_id == before
    assert 0 < made.progress.fetched_bytes <= SEGMENT


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("more", [bytes(100), b"x" * 5000, b"y" * (SEGMENT + 1)], ids=["zeros", "a part", "all"])
async def test_a_file_that_reaches_into_the_next_is_cut_where_that_begins(
    pair: tuple[Path, Path], number: int, more: bytes
) -> None:
    damaged, whole = pair
    before = identity(damaged).store_id
    path = sorted((damaged / "commitlog").iterdir())[number]
    path.write_bytes(path.read_bytes() + more)
    made = await heal(damaged, Peer("1", whole))
    assert content(damaged) == content(whole)
    assert identity(damaged).store_id == before
    assert made.progress.fetched_bytes == 0


def test_a_strange_file_between_two_of_the_log_cuts_none_of_them(pair: tuple[Path, Path]) -> None:
    damaged, _ = pair
    strange = damaged / "commitlog" / f"{SEGMENT + 100:020d}"
    strange.write_bytes(b"x" * 100)
    sizes = {path: path.stat().st_size for path in (damaged / "commitlog").iterdir()}
    restore_files(FILES, str(damaged))
    assert {path: path.stat().st_size for path in sizes} == sizes


async def test_a_log_without_any_file_means_a_new_beginning(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    before = identity(damaged).store_id
    for path in (damaged / "commitlog").iterdir():
        path.unlink()
    (damaged / "roster.json").write_text("whom it knows")
    peer = Peer("1", whole)
    await heal(damaged, peer)
    assert (peer.asked, identity(damaged).store_id != before) == (0, True)
    assert (damaged / "roster.json").read_text() == "whom it knows", "it is of the group, and not of what is set aside"


async def test_damage_of_queues_needs_nobody(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    units = damaged / "consumequeue" / "A" / "0" / ("0" * 20)
    data = bytearray(units.read_bytes())
    data[4] ^= 0x55
    units.write_bytes(data)
    note_damage(FILES, str(damaged), StoreDamaged(str(units.parent), 0, "the unit is wrong", str(damaged)))
    before = identity(damaged).store_id
    peer = Peer("1", None)
    await heal(damaged, peer)
    assert (peer.asked, identity(damaged).store_id) == (0, before)
    assert content(damaged) == content(whole)


@pytest.mark.parametrize("written", ["%s/", "%s//", "%s/../damaged", "./%s"])
async def test_damage_of_queues_is_healed_however_the_settings_write_the_folder(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """The store names its files by the folder's plain path, whoever notes the damage by what `dataDir` says."""
    damaged, whole = pair
    monkeypatch.chdir(damaged.parent)
    root = written % (damaged.name if written.startswith(".") else damaged)
    units = Path(root) / "consumequeue" / "A" / "0" / ("0" * 20)
    data = bytearray(units.read_bytes())
    data[4] ^= 0x55
    units.write_bytes(data)
    store = open_store(Path(root))
    with pytest.raises(StoreDamaged, match="the unit of message 0 is wrong") as failed:
        store.read(store.queue("A", 0), 0, messages_max=1, bytes_max=1)
    store.close()
    note_damage(FILES, root, failed.value)
    assert [place.path for place in noted_damage(FILES, root)] == ["consumequeue/A/0"]
    made = Healer(
        FILES, root, str(GROUP), 2, [Peer("1", None)], identity=lambda: identity(damaged), unlock=lambda: None,
        try_open=lambda: open_store(Path(root)).close(),
    )  # fmt: skip
    await asyncio.wait_for(made.run(), 30)
    assert content(damaged) == content(whole)


async def test_damage_of_queues_and_of_what_is_not_committed_takes_only_the_latter(tmp_path: Path) -> None:
    damaged, whole = filled(tmp_path / "damaged", uncommitted=10), filled(tmp_path / "whole")
    before = identity(damaged).store_id
    committed = survey(FILES, str(damaged)).committed
    spoil(damaged, committed + 250)
    queue = str(damaged / "consumequeue" / "A" / "0")
    note_damage(FILES, str(damaged), StoreDamaged(queue, 0, "the unit is wrong", str(damaged)))
    await heal(damaged, Peer("1", None))
    assert identity(damaged).store_id != before
    store = open_store(damaged)
    assert committed <= store.end_position < committed + 400
    store.close()
    for kept, all_of_it in zip(content(damaged), content(whole), strict=True):
        assert kept == all_of_it[: len(kept)]


def test_what_others_say_of_damage_that_nobody_gives_is_told_by_name() -> None:
    progress = Progress()
    assert progress.in_vain == ""
    progress.doing = "waiting"
    assert progress.in_vain == "", "nobody was asked yet"
    progress.said = {"1": str(PieceState.DAMAGED), "3": "not reached: refused", "4": "silent", "here": "refused"}
    assert progress.in_vain == "broker 1: damaged here, too; no answer from 3, 4"
    del progress.said["1"]
    assert progress.in_vain == "no answer from 3, 4"
    progress.said = {"1": str(PieceState.GONE)}
    assert progress.in_vain == "broker 1: deleted here"
    progress.doing = "fetching"
    assert progress.in_vain == ""
