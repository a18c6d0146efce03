"""Damage inside a replica's log: what the survey finds, what another replica gives, and that it is whole again."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from msgspec.structs import replace as changed

from logherd.model.record import BLANK_MAGIC
from logherd.store import MessageStore, RawRefused, StoreDamaged, begin_later, pieces
from logherd.store.checkpoint import SLOT_OFFSETS, encode_slot
from logherd.store.damage_note import forget_damage, note_damage, noted_damage
from logherd.store.files import File
from logherd.store.files_os import OsFiles
from logherd.store.mending import Neighbour, further_behind, mend, replica_checkpoint, restore_files, survey
from logherd.store.options import DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.pieces import Kept, PieceAsk, PieceState, read_piece
from logherd.store.readable import Readable
from logherd.store.scrub import Scrub
from logherd.store.tools import verify
from sim.disk import SimulatedCrash
from unit.store.helpers import ROOT as STORE
from unit.store.helpers import SimClock, SimDisk, append, flush

OPTIONS = StoreOptions(
    replicated=True,
    log=LogOptions(segment_bytes=16384, record_bytes_max=4000, batch_bytes_max=4096, reserve_bytes=0,
                   zero_ahead_bytes=0),
    derived=DerivedOptions(queue_file_units=16, index_slots=64, index_entries=1000, interval_ms=0),
    retention=RetentionOptions(age_ms=None),
)  # fmt: skip
ROOT = str(STORE)
SECOND = f"{ROOT}/commitlog/{16384:020d}"


def open_replica(disk: SimDisk) -> MessageStore:
    return MessageStore.open(STORE, OPTIONS, disk, clock=SimClock())


def filled(disk: SimDisk, count: int = 200) -> MessageStore:
    store = open_replica(disk)
    for number in range(count):
        append(store, "AB"[number % 2], body=b"%05d" % number * (1 + number % 60))
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
    store.advance(store.end_position)
    return store


@pytest.fixture
def pair() -> tuple[SimDisk, SimDisk]:
    """Two replicas of one log of several segments, closed."""
    disks = SimDisk(), SimDisk()
    for disk in disks:
        filled(disk).close()
    assert len(disks[0].list(f"{ROOT}/commitlog")) > 3
    return disks


def log_of(disk: SimDisk) -> dict[str, bytes]:
    return {path: inode.content() for path, inode in disk.names.items() if "/commitlog/" in path}


def kept(disk: SimDisk) -> Kept:
    found = survey(disk, ROOT)
    return Kept(found.log_start, found.committed)


def heal(damaged: SimDisk, whole: SimDisk, bytes_max: int = 1000) -> int:
    """Fetch everything that is damaged; how many bytes that took."""
    fetched = 0
    for damage in survey(damaged, ROOT).mendable:
        at = damage.start
        while at < damage.end:
            ask = PieceAsk(start=at, end=damage.end, before=damage.before, after=damage.after)
            piece = read_piece(whole, ROOT, ask, kept(whole), bytes_max=bytes_max)
            assert piece.state is PieceState.WHOLE
            mend(damaged, ROOT, at, piece.data, end=piece.end)
            fetched += len(piece.data)
            at = piece.end
    return fetched


def test_a_sound_log_has_no_damage(pair: tuple[SimDisk, SimDisk]) -> None:
    assert survey(pair[0], ROOT).damages == ()


@pytest.mark.parametrize("seed", range(40))
def test_whatever_was_damaged_is_again_as_it_was(pair: tuple[SimDisk, SimDisk], seed: int) -> None:
    damaged, whole = pair
    random, before = Random(seed), log_of(whole)
    assert log_of(damaged) == before
    committed = survey(whole, ROOT).committed
    hurt = 0
    for _ in range(random.choice([1, 1, 2, 5])):
        size = random.choice([1, 1, 8, 700, 5000, 20_000])
        start = random.randrange(committed)
        for position in range(start, min(start + size, committed)):
            segment = position - position % 16384
            damaged.names[f"{ROOT}/commitlog/{segment:020d}"].base[position % 16384] ^= 0x40
            hurt += 1
    fetched = heal(damaged, whole)
    assert survey(damaged, ROOT).damages == ()
    assert verify(STORE, damaged).whole
    after = log_of(damaged)
    different = [path for path in before if after[path] != before[path]]
    for path in different:  # behind a blank's head nobody looks
        assert not any(before[path][at] for at in range(16384) if after[path][at] != before[path][at])
    assert fetched <= hurt + 10 * 4000 + 5 * 4000
    open_replica(damaged).close()


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_in_the_middle_leaves_what_the_next_reading_finds(pair: tuple[SimDisk, SimDisk], seed: int) -> None:
    """Power goes at a random call of the mending; at the next start too; in the end all is as it was."""
    damaged, whole = pair
    random, before = Random(seed), log_of(whole)
    for _ in range(3):
        start = random.randrange(survey(whole, ROOT).committed - 6000)
        for position in range(start, start + random.choice([1, 300, 6000])):
            segment = position - position % 16384
            damaged.names[f"{ROOT}/commitlog/{segment:020d}"].base[position % 16384] ^= 0x21
    for inode in damaged.names.values():
        inode.flush()
    note_damage(damaged, ROOT, StoreDamaged(SECOND, 0, "spoilt", ROOT))
    while noted_damage(damaged, ROOT):
        damaged.crash_after(random.randrange(1, 40))
        try:
            heal(damaged, whole)
            forget_damage(damaged, ROOT)
        except SimulatedCrash:
            damaged = damaged.crash(random, power=True)
    damaged.crash_after(None)
    assert survey(damaged, ROOT).damages == ()
    after = log_of(damaged)
    for path, content in before.items():
        assert not any(content[at] for at in range(16384) if after[path][at] != content[at])
    open_replica(damaged).close()


def test_a_whole_segment_of_zeros_comes_back(pair: tuple[SimDisk, SimDisk]) -> None:
    damaged, whole = pair
    damaged.names[SECOND].base[:] = bytes(16384)
    (damage,) = survey(damaged, ROOT).damages
    assert (damage.start, damage.end) == (16384, 32768)
    assert damage.before is not None
    assert damage.after is not None
    heal(damaged, whole)
    assert log_of(damaged) == log_of(whole)


def test_damage_above_what_is_known_to_be_committed_is_not_mended(pair: tuple[SimDisk, SimDisk]) -> None:
    disk = SimDisk()
    store = filled(disk)
    committed = store.committed_position
    append(store, "A", body=b"late" * 100)
    batch = store.take_batch()
    assert batch is not None
    batch.write_and_flush()
    store.flushed(batch)
    store.close()
    segment = committed - committed % 16384
    disk.names[f"{ROOT}/commitlog/{segment:020d}"].base[committed % 16384 + 120] ^= 1
    found = survey(disk, ROOT)
    assert [damage.start for damage in found.damages] == [committed]
    assert found.mendable == ()
    with pytest.raises(RawRefused):
        mend(disk, ROOT, committed, b"anything", end=committed + 8)


@pytest.mark.parametrize("more", [0, 1, 90], ids=["nothing", "in the same file", "in further files"])
def test_the_log_ends_where_its_records_do_however_far_the_checkpoint_lags(more: int) -> None:
    """As after the power went: what was flushed last is in the log, and the checkpoint does not know."""
    disk = SimDisk()
    store = filled(disk)
    flushed = store.end_position
    behind = replica_checkpoint(disk, ROOT)
    for number in range(more):
        append(store, body=b"%05d" % number * 100)
    flush(store)
    end = store.end_position
    store.close()
    newest = replica_checkpoint(disk, ROOT).counter
    file = disk.open(f"{ROOT}/checkpoint")
    for counter in (newest + 1, newest + 2):
        slot = changed(behind, counter=counter, flushed=flushed, committed=flushed, closed=False)
        file.write(SLOT_OFFSETS[counter % 2], (encode_slot(slot),))
    file.close()
    assert more < 2 or end // 16384 > flushed // 16384 + 1
    found = survey(disk, ROOT)
    assert (found.damages, found.committed, found.log_end) == ((), flushed, end)
    disk.names[f"{ROOT}/commitlog/{flushed - flushed % 16384:020d}"].base[flushed % 16384 + 50] ^= 1
    assert survey(disk, ROOT).log_end == flushed, "that record is none, and what lies behind it will be cut"


def test_bytes_that_are_no_records_of_this_place_change_nothing(pair: tuple[SimDisk, SimDisk]) -> None:
    damaged, whole = pair
    damaged.names[SECOND].base[100] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    piece = read_piece(whole, ROOT, PieceAsk(start=damage.start, end=damage.end), kept(whole), bytes_max=1)
    before = log_of(damaged)
    flipped = bytearray(piece.data)
    flipped[len(flipped) // 2] ^= 1
    for data, end in (
        (bytes(flipped), piece.end),
        (piece.data, piece.end + 1),
        (b"", damage.start),
        (b"x", damage.end),
    ):
        with pytest.raises(RawRefused):
            mend(damaged, ROOT, damage.start, data, end=end)
    assert log_of(damaged) == before


def test_who_cannot_help_says_why(pair: tuple[SimDisk, SimDisk]) -> None:
    damaged, whole = pair
    damaged.names[SECOND].base[5000] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    ask = PieceAsk(start=damage.start, end=damage.end, before=damage.before, after=damage.after)
    start, end, _ = kept(whole)

    def said(kept: Kept, ask: PieceAsk = ask) -> PieceState:
        return read_piece(whole, ROOT, ask, kept, bytes_max=1000).state

    assert said(Kept(start, end)) is PieceState.WHOLE
    assert said(Kept(start, damage.end)) is PieceState.NOT_YET
    assert said(Kept(32768, end)) is PieceState.GONE
    assert damage.before is not None
    other = PieceAsk(
        start=ask.start, end=ask.end, after=ask.after,
        before=type(damage.before)(damage.before.start, damage.before.end, damage.before.checksum ^ 1),
    )  # fmt: skip
    assert said(Kept(start, end), other) is PieceState.DIFFERS
    whole.names[SECOND].base[5000] ^= 1
    assert said(Kept(start, end)) is PieceState.DAMAGED
    whole.names[SECOND].base[damage.before.start - 16384 + 50] ^= 1
    assert said(Kept(start, end)) is PieceState.DAMAGED


@pytest.mark.parametrize("spoilt", ["before", "after", "both", "the only one", "all"])
def test_what_is_whole_is_not_said_to_be_damaged_because_all_beside_it_is(
    pair: tuple[SimDisk, SimDisk], spoilt: str
) -> None:
    """Nobody could give it otherwise, and it would be taken for lost; nor is it given, for nothing is compared."""
    damaged, whole = pair
    damaged.names[SECOND].base[5000] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    assert damage.before is not None
    assert damage.after is not None
    places = {"before": (damage.before,), "the only one": (damage.before,), "after": (damage.after,)}
    for each in places.get(spoilt, (damage.before, damage.after)):
        whole.names[SECOND].base[each.start - 16384 + 50] ^= 1
    if spoilt == "all":
        whole.names[SECOND].base[5000] ^= 1
    after = damage.after if spoilt != "the only one" else None
    ask = PieceAsk(start=damage.start, end=damage.end, before=damage.before, after=after)
    piece = read_piece(whole, ROOT, ask, kept(whole), bytes_max=1000)
    state = {"both": PieceState.NOT_YET, "the only one": PieceState.NOT_YET, "all": PieceState.DAMAGED}
    assert piece.state is state.get(spoilt, PieceState.WHOLE)
    assert bool(piece.data) is (piece.state is PieceState.WHOLE)
    assert piece.at == (damage.after.start if spoilt == "after" else damage.before.start)


def test_what_is_held_between_records_that_both_have_is_given_whoever_knows_that_it_is_committed(
    pair: tuple[SimDisk, SimDisk],
) -> None:
    """As where the power went at both, and the checkpoint of the one that is whole lags."""
    damaged, whole = pair
    damaged.names[SECOND].base[5000] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    before, after = damage.before, damage.after
    assert before is not None
    assert after is not None
    end = kept(whole).end
    ask = PieceAsk(start=damage.start, end=damage.end, before=before, after=after)

    def said(ask: PieceAsk = ask, committed: int = 16384, held: int = end) -> PieceState:
        piece = read_piece(whole, ROOT, ask, Kept(0, committed, held), bytes_max=1000)
        assert piece.at is None
        assert bool(piece.data) is (piece.state is PieceState.WHOLE)
        return piece.state

    for committed in (damage.start, damage.start + 1, damage.end, after.end - 1):
        assert said(committed=committed) is PieceState.WHOLE
    assert said(held=after.end - 1) is PieceState.NOT_YET
    for less in (changed(ask, before=None), changed(ask, after=None)):
        assert said(less) is PieceState.NOT_YET
    for name, each in (("before", before), ("after", after)):
        other = changed(ask, **{name: Neighbour(each.start, each.end, each.checksum ^ 1)})
        assert said(other) is PieceState.NOT_YET, "another log, in which nothing is committed yet"
    for wrong in (
        changed(ask, after=before), changed(ask, end=after.end), changed(ask, before=after),
        changed(ask, start=damage.start + 1),
    ):  # fmt: skip
        assert said(wrong) is PieceState.NOT_YET
    whole.names[SECOND].base[5000] ^= 1
    assert said() is PieceState.NOT_YET, "what is not committed is no damage"


def test_what_was_read_before_the_log_was_cut_is_not_given_as_what_stands_there_since(
    pair: tuple[SimDisk, SimDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a leader that follows again: its end gives way to the true one while another replica asks for that."""
    damaged, whole = pair
    damaged.names[SECOND].base[5000] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    before, after = damage.before, damage.after
    assert before is not None
    assert after is not None
    content, end = whole.names[SECOND].base, kept(whole).end
    true, reading = bytes(content), pieces._read
    content[after.start - 16384 + 50] ^= 1

    def read(*arguments: object) -> pieces.Piece:
        piece = reading(*arguments)  # type: ignore[arg-type]
        content[:] = true
        return piece

    monkeypatch.setattr(pieces, "_read", read)
    ask = PieceAsk(start=damage.start, end=damage.end, before=before, after=after)
    assert read_piece(whole, ROOT, ask, Kept(0, 16384, end), bytes_max=1000).state is PieceState.NOT_YET
    content[:] = true
    assert read_piece(whole, ROOT, ask, Kept(0, 16384, end), bytes_max=1000).state is PieceState.WHOLE


def test_one_further_behind_shows_that_the_log_is_the_same_if_all_that_stands_beside_it_is_damaged(
    pair: tuple[SimDisk, SimDisk],
) -> None:
    damaged, whole = pair
    damaged.names[SECOND].base[5000] ^= 1
    (damage,) = survey(damaged, ROOT).damages
    assert damage.before is not None
    assert damage.after is not None
    for each in (damage.before, damage.after):
        whole.names[SECOND].base[each.start - 16384 + 50] ^= 1
    further = further_behind(damaged, ROOT, damage.after)
    assert further[0].start == damage.after.end
    assert len(further) > 3
    assert further[-1].end <= survey(damaged, ROOT).committed

    def said(*further: Neighbour, committed: int = kept(whole).end) -> PieceState:
        ask = PieceAsk(
            start=damage.start, end=damage.end, before=damage.before, after=damage.after, further=further
        )  # fmt: skip
        return read_piece(whole, ROOT, ask, Kept(0, committed), bytes_max=1000).state

    assert said() is PieceState.NOT_YET
    for each in further:
        assert said(each) is PieceState.WHOLE
        assert said(each, committed=each.end - 1) is PieceState.NOT_YET
        other = Neighbour(each.start, each.end, each.checksum ^ 1)
        assert said(other) is said(other, *further) is PieceState.NOT_YET, "another log"
    whole.names[SECOND].base[further[0].start - 16384 + 50] ^= 1
    assert said(further[0]) is PieceState.NOT_YET
    assert said(*further) is PieceState.WHOLE
    earlier = Neighbour(0, damage.before.start, 7)
    assert said(earlier) is PieceState.NOT_YET, "what follows it may be another's all the same"
    whole.names[SECOND].base[5000] ^= 1
    assert said(*further) is PieceState.DAMAGED


def test_what_stands_further_behind_is_what_is_committed_and_near() -> None:
    disk = SimDisk()
    store = filled(disk)
    committed = store.committed_position
    append(store, "A", body=b"late" * 100)
    batch = store.take_batch()
    assert batch is not None
    batch.write_and_flush()
    store.flushed(batch)
    store.close()
    first, *_ = further_behind(disk, ROOT, Neighbour(0, 0, 0))
    assert first.start == 0
    last = further_behind(disk, ROOT, Neighbour(committed - 1, committed, 0))
    assert last == ()
    disk.names[f"{ROOT}/commitlog/{0:020d}"].base[first.end + 50] ^= 1
    assert further_behind(disk, ROOT, Neighbour(0, 0, 0)) == (first,)


def test_a_sound_log_is_not_damaged_where_another_log_has_a_record(pair: tuple[SimDisk, SimDisk]) -> None:
    whole = pair[1]
    start, end, _ = kept(whole)

    def said(ask: PieceAsk) -> PieceState:
        return read_piece(whole, ROOT, ask, Kept(start, end), bytes_max=1000).state

    within = [at for at in range(16384, 16384 + 3000) if said(PieceAsk(start=at, end=at + 1)) is not PieceState.WHOLE]
    assert len(within) > 2900
    assert {said(PieceAsk(start=at, end=at + 1)) for at in within} == {PieceState.DIFFERS}
    for at in within[::100]:
        other = Neighbour(at, at + 90, 0)
        assert said(PieceAsk(start=0, end=1, after=other)) is PieceState.DIFFERS
    assert said(PieceAsk(start=32768 - 9, end=32767)) is PieceState.DIFFERS, "a blank begins before"
    assert said(PieceAsk(start=end, end=0)) is PieceState.NOT_YET
    whole.names[SECOND].base[1500] ^= 1
    told = [said(PieceAsk(start=at, end=at + 1)) for at in range(16384, 16384 + 3000)]
    assert PieceState.DAMAGED in told


class _Counting(OsFiles):
    """`count`: how many bytes were read of files of the log."""

    def __init__(self) -> None:
        self.count = 0

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        if "/commitlog/" not in path:
            return file
        read, counting = file.read, self

        class Counted:
            def read(self, at: int, size: int) -> bytes:
                counting.count += size
                return read(at, size)

            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

        return cast("File", Counted())


def test_who_cannot_help_knows_it_without_reading_all_of_a_large_file(tmp_path: Path) -> None:
    """It is asked on its loop, whose lease runs, twice a second."""
    files, size = _Counting(), 4 << 20
    options = replace(OPTIONS, log=LogOptions(segment_bytes=size, record_bytes_max=600_000, reserve_bytes=0))
    store = MessageStore.open(tmp_path, options, files, clock=SimClock())
    for number in range(900):
        append(store, "A", body=b"%05d" % number * (100_000 if number == 800 else 800))
        while (batch := store.take_batch()) is not None:
            batch.write_and_flush()
            store.flushed(batch)
    store.advance(store.end_position)
    places = [store.unit(store.queue("A", 0), number) for number in (799, 800)]
    kept = Kept(0, store.committed_position)
    store.close()
    for position, length, _ in filter(None, places):
        for place in (position + 1, position + length - 1):
            files.count = 0
            ask = PieceAsk(start=place, end=place + 1)
            assert read_piece(files, str(tmp_path), ask, kept, bytes_max=100).state is PieceState.DIFFERS
            assert files.count < 3 << 20 < place


@pytest.mark.parametrize("lost", [1, 3 << 20, 30 << 20])
def test_who_is_damaged_there_too_knows_it_without_reading_all_of_a_large_file(tmp_path: Path, lost: int) -> None:
    """As long as nobody else has it, it is asked twice a second, for ever."""
    files, size = _Counting(), 64 << 20
    options = replace(OPTIONS, log=LogOptions(segment_bytes=size, record_bytes_max=600_000, reserve_bytes=0))
    store = MessageStore.open(tmp_path, options, files, clock=SimClock())
    while store.end_position < size - (1 << 20):
        append(store, "A", body=bytes(500_000))
        while (batch := store.take_batch()) is not None:
            batch.write_and_flush()
            store.flushed(batch)
    store.advance(store.end_position)
    last = store.queue("A", 0).max_offset - 1
    place, kept = (store.unit(store.queue("A", 0), last) or (0,))[0], Kept(0, store.committed_position)
    store.close()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(place + 100 - lost)
        log.write(b"\xff" * (lost + 100))
    for at in (place, place + 300):
        files.count = 0
        piece = read_piece(files, str(tmp_path), PieceAsk(start=at, end=at + 1), kept, bytes_max=100)
        assert (piece.state, piece.at) == (PieceState.DAMAGED, at)
        assert files.count < (3 << 20 if lost == 1 else 20 << 20) < place


def test_a_sound_log_is_not_damaged_where_another_log_has_a_record_and_this_one_ends_a_file(
    pair: tuple[SimDisk, SimDisk],
) -> None:
    whole = pair[1]
    (blank,) = (
        at for at in range(16384, 32768 - 8)
        if log_of(whole)[SECOND][at - 16384 + 4 : at - 16384 + 8] == BLANK_MAGIC.to_bytes(4)
    )  # fmt: skip
    for end in (blank + 90, 32768, 40_000):
        other = Neighbour(blank, end, 0)
        ask = PieceAsk(start=16384, end=16385, before=other)
        assert read_piece(whole, ROOT, ask, kept(whole), bytes_max=1000).state is PieceState.DIFFERS
    assert read_piece(whole, ROOT, PieceAsk(start=blank, end=blank + 1), kept(whole), bytes_max=1000).end == 32768


@pytest.mark.parametrize(
    ("length", "beside"), [(1, False), (12_000, False), (90, True), (0, True), (-20_000, True), (14_000, True)]
)
def test_whatever_is_asked_only_a_part_of_a_sound_log_is_read(
    monkeypatch: pytest.MonkeyPatch, length: int, beside: bool
) -> None:
    """A length that tells no more than how much to read is not believed: neither the asker's, nor one in a body."""
    disk = SimDisk()
    options = replace(OPTIONS, log=replace(OPTIONS.log, segment_bytes=1 << 16))
    store = MessageStore.open(STORE, options, disk, clock=SimClock())
    for number in range(190):
        append(store, "A", body=(12_000).to_bytes(4) * 50 if number == 100 else b"%05d" % number * 40)
        flush(store)
    store.close()
    place = log_of(disk)[f"{ROOT}/commitlog/{0:020d}"].index((12_000).to_bytes(4) * 2)
    for name, size in (("_RECORD_BYTES_MAX", 1_000), ("_SEARCH_BYTES", 1_000)):
        monkeypatch.setattr(pieces, name, size)
    touched, ensure = list[int](), Readable.ensure

    def noted(self: Readable, at: int, end: int) -> int:
        touched.extend((at, end))
        return ensure(self, at, end)

    monkeypatch.setattr(Readable, "ensure", noted)
    ask = PieceAsk(start=place, end=place + length)
    if beside:
        ask = PieceAsk(start=0, end=1, after=Neighbour(place, place + length, 7))
    piece = read_piece(disk, ROOT, ask, Kept(0, store.committed_position), bytes_max=1_000)
    assert piece.state is PieceState.DIFFERS
    assert max(touched, default=0) - min(touched, default=0) < 3_000


def test_what_is_not_committed_is_no_damage_whatever_is_said_to_lie_there(pair: tuple[SimDisk, SimDisk]) -> None:
    """Who finds itself damaged leaves its group to heal: nothing that is asked may bring a sound replica to that."""
    whole = pair[1]
    start, end, _ = kept(whole)
    for place in (end, end + 1, end + 100):
        for last in (place + 90, 0):
            beyond = Neighbour(place, last, 0)
            for ask in (PieceAsk(start=0, end=1, before=beyond), PieceAsk(start=0, end=1, after=beyond)):
                assert read_piece(whole, ROOT, ask, Kept(start, end), bytes_max=1000).state is PieceState.NOT_YET


def test_what_was_met_is_remembered_until_all_is_sound(pair: tuple[SimDisk, SimDisk]) -> None:
    disk = pair[0]
    assert noted_damage(disk, ROOT) == ()
    for _ in range(2):
        note_damage(disk, ROOT, StoreDamaged(SECOND, 77, "the record checksum differs", ROOT))
    (place,) = noted_damage(disk, ROOT)
    assert (place.path, place.offset) == ("commitlog/00000000000000016384", 77)
    disk.names[f"{ROOT}/damage.json"].base[:4] = b"????"
    assert len(noted_damage(disk, ROOT)) == 1, "a note that cannot be read is one all the same"
    forget_damage(disk, ROOT)
    assert noted_damage(disk, ROOT) == ()


@pytest.mark.parametrize("numbers", [(0,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_files_that_something_has_made_longer_are_cut_where_the_next_begin(
    pair: tuple[SimDisk, SimDisk], numbers: tuple[int, ...]
) -> None:
    damaged, whole = pair
    paths = [f"{ROOT}/commitlog/{number * 16384:020d}" for number in numbers]
    for path in paths:
        damaged.open(path).write(16384, (b"not of the log" * 300,))
    assert restore_files(damaged, ROOT) == paths
    heal(damaged, whole)
    assert survey(damaged, ROOT).damages == ()
    assert log_of(damaged) == log_of(whole)


@pytest.mark.parametrize("alone", [False, True])
def test_so_is_the_last_one_where_the_others_begin_the_next(pair: tuple[SimDisk, SimDisk], alone: bool) -> None:
    """A follower would refuse its leader's next file, and a leader would write what all others refuse."""
    damaged, whole = pair
    before = log_of(whole)
    last = max(before)
    if alone:  # without another file to compare with
        for path in set(before) - {last}:
            damaged.unlink(path)
        position = int(last[-20:])
        (damaged.names[f"{ROOT}/checkpoint"]).base[:] = checkpoint_at(damaged, position)
    damaged.open(last).write(16384, (bytes(4096),))
    with pytest.raises(StoreDamaged, match="last, too long"):
        open_replica(damaged)
    assert restore_files(damaged, ROOT) == [last]
    assert log_of(damaged)[last] == before[last]
    open_replica(damaged).close()
    lone = replace(OPTIONS, replicated=False)
    other = SimDisk()
    store = MessageStore.open(STORE, lone, other, clock=SimClock())
    store.close()
    other.open(f"{ROOT}/commitlog/{0:020d}").write(16384, (bytes(4096),))
    MessageStore.open(STORE, lone, other, clock=SimClock()).close()


def checkpoint_at(disk: SimDisk, position: int) -> bytes:
    """The checkpoint of a log that begins, and ends, there."""
    found = replica_checkpoint(disk, ROOT)
    page = bytearray(disk.names[f"{ROOT}/checkpoint"].content())
    begun = changed(found, log_start=position, flushed=position, committed=position, queues_dispatched=position,
                    index_dispatched=position)  # fmt: skip
    for at in SLOT_OFFSETS:
        page[at : at + 120] = encode_slot(begun)
    return bytes(page)


def test_a_file_that_begins_inside_another_is_left_for_a_person_to_see(pair: tuple[SimDisk, SimDisk]) -> None:
    damaged, _whole = pair
    damaged.open(f"{ROOT}/commitlog/{20000:020d}", create=True).write(0, (bytes(16384),))
    before = log_of(damaged)
    assert restore_files(damaged, ROOT) == []
    assert log_of(damaged) == before


def test_a_missing_file_is_more_than_damage(pair: tuple[SimDisk, SimDisk]) -> None:
    disk = pair[0]
    disk.unlink(SECOND)
    with pytest.raises(StoreDamaged, match="no file for positions 16384 to 32768"):
        survey(disk, ROOT)


def scrubbed(disk: SimDisk, start: int, end: int) -> list[StoreDamaged]:
    scrub, found = Scrub(disk, ROOT), list[StoreDamaged]()
    while scrub.position < end:
        damage = scrub.step(start, end, 1000)
        if damage is not None:
            found.append(damage)
    scrub.close()
    return found


def test_a_scrub_reads_a_little_at_a_time(pair: tuple[SimDisk, SimDisk]) -> None:
    """Nobody else gets the interpreter meanwhile."""
    scrub, (start, end, _) = Scrub(pair[0], ROOT), kept(pair[0])
    assert scrub.step(start, end, 1000) is None
    assert 1000 <= scrub.position < 1000 + OPTIONS.log.record_bytes_max
    scrub.close()


def test_a_scrub_finds_the_first_damage_of_each_segment_and_nothing_behind_the_end(
    pair: tuple[SimDisk, SimDisk],
) -> None:
    disk = pair[0]
    start, end, _ = kept(disk)
    assert scrubbed(disk, start, end) == []
    for at in (500, 9000):
        disk.names[SECOND].base[at] ^= 1
    last = f"{ROOT}/commitlog/{end - end % 16384:020d}"
    disk.names[last].base[end % 16384 + 10] ^= 1
    (damage,) = scrubbed(disk, start, end)
    assert damage.path == SECOND
    assert damage.offset <= 500
    assert scrubbed(disk, 32768, end) == [], "what retention has deleted is not read"
    disk.unlink(SECOND)
    assert scrubbed(disk, start, 32768) == [], "nor is a file that goes meanwhile"


@pytest.mark.parametrize("killed_after", range(1, 5))
def test_files_below_a_new_beginning_go_only_once_that_is_durable(
    pair: tuple[SimDisk, SimDisk], killed_after: int
) -> None:
    """A process is killed before it has flushed where the log begins, the next one finds it in the machine's cache and
    deletes what lies below, and then the power goes."""
    begun = pair[0].crash(Random(0), power=False)
    begun.crash_after(killed_after)
    with pytest.raises(SimulatedCrash):
        begin_later(begun, ROOT, position=32768, epoch=7)
    for calls in range(1, 30):
        for seed in range(4):
            disk = begun.crash(Random(0), power=False)
            disk.crash_after(calls)
            with suppress(SimulatedCrash):
                open_replica(disk).close()
            disk = disk.crash(Random(seed), power=True)
            store = open_replica(disk)
            assert (store.min_position, store.start_epoch) in ((0, 0), (32768, 7))
            store.close()
