"""Random histories of a store on a simulated disk, and what must hold after every crash.

An omniscient record beside the store keeps what was answered (committed, or found by an earlier recovery, so that a
consumer may have seen it) and what was ever appended for each (queue, offset). After a crash and a recovery:

D1  consume queues and index answer as if derived from the log anew;
D2  the log is prefix-closed: per queue offsets 0..n without a gap, each record whole and one that was appended there;
G1  everything answered is where the answer said;
D3  after a failed flush nothing more was answered.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from logherd.model.record import decode_record
from logherd.store.checkpoint import decode_checkpoint
from logherd.store.errors import StoreFull, StoreStopped
from logherd.store.options import DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.store import MessageStore
from sim.disk import SimDisk, SimulatedCrash

ROOT = Path("/data")
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
QUEUES = [("A", 0), ("A", 1), ("B", 0), ("%RETRY%g", 0), ("T" * 130, 0)]


class SimClock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


def options(random: Random) -> StoreOptions:
    """Tiny limits, so that edges are met hundreds of times."""
    return StoreOptions(
        log=LogOptions(
            segment_bytes=random.choice([4096, 8192, 16384]), record_bytes_max=1500,
            batch_bytes_max=random.choice([600, 2048, 6000]), zero_ahead_bytes=random.choice([0, 2048, 8192]),
            zero_step_bytes=1024, reserve_bytes=0, metadata_bytes=512, flush="sync",
        ),
        derived=DerivedOptions(
            interval_ms=random.choice([0, 50, 1000]), bytes_max=random.choice([1000, 8000]),
            queue_file_units=random.choice([4, 16]), index_slots=random.choice([7, 64]),
            index_entries=random.choice([8, 40]), index_write_entries=random.choice([1, 20]), open_files_max=3,
            tail_units_max=random.choice([0, 8]),
        ),
        retention=RetentionOptions(age_ms=None, bytes_max=random.choice([None, 6_000])),
        checkpoint_sync_ms=random.choice([0, 100]), free_space_check_ms=0,
    )  # fmt: skip


@dataclass
class Beside:
    """What the omniscient record knows."""

    answered: dict[tuple[str, int, int], tuple[int, bytes]] = field(default_factory=dict)
    appended: dict[tuple[str, int, int], set[bytes]] = field(default_factory=dict)
    before_deletion: dict[tuple[str, int, int], set[bytes]] = field(default_factory=dict)
    """What was appended to topics that were deleted since: a crash may bring it back while nothing new was answered."""
    serial: int = 0
    stopped: bool = False
    refused: int = 0

    def delete_topic(self, topic: str) -> None:
        for key in [key for key in self.appended if key[0] == topic]:
            self.before_deletion.setdefault(key, set()).update(self.appended.pop(key))
            self.answered.pop(key, None)

    def allowed(self, key: tuple[str, int, int]) -> set[bytes]:
        """Bodies that may be found there: a queue that was made anew begins at 0, and then nothing older is left."""
        if (*key[:2], 0) in self.answered:
            return self.appended.get(key, set())
        return self.appended.get(key, set()) | self.before_deletion.get(key, set())


class History:
    """One store's life on one disk."""

    def __init__(self, seed: int, disk: SimDisk | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.disk = disk or SimDisk()
        drawn = options(self.random)
        # It is alone: nothing comes from other replicas, for which room would be kept behind that for metadata.
        self.options = replace(drawn, log=replace(drawn.log, foreign_record_bytes_max=0))
        self.clock = SimClock()
        self.beside = Beside()
        self.store: MessageStore | None = None
        self._waiting: list[tuple[tuple[str, int, int], int, bytes]] = []

    def open(self) -> MessageStore:
        self.store = MessageStore.open(ROOT, self.options, self.disk, clock=self.clock)
        return self.store

    def run(self, steps: int) -> None:
        """Random steps until done, or until the disk crashes or the store stops."""
        try:
            for _ in range(steps):
                if not self.beside.stopped:
                    self.step()
        except SimulatedCrash:
            pass

    def step(self) -> None:
        store, random = self.store, self.random
        self.clock.now += random.choice([0, 0, 1, 30])
        kind = random.randrange(12)
        try:
            if kind < 6:
                for _ in range(random.randrange(1, 6)):
                    self._append()
            if kind < 8:
                self._flush_some()
            elif kind == 8:
                self._delete_something()
            else:
                for _ in range(random.choice([1, 3, 30])):
                    store.background_work()
                store.tick()
        except StoreFull:
            self.beside.refused += 1
        except StoreStopped:
            self.beside.stopped = True

    def _append(self) -> None:
        topic, queue_id = self.random.choice(QUEUES)
        self.beside.serial += 1
        body = b"<%d:%s>" % (self.beside.serial, self.random.randbytes(self.random.choice([0, 3, 60, 300, 900])))
        properties = b"UNIQ_KEY\x01id%d\x02TAGS\x01t%d\x02KEYS\x01k%d x\x02" % (
            self.beside.serial, self.beside.serial % 3, self.beside.serial % 11,
        )  # fmt: skip
        queue = self.store.queue(topic, queue_id)
        offset, position = self.store.append(
            queue, body, properties, born_timestamp=1, born_host=HOST, store_timestamp=self.clock.now
        )
        key = (topic, queue_id, offset)
        self.beside.appended.setdefault(key, set()).add(body)
        self._waiting.append((key, position, body))

    def _delete_something(self) -> None:
        store, random = self.store, self.random
        if random.random() < 0.2:
            store.delete_topic("B")
            self.beside.delete_topic("B")
            self._waiting = [waiting for waiting in self._waiting if waiting[0][0] != "B"]
            return
        store.tick()
        while store.background_work() and random.random() < 0.98:
            pass
        pinned = random.choice([store.committed_position, random.randrange(store.committed_position + 1)])
        before = store.min_position
        store.apply_retention(self.clock.now, pinned)
        assert store.min_position <= max(pinned, before), "retention deleted what was pinned"

    def _flush_some(self) -> None:
        while self.random.random() < 0.8 and (batch := self.store.take_batch()) is not None:
            brief = bool(batch.start % 3) and batch.write_if_brief()  # as a follower does, while nothing else goes on
            if not brief:
                batch.write_and_flush()
            self.store.flushed(batch)
            self.store.advance(batch.end)
            if brief and batch.start % 5:  # the process may die before
                batch.note()
            while self._waiting and self._waiting[0][1] < batch.end:
                key, position, body = self._waiting.pop(0)
                self.beside.answered[key] = (position, body)

    def crash(self, *, power: bool) -> None:
        """Lose the process, and perhaps power."""
        self.store = None
        self._waiting.clear()
        self.disk = self.disk.crash(self.random, power=power)

    def rot(self) -> tuple[str, int] | None:
        """Flip one byte of a record that was flushed and that opening reads; the file and the byte, None if none is."""
        inode = self.disk.names.get(f"{ROOT}/checkpoint")
        slot = decode_checkpoint(inode.content()) if inode is not None else None
        if slot is None:
            return None
        start = min(slot.queues_dispatched, slot.index_dispatched)
        hit = [position for position, _ in self.beside.answered.values() if start <= position < slot.flushed]
        if not hit:
            return None
        position = self.random.choice(sorted(hit)) + self.random.choice([0, 3, 4, 8, 28, 35, 60, 90])
        for path, inode in self.disk.names.items():
            first = int(path.rpartition("/")[2]) if "/commitlog/" in path else -1
            if 0 <= first <= position < first + inode.size:
                self.flip(path, position - first)
                return path, position - first
        return None

    def flip(self, path: str, at: int) -> None:
        """Flip one byte, on the disk itself."""
        inode = self.disk.names[path]
        inode.base[at] ^= 0x40
        inode.durable[at] ^= 0x40

    def check(self) -> None:
        """All that must hold of a freshly opened store; what it shows counts as seen from now on."""
        store = self.store
        seen: dict[tuple[str, int, int], tuple[int, bytes]] = {}
        for queue in store.queues():
            offset = queue.min_offset
            if offset and store.unit(queue, offset - 1) is None and store.min_position == 0 and queue.topic != "B":
                raise AssertionError(f"{queue} lost its beginning")
            while offset < queue.max_offset:
                result = store.read(queue, offset, messages_max=7, bytes_max=2000)
                assert result.count > 0, (queue, offset, result)
                data = b"".join(result.slices)
                at = 0
                for _ in range(result.count):
                    record = decode_record(data, at)
                    key = (queue.topic, queue.queue_id, offset)
                    body = bytes(record.body)
                    assert (record.topic, record.queue_offset) == (queue.topic, offset), (key, record)
                    assert body in self.beside.allowed(key), f"{key} was never appended like this"
                    assert bytes(store.record_at(record.position)) == data[at : at + record.size]
                    seen[key] = (record.position, body)
                    at += record.size
                    offset += 1
                assert at == len(data)
        for key, value in self.beside.answered.items():
            if value[0] < store.min_position:
                continue
            assert seen.get(key) == value, f"answered {key} at {value[0]} and lost; found {seen.get(key)}"
        for key, (_, body) in seen.items():
            self.beside.appended.setdefault(key, set()).add(body)
        self.beside.answered = seen
        self._check_index(seen)

    def _check_index(self, seen: dict[tuple[str, int, int], tuple[int, bytes]]) -> None:
        for (topic, _, _), (position, body) in list(seen.items())[-20:]:
            serial = body[1:].partition(b":")[0].decode()
            found = self.store.query_index(topic, f"id{serial}", max_count=64, begin=0, end=1 << 60)
            assert position in found, f"the index lacks id{serial} of {topic} at {position}, has {found}"
            wrong = [at for at in found if self.store.record_at(at) is None]
            assert not wrong, f"the index names {wrong}, which begin no record"
