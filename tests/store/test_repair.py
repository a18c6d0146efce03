"""Where `logherd store repair` ends a log, what it takes away, and what is promised of the rest."""

from random import Random

import pytest
from msgspec.structs import replace

from logherd.store import StoreDamaged
from logherd.store.checkpoint import SLOT_OFFSETS, Checkpoint, decode_checkpoint, encode_slot
from logherd.store.tools import repair, verify
from sim.disk import SimulatedCrash
from unit.store.helpers import ROOT, SimDisk, append, bodies, disk_of, flush, kept_copies, open_store

LOG = "/data/commitlog/00000000000000000000"
KEYS = b"UNIQ_KEY\x01u\x02"


@pytest.fixture
def thirds():
    """A log of three files; the topics' names tell in which their messages are."""
    disk = SimDisk()
    store = open_store(disk)
    while store.end_position < 3 * 8192 - 3200:
        append(store, "ABC"[(store.end_position + 135) // 8192], body=b"%05d" % store.end_position, properties=KEYS)
    flush(store)
    store.close()
    return disk


def logs(disk):
    return {path: inode.content() for path, inode in disk.names.items() if "/commitlog/" in path}


@pytest.mark.parametrize("place", [0, 8192])
def test_repair_ends_a_log_where_the_first_record_of_a_file_is_damaged(thirds, place):
    content = logs(thirds)
    damaged = f"/data/commitlog/{place:020d}"
    thirds.names[damaged].base[90] ^= 1
    content[damaged] = thirds.names[damaged].content()
    plan = repair(ROOT, apply=True, files=thirds)
    lost = [path for path in sorted(content) if path >= damaged]
    assert plan.end_position == place
    assert list(logs(thirds)) == [LOG], "its name tells where the log begins"
    assert [step.path for step in plan.steps] == [*lost, "/data/queues"]
    assert [step.copy.rpartition("/")[2] for step in plan.steps[:-1]] == [path.rpartition("/")[2] for path in lost]
    for path in lost:
        copy = thirds.names[path.replace("commitlog", "dropped")].content()
        assert copy.rstrip(b"\0") == content[path].rstrip(b"\0")
    store = open_store(thirds)
    assert store.end_position == place
    assert [bool(bodies(store, topic)) for topic in "ABC"] == [place > 0, False, False]
    append(store, "C", body=b"again")
    flush(store)
    assert bodies(store, "C") == [b"again"], "its numbers begin anew, too"
    store.close()
    assert verify(ROOT, thirds).whole


def test_what_was_repaired_stays_so_if_the_power_is_lost_at_any_moment(thirds):
    store = open_store(thirds)
    position = store.unit(store.find_queue("A", 0), 10)[0]
    store.close()
    thirds.names[LOG].base[position + 90] ^= 1
    content = {path: thirds.names[path].content() for path in thirds.names}
    kept = [content[LOG][position:], *(logs(thirds)[path] for path in sorted(logs(thirds))[1:])]
    for calls in range(1, 200):
        disk = disk_of(content)
        disk.crash_after(calls)
        try:
            done = repair(ROOT, apply=True, files=disk).applied
        except SimulatedCrash:
            done = False
            disk = disk.crash(Random(calls), power=True)
            repair(ROOT, apply=True, files=disk)
        for seed in range(3):
            after = disk.crash(Random(seed), power=True)
            copies = [copy.rstrip(b"\0") for copy in kept_copies(after).values()]
            assert all(each.rstrip(b"\0") in copies for each in kept), calls
            store = open_store(after)
            assert (store.end_position, len(bodies(store, "A")), bodies(store, "B")) == (position, 10, []), calls
        if done:
            break
    assert calls > 15


def test_a_repaired_replica_is_promised_what_is_left_and_nothing_that_is_derived(thirds):
    before = Checkpoint(
        counter=7, flushed=20_000, queues_dispatched=19_000, index_dispatched=18_000, index_name=1, index_count=2,
        index_used_slots=3, index_files=4, window=2_000, bare_end=17_000, closed=True, committed=16_000, loose=30_000,
        start_epoch=5,
    )  # fmt: skip
    page = thirds.names["/data/checkpoint"].base
    for at in SLOT_OFFSETS:
        page[at : at + 120] = encode_slot(before)
    thirds.names["/data/commitlog/00000000000000008192"].base[90] ^= 1
    repair(ROOT, apply=True, files=thirds)
    after = Checkpoint(
        counter=9, flushed=8_192, window=2_000, bare_end=8_192, committed=8_192, start_epoch=5,
    )  # fmt: skip
    page = thirds.names["/data/checkpoint"].content()
    assert decode_checkpoint(page) == after
    newer = max(SLOT_OFFSETS, key=lambda at: int.from_bytes(page[at + 16 : at + 24]))
    assert decode_checkpoint(page[:newer] + bytes(120) + page[newer + 120 :]) == replace(after, counter=8), "nor before"


def test_repair_promises_no_more_than_was_flushed(thirds):
    page = thirds.names["/data/checkpoint"].base
    for at in SLOT_OFFSETS:
        page[at : at + 96] = encode_slot(Checkpoint(counter=7, flushed=500, window=2_000))
    thirds.names["/data/commitlog/00000000000000008192"].base[90] ^= 1
    repair(ROOT, apply=True, files=thirds)
    assert decode_checkpoint(thirds.names["/data/checkpoint"].content()).flushed == 500


@pytest.mark.parametrize("lost", [None, "/data/store.json", "/data/checkpoint"])
def test_a_log_whose_first_files_are_lost_begins_later_when_it_is_repaired(thirds, lost):
    thirds.unlink(LOG)
    if lost is not None:
        thirds.unlink(lost)
    if lost != "/data/checkpoint":
        with pytest.raises(StoreDamaged, match="first missing"):
            open_store(thirds)
        thirds.locks.clear()
    plan = repair(ROOT, apply=True, files=thirds)
    path = "/data/commitlog/00000000000000008192"
    assert [(step.what, step.path) for step in plan.steps] == [("let the log begin at position 8192", path)]
    assert plan.changes_log
    store = open_store(thirds)
    assert store.min_position == 8192
    assert [bool(bodies(store, topic)) for topic in "ABC"] == [False, True, True]
    store.close()
    assert verify(ROOT, thirds).whole


@pytest.mark.parametrize("left", [0, 1])
def test_a_log_whose_last_files_are_lost_ends_earlier_when_it_is_repaired(thirds, left):
    promised = decode_checkpoint(thirds.names["/data/checkpoint"].content()).flushed
    for path in sorted(logs(thirds))[left:]:
        thirds.unlink(path)
    plan = repair(ROOT, apply=True, files=thirds)
    end = left * 8192
    what = f"give up what was flushed from position {end} to {promised}, without the file"
    assert (plan.steps[0].what, plan.steps[0].path) == (what, f"/data/commitlog/{end:020d}")
    assert (plan.end_position, plan.changes_log, kept_copies(thirds)) == (end, True, {})
    store = open_store(thirds)
    assert store.end_position == end
    assert [bool(bodies(store, topic)) for topic in "ABC"] == [left > 0, False, False]


@pytest.mark.parametrize("start", [4096, 16384 - 4096, 16384 + 4096])
def test_repair_moves_a_file_away_that_claims_what_another_has(thirds, start):
    """Nothing else: the log goes on without it."""
    content = logs(thirds)
    stray = thirds.open(f"/data/commitlog/{start:020d}", create=True)
    stray.write(0, (content["/data/commitlog/00000000000000016384"],))
    with pytest.raises(StoreDamaged, match="overlap"):
        open_store(thirds)
    thirds.locks.clear()
    plan = repair(ROOT, apply=True, files=thirds)
    what = {step.path: step.what for step in plan.steps}
    assert what[f"/data/commitlog/{start:020d}"] == "drop a file that does not follow"
    assert (plan.dropped_records, plan.end_position) == (0, open_store(thirds).end_position)
    assert logs(thirds) == content
    copied = {f"/data/dropped/{start:020d}": content["/data/commitlog/00000000000000016384"]}
    assert {path: data.rstrip(b"\0") for path, data in kept_copies(thirds).items()} == {
        path: data.rstrip(b"\0") for path, data in copied.items()
    }
    thirds.locks.clear()
    assert verify(ROOT, thirds).whole


def test_two_copies_of_one_repair_have_names_of_their_own(thirds):
    content = logs(thirds)[LOG]
    thirds.open("/data/commitlog/00000000000000004096", create=True).write(0, (b"what is this" + bytes(8180),))
    thirds.names[LOG].base[4096 + 90] ^= 1
    repair(ROOT, apply=True, files=thirds)
    copies = kept_copies(thirds)
    assert copies["/data/dropped/00000000000000004096"][:90] == content[4096 : 4096 + 90]
    assert copies["/data/dropped/00000000000000004096.2"].rstrip(b"\0") == b"what is this"


@pytest.mark.parametrize("wrong", ["/data/store.json", None])
def test_repair_leaves_a_log_alone_with_which_nothing_is_wrong(thirds, wrong):
    """Also what is cut when it is opened: a record that was not written to its end."""
    thirds.open(max(logs(thirds))).write(8000, (b"y" * 70,))
    if wrong is not None:
        thirds.names[wrong].base[:4] = b"what"
    before = {path: inode.content() for path, inode in thirds.names.items()}
    plan = repair(ROOT, apply=True, files=thirds)
    assert (plan.applied, plan.changes_log) == (wrong is not None, False)
    changed = {path for path in before if path not in thirds.names or thirds.names[path].content() != before[path]}
    assert changed == (set() if wrong is None else {wrong, "/data/checkpoint"})
