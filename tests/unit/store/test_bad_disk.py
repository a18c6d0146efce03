"""A sector that a disk has lost is damage like any other: found, told, never touched in a mapping, and written over."""

import os
import shutil
from dataclasses import replace as replace_options
from pathlib import Path

import pytest
from msgspec.structs import replace

from logherd.store import MessageStore, StoreDamaged
from logherd.store.checkpoint import SLOT_OFFSETS, encode_slot
from logherd.store.damage_note import note_damage, noted_damage
from logherd.store.mending import mend, replica_checkpoint, survey
from logherd.store.options import DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.pieces import Kept, PieceAsk, PieceState, read_piece
from logherd.store.readable import read_or_zeros, write_over
from logherd.store.repair import repair_files
from logherd.store.scrub import Scrub
from logherd.store.tools import repair, verify
from unit.store.bad_disk import BLOCK, BadFiles, survives
from unit.store.helpers import SimClock, append, bodies, flush, settle

SEGMENT = 1 << 16
OPTIONS = StoreOptions(
    replicated=True,
    log=LogOptions(segment_bytes=SEGMENT, record_bytes_max=9000, batch_bytes_max=SEGMENT // 2, reserve_bytes=0,
                   zero_ahead_bytes=0),
    derived=DerivedOptions(queue_file_units=64, index_slots=64, index_entries=1000, interval_ms=0),
    retention=RetentionOptions(age_ms=None),
)  # fmt: skip
KEYS = replace_options(OPTIONS, derived=DerivedOptions(queue_file_units=64, index_slots=2500, index_entries=1000,
                                                       interval_ms=0))  # fmt: skip


def open_store(root: Path, files: BadFiles, options: StoreOptions = OPTIONS) -> MessageStore:
    return MessageStore.open(root, options, files, clock=SimClock())


def filled(root: Path, *, options: StoreOptions = OPTIONS, close: bool = True) -> MessageStore:
    """Three segments and a half, records of all sizes."""
    store = open_store(root, BadFiles(), options)
    for number in range(700):
        append(store, "AB"[number % 2], body=b"%05d" % number * (1 + number % 60))
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
    store.advance(store.end_position)
    assert store.end_position > 2 * SEGMENT
    if close:
        store.close()
    return store


def killed(root: Path, **more: int) -> None:
    """Let the checkpoint say that the process was killed, and more."""
    checkpoint = replica_checkpoint(BadFiles(), str(root))
    later = replace(checkpoint, closed=False, counter=checkpoint.counter + 1, **more)
    with (root / "checkpoint").open("r+b") as file:
        file.seek(SLOT_OFFSETS[later.counter % 2])
        file.write(encode_slot(later))


def file_of(root: Path, position: int) -> str:
    return f"{root}/commitlog/{position - position % SEGMENT:020d}"


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def heal(root: Path, files: BadFiles, whole: Path, bytes_max: int = 3000) -> int:
    """Fetch all that is damaged; how many bytes that took."""
    sound, fetched = BadFiles(), 0
    found = survey(sound, str(whole))
    for damage in survey(files, str(root)).mendable:
        at, end = damage.start, min(damage.end, found.committed)
        while at < end:
            ask = PieceAsk(start=at, end=end, before=damage.before, after=damage.after)
            piece = read_piece(sound, str(whole), ask, Kept(0, found.committed), bytes_max=bytes_max)
            assert piece.state is PieceState.WHOLE
            mend(files, str(root), at, piece.data, end=piece.end)
            at, fetched = piece.end, fetched + len(piece.data)
    return fetched


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two replicas of one log, closed."""
    filled(tmp_path / "bad")
    shutil.copytree(tmp_path / "bad", tmp_path / "whole")
    return tmp_path / "bad", tmp_path / "whole"


LOST = [
    [SEGMENT + 5 * BLOCK],
    [0],
    [2 * SEGMENT - BLOCK],  # with the blank record, and zeros behind it
    [SEGMENT, SEGMENT + BLOCK, SEGMENT + 2 * BLOCK, SEGMENT + 7 * BLOCK, 3 * BLOCK],
    [SEGMENT + each * BLOCK for each in range(SEGMENT // BLOCK)],
]


@pytest.mark.parametrize("lost", LOST)
def test_what_the_disk_has_lost_is_fetched_and_written_over_and_only_that(
    pair: tuple[Path, Path], lost: list[int]
) -> None:
    root, whole = pair
    before = log_of(whole)
    assert log_of(root) == before

    def run() -> None:
        files = BadFiles()
        for position in lost:
            files.lose(file_of(root, position), position % SEGMENT)
        fetched = heal(root, files, whole)
        assert 0 < fetched <= (len(lost) + 1) * (BLOCK + 2 * 9000)
        assert not files.lost
        assert survey(files, str(root)).damages == ()

    survives(run)
    assert log_of(root) == before


@pytest.mark.parametrize("bytes_max", [1, 500, 5000])
def test_pieces_that_end_within_lost_blocks_are_written_all_the_same(pair: tuple[Path, Path], bytes_max: int) -> None:
    root, whole = pair

    def run() -> None:
        files = BadFiles()
        for block in range(3, 9):
            files.lose(file_of(root, SEGMENT), block * BLOCK)
        heal(root, files, whole, bytes_max)
        assert not files.lost

    survives(run)
    assert log_of(root) == log_of(whole)


def test_a_block_that_can_be_read_again_is_no_damage(pair: tuple[Path, Path]) -> None:
    """A cable, a controller: nothing is written before the others have given what seems to be lost."""
    root, whole = pair
    files = BadFiles()
    files.lose(file_of(root, SEGMENT), BLOCK)
    survives(lambda: survey(files, str(root)) and None)
    assert log_of(root) == log_of(whole)
    files.lost.clear()
    assert survey(files, str(root)).damages == ()


@pytest.mark.parametrize("position", [SEGMENT + 5 * BLOCK, 2 * SEGMENT - BLOCK])
def test_a_scrub_finds_it(pair: tuple[Path, Path], position: int) -> None:
    root = pair[0]

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(root, position), position % SEGMENT)
        end, found = replica_checkpoint(files, str(root)).committed or 0, list[StoreDamaged]()
        scrub = Scrub(files, str(root))
        while scrub.position < end:
            damage = scrub.step(0, end, 1000)
            if damage is not None:
                found.append(damage)
        scrub.close()
        (damage,) = found
        assert damage.path == file_of(root, position)
        assert position - 9000 < SEGMENT + damage.offset <= position
        assert f"byte {position % SEGMENT} cannot be read: Input/output error" in damage.what

    survives(run)


def test_a_scrub_finds_a_file_that_was_shortened(pair: tuple[Path, Path]) -> None:
    root = pair[0]
    end = replica_checkpoint(BadFiles(), str(root)).committed or 0
    for shortened in (10 * BLOCK, BLOCK, 0):
        os.truncate(file_of(root, SEGMENT), shortened or 1)
        scrub, found = Scrub(BadFiles(), str(root)), list[StoreDamaged]()
        while scrub.position < end:
            damage = scrub.step(0, end, 1000)
            if damage is not None:
                found.append(damage)
        scrub.close()
        assert {damage.path for damage in found} == {file_of(root, SEGMENT)}


def test_a_file_that_is_shortened_under_an_open_store_is_damage(tmp_path: Path) -> None:
    """By SIGBUS, without any simulation."""

    def run() -> None:
        store = filled(tmp_path, close=False)
        store.close()
        store = open_store(tmp_path, BadFiles())
        store.advance(store.end_position)
        assert store.record_at(SEGMENT) is not None
        os.truncate(file_of(tmp_path, SEGMENT), 8 * BLOCK)
        offset = next(at for at in range(350) if (store.unit(store.queue("A", 0), at) or (0,))[0] > SEGMENT + 9 * BLOCK)
        with pytest.raises(StoreDamaged, match="cannot be read: the file ends there"):
            store.read(store.queue("A", 0), offset, messages_max=1, bytes_max=1)

    survives(run)


def test_so_is_one_of_which_nothing_was_read_yet_wherever_it_is_read(tmp_path: Path) -> None:
    filled(tmp_path, close=False).close()
    store = open_store(tmp_path, BadFiles())
    store.advance(store.end_position)
    for position in (0, SEGMENT):
        os.truncate(file_of(tmp_path, position), 8 * BLOCK)
    for read in (
        lambda: store.read(store.queue("A", 0), 0, messages_max=1, bytes_max=1),
        lambda: store.read_raw(0, 100),
        lambda: store.record_at(0),
        lambda: store.committed_bytes(0, 100),
    ):
        with pytest.raises(StoreDamaged, match=f"byte {8 * BLOCK} cannot be read: the file ends there"):
            read()
    assert not store.lies_in_record(100)
    store.retention = RetentionOptions(age_ms=1)
    assert not store.apply_retention(10**9, store.end_position), "of the second file nobody knows the age"
    store.close()


@pytest.mark.parametrize("shortened", [0, 1, 5 * BLOCK, SEGMENT - 8])
def test_opening_refuses_a_log_with_a_file_that_was_shortened(pair: tuple[Path, Path], shortened: int) -> None:
    root = pair[0]
    os.truncate(file_of(root, SEGMENT), shortened)

    def run() -> None:
        with pytest.raises(StoreDamaged, match="a file was deleted or shortened"):
            open_store(root, BadFiles())

    survives(run)


def test_opening_refuses_what_was_flushed_and_cannot_be_read(tmp_path: Path) -> None:
    filled(tmp_path)
    killed(tmp_path, queues_dispatched=0, index_dispatched=0)

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(tmp_path, SEGMENT), 3 * BLOCK)
        with pytest.raises(StoreDamaged, match="cannot be read: Input/output error"):
            open_store(tmp_path, files)
        assert files.lost, "and nothing was changed"

    survives(run)


@pytest.mark.parametrize("by_crash", [False, True])
def test_opening_refuses_an_end_whose_block_holds_records_that_are_lost(tmp_path: Path, by_crash: bool) -> None:
    """Opening reads only from the end on; but the next message goes into the same block."""
    filled(tmp_path)
    end = replica_checkpoint(BadFiles(), str(tmp_path)).flushed
    assert end % BLOCK
    if by_crash:
        killed(tmp_path)
    before = log_of(tmp_path)

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(tmp_path, end), end % SEGMENT)
        with pytest.raises(StoreDamaged, match=f"byte {end % SEGMENT - end % BLOCK} cannot be read"):
            open_store(tmp_path, files)
        assert files.lost

    survives(run)
    assert log_of(tmp_path) == before


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_zeros_behind_the_end_that_are_lost_are_written_over_after_a_crash(tmp_path: Path, blocks: int) -> None:
    """A message whose end would lie there ends the process: the system reads the rest of that block. The next one mends
    it."""
    filled(tmp_path)
    end = replica_checkpoint(BadFiles(), str(tmp_path)).flushed
    killed(tmp_path)
    assert end % SEGMENT < SEGMENT - 3 * BLOCK
    with Path(file_of(tmp_path, end)).open("r+b") as file:  # as is done ahead of messages; a hole is on no disk
        file.seek(end % SEGMENT)
        file.write(bytes(SEGMENT - end % SEGMENT))

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(tmp_path, end), end % SEGMENT + blocks * BLOCK)
        store = open_store(tmp_path, files)
        assert (store.end_position, files.lost) == (end, set())
        store.close()

    survives(run)


def test_a_torn_end_that_cannot_be_read_is_cut(tmp_path: Path) -> None:
    """Power that went during the write of a sector may leave one that no checksum of the disk's fits."""
    filled(tmp_path)
    end = replica_checkpoint(BadFiles(), str(tmp_path)).flushed
    at = end % SEGMENT
    path = file_of(tmp_path, end)
    with Path(path).open("r+b") as file:
        file.seek(at)
        file.write(b"\0\0\1\0\xda\xa3\x20\xa7" + b"torn" * 1500)
    killed(tmp_path)

    def run() -> None:
        files = BadFiles()
        files.lose(path, at + BLOCK)
        store = open_store(tmp_path, files)
        assert store.end_position == end
        assert not files.lost
        store.close()

    survives(run)
    assert not any(Path(path).read_bytes()[at:])


def test_messages_before_and_behind_what_is_lost_are_served_and_it_is_asked_for_once(tmp_path: Path) -> None:
    filled(tmp_path)

    def run() -> None:
        files = BadFiles()
        store = open_store(tmp_path, files)
        store.advance(store.end_position)
        files.lose(file_of(tmp_path, SEGMENT), 5 * BLOCK)
        store.close()
        store = open_store(tmp_path, files)
        store.advance(store.end_position)
        lost = range(SEGMENT + 5 * BLOCK, SEGMENT + 6 * BLOCK)
        told = 0
        for topic in "AB":
            queue = store.queue(topic, 0)
            for offset in range(queue.max_offset):
                position, size, _ = store.unit(queue, offset) or (0, 0, 0)
                if position + size <= lost.start or position >= lost.stop:
                    assert store.read(queue, offset, messages_max=1, bytes_max=1).count == 1
                    assert len(store.record_at(position) or b"") == size
                    continue
                told += 1
                for read in (
                    lambda queue=queue, offset=offset: store.read(queue, offset, messages_max=9, bytes_max=1 << 20),
                    lambda position=position: store.record_at(position),
                    lambda position=position: store.read_raw(position, 100),
                ):
                    with pytest.raises(StoreDamaged, match="cannot be read") as failed:
                        read()
                    assert failed.value.path == file_of(tmp_path, SEGMENT)
                assert store.store_timestamp(queue, offset) is None
        assert told > 5
        with pytest.raises(StoreDamaged):
            store.committed_bytes(SEGMENT, SEGMENT)
        at = store.queue("A", 0).max_offset
        assert store.offset_by_time(store.queue("A", 0), 5000, upper=False) == at
        assert len([each for each in files.reads if each[1] <= 5 * BLOCK]) < 20
        store.close()

    survives(run)


def test_who_cannot_read_it_gives_what_is_around_it(pair: tuple[Path, Path]) -> None:
    root, whole = pair
    found = survey(BadFiles(), str(whole))
    kept = Kept(0, found.committed)

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(root, SEGMENT), 3 * BLOCK)
        (damage,) = survey(files, str(root)).damages
        assert damage.before is not None
        assert damage.after is not None

        def said(**ask: object) -> PieceState:
            return read_piece(files, str(root), PieceAsk(**ask), kept, bytes_max=100).state  # type: ignore[arg-type]

        assert said(start=SEGMENT, end=SEGMENT + 1, before=damage.before, after=damage.after) is PieceState.WHOLE
        assert said(start=damage.start, end=damage.end) is PieceState.DAMAGED
        assert said(start=damage.after.start, end=damage.after.end) is PieceState.WHOLE
        assert said(start=damage.after.start + 1, end=damage.after.end) is PieceState.DAMAGED
        there = replace(damage.before, start=damage.start, end=damage.start + 5000)
        assert said(start=SEGMENT, end=SEGMENT + 1, before=there) is PieceState.NOT_YET, "it is whole, and not compared"

    survives(run)


def test_verify_tells_it_and_repair_keeps_what_can_be_read(tmp_path: Path) -> None:
    filled(tmp_path)

    def run() -> None:
        files = BadFiles()
        files.lose(file_of(tmp_path, SEGMENT), 3 * BLOCK)
        (row,) = [row for row in verify(tmp_path, files).rows if row.problems]
        assert row.path == file_of(tmp_path, SEGMENT)
        assert f"byte {3 * BLOCK} cannot be read: Input/output error; whole records follow" in row.problems[0]
        plan = repair(tmp_path, apply=True, files=files)
        assert SEGMENT < plan.end_position <= SEGMENT + 3 * BLOCK
        assert not files.lost, "what is cut is written over"
        store = open_store(tmp_path, files)
        assert store.end_position == plan.end_position
        store.close()

    before = Path(file_of(tmp_path, SEGMENT)).read_bytes()
    survives(run)
    (copy,) = [path for path in (tmp_path / "dropped").iterdir() if int(path.name) < 2 * SEGMENT]
    at = int(copy.name) - SEGMENT
    lost = bytearray(before)
    lost[3 * BLOCK : 4 * BLOCK] = bytes(BLOCK)
    assert copy.read_bytes().ljust(SEGMENT - at, b"\0") == lost[at:]


def test_units_that_are_lost_are_damage_and_are_derived_again(tmp_path: Path) -> None:
    filled(tmp_path)
    path = f"{tmp_path}/consumequeue/A/0/{0:020d}"

    def run() -> None:
        files = BadFiles()
        files.lose(path, 0)
        assert any(
            "unit 0 cannot be read" in problem for row in verify(tmp_path, files).rows for problem in row.problems
        )
        store = open_store(tmp_path, files)
        store.advance(store.end_position)
        with pytest.raises(StoreDamaged, match="units cannot be read") as failed:
            store.read(store.queue("A", 0), 0, messages_max=1, bytes_max=1)
        assert failed.value.path == path
        store.close()
        repair_files(files, str(tmp_path), apply=True, derive=True)
        store = open_store(tmp_path, files)
        store.advance(store.end_position)
        assert len(bodies(store, "A")) == 350
        store.close()

    survives(run)


def index_of(root: Path) -> list[str]:
    return sorted(str(path) for path in (root / "index").iterdir())


def filled_with_keys(root: Path) -> str:
    """A store with two files of an index; the path of the older one."""
    store = open_store(root, BadFiles(), KEYS)
    for number in range(1500):
        append(store, "A", properties=b"KEYS\x01k%d\x02" % number, at=1000 + number)
        if number % 100 == 0:
            flush(store)
            settle(store)
    flush(store)
    settle(store)
    store.close()
    assert len(index_of(root)) == 2
    return index_of(root)[0]


def found_by_key(store: MessageStore, number: int) -> list[int]:
    return store.query_index("A", f"k{number}", max_count=9, begin=0, end=1 << 40)


@pytest.mark.parametrize(
    ("newest", "block", "at_once"),
    [(False, 0, True), (False, 1, False), (False, 2, False), (False, 6, False),
     (True, 0, True), (True, 1, True), (True, 2, True), (True, 3, False)],
)  # fmt: skip
def test_an_index_that_is_lost_is_damage_and_is_derived_again(
    tmp_path: Path, newest: bool, block: int, at_once: bool
) -> None:
    """Header and slots, slots, and entries. Slots that are mapped for writing are looked at after a crash."""
    path = filled_with_keys(tmp_path)
    if newest:
        path = index_of(tmp_path)[1]
        killed(tmp_path)

    def run() -> None:
        files = BadFiles()
        files.lose(path, block * BLOCK)
        (row,) = [row for row in verify(tmp_path, files).rows if row.problems]
        assert (row.path, row.problems) == (path, [f"byte {block * BLOCK} cannot be read: Input/output error"])
        store = open_store(tmp_path, files, KEYS)
        store.advance(store.end_position)
        missed = list[StoreDamaged]()
        for number in range(1500):
            try:
                assert len(found_by_key(store, number)) == 1
            except StoreDamaged as error:
                missed.append(error)
        assert bool(missed) != at_once
        assert {error.path for error in missed} <= {path}
        store.close()
        if missed:
            repair_files(files, str(tmp_path), apply=True, derive=True)
            store = open_store(tmp_path, files, KEYS)
            store.advance(store.end_position)
            assert all(len(found_by_key(store, number)) == 1 for number in range(1500))
            store.close()
        assert not files.lost

    survives(run)


@pytest.mark.parametrize("name", ["checkpoint", "store.json"])
def test_small_files_that_are_lost_are_damage(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    files = BadFiles()
    files.lose(f"{tmp_path}/{name}", 0)
    with pytest.raises(StoreDamaged, match="cannot be read"):
        open_store(tmp_path, files)
    if name == "checkpoint":
        with pytest.raises(StoreDamaged, match="nothing says what was committed"):
            survey(files, str(tmp_path))


@pytest.mark.parametrize("name", ["checkpoint", "store.json"])
@pytest.mark.parametrize("replicated", [True, False])
@pytest.mark.parametrize("begins", [0, SEGMENT])
def test_small_files_that_are_lost_are_told_and_given_up_by_repair(
    tmp_path: Path, name: str, replicated: bool, begins: int
) -> None:
    """A broker that refuses to open its store because of one names this command."""
    options = replace_options(OPTIONS, replicated=replicated, retention=RetentionOptions(age_ms=None))
    filled(tmp_path, options=options)
    store = open_store(tmp_path, BadFiles(), options)
    store.advance(store.end_position)
    store.retention = RetentionOptions(age_ms=None, bytes_max=3 * SEGMENT if begins else None)
    assert store.apply_retention(1, store.end_position) == begins // SEGMENT
    settle(store)
    kept = [bodies(store, topic) for topic in "AB"]
    store.close()
    files, path = BadFiles(), f"{tmp_path}/{name}"
    files.lose(path, 0)

    def run() -> None:
        (row,) = [row for row in verify(tmp_path, files).rows if row.path == path]
        assert "cannot be read" in row.problems[0]
        plan = repair(tmp_path, apply=False, files=files)
        assert (plan.steps[0].path, plan.changes_log) == (path, name == "checkpoint")
        assert repair(tmp_path, apply=True, files=files).steps == plan.steps
        assert not files.lost
        store = open_store(tmp_path, files, options)
        store.advance(store.end_position)
        assert (store.min_position, store.recovery.bare_end) == (begins, 0)
        assert [bodies(store, topic) for topic in "AB"] == kept
        store.close()
        assert not repair(tmp_path, apply=False, files=files).steps

    survives(run)


def test_a_note_of_damage_that_is_lost_is_one_all_the_same(tmp_path: Path) -> None:
    filled(tmp_path)
    files = BadFiles()
    note_damage(files, str(tmp_path), StoreDamaged(file_of(tmp_path, 0), 7, "spoilt", str(tmp_path)))
    files.lose(f"{tmp_path}/damage.json", 0)
    (place,) = noted_damage(files, str(tmp_path))
    assert "cannot be read" in place.what


@pytest.mark.parametrize("at", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 7])
@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_writing_over_keeps_all_that_can_be_read(tmp_path: Path, at: int, size: int) -> None:
    was = bytes(range(1, 251)) * 200
    (tmp_path / "f").write_bytes(was)
    for lost in ([0], [1], [2, 3], [0, 1, 2, 3, 4], []):
        (tmp_path / "f").write_bytes(was)
        files = BadFiles()
        for block in lost:
            files.lose(f"{tmp_path}/f", block * BLOCK)
        file = files.open(f"{tmp_path}/f")
        write_over(file, at, b"\xff" * size)
        data = read_or_zeros(file, 0, len(was))
        assert len(data) == len(was)
        file.close()
        content = (tmp_path / "f").read_bytes()
        assert len(content) == len(was)
        assert content[at : at + size] == b"\xff" * size
        for place in (*range(at), *range(at + size, len(was))):
            assert content[place] == was[place] or (place // BLOCK in lost and not content[place])


def test_a_list_of_queues_that_is_lost_is_derived_again(tmp_path: Path) -> None:
    filled(tmp_path)

    def run() -> None:
        files = BadFiles()
        files.lose(f"{tmp_path}/queues", 0)
        (row,) = [row for row in verify(tmp_path, files).rows if row.problems]
        assert (row.kind, row.problems) == ("queue list", ["the list cannot be read: Input/output error"])
        store = open_store(tmp_path, files)
        assert "cannot be read" in " ".join(store.recovery.notes)
        assert not files.lost
        store.advance(store.end_position)
        assert [len(bodies(store, topic)) for topic in "AB"] == [350, 350]
        store.close()

    survives(run)
