"""How long the list of queues becomes where topics are deleted and made again, and that nothing is lost by it."""

from dataclasses import replace
from random import Random

import pytest

from logherd.store import queue_list
from logherd.store.queue_list import QueueEntry, QueueList, decode_queue_list
from logherd.store.store import MessageStore
from sim.disk import SimulatedCrash
from unit.store.helpers import (
    ROOT,
    SimClock,
    SimDisk,
    append,
    bodies,
    disk_of,
    flush,
    open_store,
    settle,
    small_options,
)  # fmt: skip

LIST = "/data/queues"


def listed(disk: SimDisk) -> list[tuple[str, int, bool]]:
    return [(entry.topic, entry.units, entry.live) for entry in decode_queue_list(disk.names[LIST].content())]


def replica(disk: SimDisk) -> MessageStore:
    return MessageStore.open(ROOT, replace(small_options(), replicated=True), disk, clock=SimClock())


@pytest.mark.parametrize("opened", [open_store, replica])
def test_a_topic_that_is_made_again_thousands_of_times_has_one_line_for_each_queue(opened) -> None:
    disk = SimDisk()
    store = opened(disk)
    append(store, "kept")
    lengths = set()
    for n in range(2000):
        for queue_id in range(2):
            append(store, "T", queue_id, body=b"%d" % n)
        flush(store)
        if n % 3:  # else it goes before a line says that it is there
            settle(store)
        append(store, "deleted")
        store.delete_topic("T")
        flush(store)
        settle(store)
        lengths.add(disk.size(LIST))
    assert len(lengths) == 1
    append(store, "T", body=b"last")
    flush(store)
    store.close()
    assert sorted(listed(disk)) == [("T", 0, False), ("T", 1, True), ("deleted", 2000, True), ("kept", 1, True)]
    store = opened(disk)
    assert store.recovery.derived == "whole"
    assert (bodies(store, "T"), bodies(store, "T", 1)) == ([b"last"], [])


def test_a_topic_that_is_deleted_and_made_again_in_one_batch_stays_listed() -> None:
    """Units of the one before are committed by then, so that its deletion is listed twice."""
    disk = SimDisk()
    store = replica(disk)
    append(store, "T", body=b"before")
    flush(store)
    settle(store)
    append(store, "T", body=b"before")
    append(store, "deleted")
    store.delete_topic("T")
    for n in range(3):
        append(store, "T", body=b"%d" % n)
    flush(store)
    settle(store)
    settle(store)
    assert sorted(listed(disk)) == [("T", 3, True), ("deleted", 1, True)]
    store.close()
    store = replica(disk)
    assert store.recovery.derived == "whole"
    assert bodies(store, "T") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("opened", [open_store, replica])
def test_a_topic_that_is_made_again_is_whole_wherever_a_process_dies(opened, power) -> None:
    disk = SimDisk()
    store = opened(disk)
    append(store, "T", body=b"old")
    flush(store)
    settle(store)
    store.close()
    content = {path: inode.content() for path, inode in disk.names.items()}
    for calls in range(1, 1000):
        crashed = disk_of(content)
        crashed.crash_after(calls)
        kept = Kept()
        try:
            live(opened(crashed), kept)
        except SimulatedCrash:
            for seed in range(4):
                check(opened(crashed.crash(Random(1000 * seed + calls), power=power)), kept)
        else:
            break
    assert calls > 60


class Kept:
    """What was committed: the deletions' positions, and the messages of T since the last."""

    def __init__(self) -> None:
        self.deleted = 0
        self.messages = [b"old"]
        self.sent = list[bytes]()


def live(store: MessageStore, kept: Kept) -> None:
    for n in range(3):
        append(store, "deleted")
        at = store.end_position
        store.delete_topic("T")
        flush(store)
        kept.deleted, kept.messages, kept.sent = at, [], [b"%d" % n]
        settle(store)
        append(store, "T", body=b"%d" % n)
        flush(store)
        kept.messages = list(kept.sent)
        settle(store)
    store.close()


def check(store: MessageStore, kept: Kept) -> None:
    store.advance(store.end_position)
    if kept.deleted:
        store.forget_deleted({"T": kept.deleted})
    found = bodies(store, "T") if store.find_queue("T", 0) else []
    assert found in (kept.messages, kept.sent) or not kept.deleted, (found, kept.messages, kept.sent)
    assert not any("list" in note for note in store.recovery.notes), store.recovery.notes
    settle(store)
    store.close()


def test_places_of_many_deleted_queues_are_forgotten_and_only_the_newest_line_of_a_queue_counts(monkeypatch) -> None:
    monkeypatch.setattr(queue_list, "_GONE_MAX", 2)
    disk = SimDisk()
    disk.make_directory("/data")
    lines, _ = QueueList.create(disk, "/data", ())
    for topic in ("a", "b", "c"):
        at = lines.put(QueueEntry(topic, 0, 1))
        lines.put(QueueEntry(topic, 0, 0, live=False, at=at))
    assert lines.put(QueueEntry("b", 0, 1)) == decode_queue_list(disk.names[LIST].content())[1].at
    assert lines.put(QueueEntry("a", 0, 1)) > decode_queue_list(disk.names[LIST].content())[2].at
    assert {topic: live for topic, _, live in listed(disk)} == {"a": True, "b": True, "c": False}


def test_a_line_that_was_there_at_the_start_is_used_again() -> None:
    disk = SimDisk()
    disk.make_directory("/data")
    lines, _ = QueueList.create(disk, "/data", ())
    for topic in ("T", "U"):
        lines.put(QueueEntry(topic, 0, 0, live=False))
    first, second = (entry.at for entry in decode_queue_list(disk.names[LIST].content()))
    again = QueueList(disk, "/data", disk.open(LIST), gone={("T", 0): first})
    assert again.put(QueueEntry("T", 0, 5)) == first
    assert again.put(QueueEntry("U", 0, 5)) > second


def test_of_many_lines_that_were_there_at_the_start_the_latest_are_remembered(monkeypatch) -> None:
    """After a kill the list is as it was, however many topics there were in the life before."""
    monkeypatch.setattr(queue_list, "_GONE_MAX", 2)
    disk = SimDisk()
    disk.make_directory("/data")
    lines, _ = QueueList.create(disk, "/data", ())
    for topic in "abc":
        lines.put(QueueEntry(topic, 0, 0, live=False))
    entries = decode_queue_list(disk.names[LIST].content())
    again = QueueList(disk, "/data", disk.open(LIST), gone={(entry.topic, 0): entry.at for entry in entries})
    assert again.put(QueueEntry("a", 0, 5)) > entries[-1].at
    assert [again.put(QueueEntry(topic, 0, 5)) for topic in "bc"] == [entry.at for entry in entries[1:]]
    assert {topic: live for topic, _, live in listed(disk)} == {"a": True, "b": True, "c": True}
