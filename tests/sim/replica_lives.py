"""Lives of a follower's store on a simulated disk: runs of a leader's log, cuts, commits, crashes at any call.

The leader is a store too, on a disk that never fails; a change of leadership is a cut of its log above what is
committed, and other records after it. Beside them stands what the follower's log held after every change. What is found
after a crash must be a state since the last flush, up to a torn end:

L1  the log is the front of such a state, and holds all that no later change took away from what was flushed;
L2  readable is what the group had committed, never more, and everything below it is there;
L3  queues end where the log does, and queues and index answer as if derived from it;
L4  in the end both logs are equal byte for byte, and so are the queues.
"""

from collections import Counter, deque
from dataclasses import replace
from random import Random
from typing import NamedTuple

from logherd.kit.errors import InvariantError
from logherd.model.record import decode_record
from logherd.store.errors import RawRefused, StoreDamaged, StoreFull, StoreStopped
from logherd.store.options import RetentionOptions
from logherd.store.outline import Outline
from logherd.store.store import MessageStore
from logherd.store.writer import WriteBatch
from sim.disk import SimDisk, SimulatedCrash
from sim.history import HOST, QUEUES, ROOT, SimClock, options

__all__ = ["run_replica_history"]

_LIVES = 4


class Entry(NamedTuple):
    """One record of the log. `deletes` names the topic that it deletes."""

    position: int
    end: int
    topic: str
    queue_id: int
    offset: int
    body: bytes
    deletes: str = ""


Log = tuple[Entry, ...]


class ReplicaHistory:
    """One leader, one follower."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = SimClock()
        drawn = options(self.random)
        self.options = replace(drawn, replicated=True, retention=RetentionOptions(age_ms=None))
        self.disk = SimDisk()
        self.leader = MessageStore.open(ROOT, self.options, SimDisk(), clock=self.clock)
        self.retention = drawn.retention
        self.leads: Log = ()
        self.follower: MessageStore | None = None
        self.states: list[Log] = [()]
        self.flushed = 0
        self.taken: deque[tuple[WriteBatch, int]] = deque()
        self.committed = 0
        self.serial = 0
        self.stopped = False
        self.seen = Counter[str]()

    @property
    def store(self) -> MessageStore:
        assert self.follower is not None
        return self.follower

    def open(self) -> MessageStore:
        self.follower = MessageStore.open(ROOT, self.options, self.disk, clock=self.clock)
        self.follower.retention = self.retention
        return self.follower

    # ---- what happens ------------------------------------------------------------------------------------------

    def step(self) -> None:
        random = self.random
        self.clock.now += random.choice([0, 0, 1, 30])
        kind = random.randrange(14)
        try:
            if kind < 5:
                self.lead(random.randrange(1, 6))
            if kind < 8:
                self.ship()
            if kind < 10:
                self.flush_some()
            if kind in (3, 8, 9):
                self.commit()
            elif kind == 10:
                self.change_leader()
            elif kind == 11:
                self.retain()
            elif kind > 11:
                for _ in range(random.choice([1, 3, 30])):
                    self.store.background_work()
                self.store.tick()
        except StoreFull:
            self.seen["refused for want of space"] += 1
        except StoreStopped:
            self.stopped = True
            self.seen["stopped by a failed flush"] += 1

    def lead(self, count: int) -> None:
        """Let the leader append."""
        if self.random.random() < 0.5:
            count -= self.lead_together(count)
        for _ in range(count):
            self.serial += 1
            topic, queue_id = self.random.choice(QUEUES)
            deletes = "B" if self.random.random() < 0.05 else ""
            body = b"<%d:%s>" % (self.serial, self.random.randbytes(self.random.choice([0, 3, 60, 300, 900])))
            queue = self.leader.queue("deletions", 0) if deletes else self.leader.queue(topic, queue_id)
            properties = b"UNIQ_KEY\x01id%d\x02TAGS\x01t%d\x02" % (self.serial, self.serial % 3)
            offset, position = self.leader.append(
                queue, body, properties, born_timestamp=1, born_host=HOST, store_timestamp=self.clock.now
            )
            entry = Entry(position, self.leader.end_position, queue.topic, queue.queue_id, offset, body, deletes)
            self.leads += (entry,)
            if deletes:
                self.leader.delete_topic("B")
        if self.random.random() < 0.5:
            self.flush_leader()

    def lead_together(self, count: int) -> int:
        """Let the leader append messages to one topic in a run; how many of them."""
        topic, at = self.random.choice(QUEUES)[0], self.leader.end_position
        bodies, messages = list[bytes](), []
        for number in range(self.serial + 1, self.serial + 1 + count):
            queue_id = self.random.choice([each for name, each in QUEUES if name == topic])
            properties = b"UNIQ_KEY\x01id%d\x02TAGS\x01t%d\x02" % (number, number % 3)
            key = None
            if self.random.random() < 0.5:
                properties, key = b"UNIQ_KEY\x01id%d\x02" % number, b"id%d" % number
            bodies.append(b"<%d:%s>" % (number, self.random.randbytes(self.random.choice([0, 3, 60]))))
            messages.append((self.leader.queue(topic, queue_id), bodies[-1], properties, key, 1, 0, 0, 0))
        placed = self.leader.append_run(messages, HOST, self.clock.now)
        self.serial += len(placed)
        ends = [position for position, _ in placed[1:]] + [self.leader.end_position]
        for (position, offset), end, body, (queue, *_) in zip(placed, ends, bodies, messages, strict=False):
            self.leads += (Entry(position, end, topic, queue.queue_id, offset, body),)
        self.seen["outlined by the leader"] += len(self.leader.outlines.between(at, self.leader.end_position))
        return len(placed)

    def flush_leader(self) -> None:
        while (batch := self.leader.take_batch()) is not None:
            batch.write_and_flush()
            self.leader.flushed(batch)
            if self.random.random() < 0.3:
                break

    def ship(self) -> None:
        """Let the follower append some of what the leader has and it has not."""
        store, random = self.store, self.random
        self.agree()
        for _ in range(random.choice([1, 1, 3, 20])):
            if store.end_position == self.leader.end_position:
                return
            data, end = self.leader.read_raw(store.end_position, random.choice([1, 500, 3000, 50_000]))
            outlines = self.leader.outlines.between(store.end_position, end)
            if random.random() < 0.02:
                self.refuse_damage(bytes(data), outlines)
            assert store.append_raw(data, store.end_position, end=end, outlines=outlines) == end
            self.seen["shipped with an outline"] += len(outlines)
            self.see(tuple(entry for entry in self.leads if entry.position < end))

    def refuse_damage(self, data: bytes, outlines: list[Outline]) -> None:
        """A flipped bit is noticed, whatever it hits, and nothing of the run is taken."""
        place = self.random.randrange(len(data))
        broken = bytearray(data)
        broken[place] ^= 1 << self.random.randrange(8)
        end = self.store.end_position
        try:
            self.store.append_raw(broken, end, outlines=outlines)
        except RawRefused:
            assert self.store.end_position == end
            self.seen["refused damage on the way"] += 1
        else:
            raise AssertionError(f"a flipped bit at byte {place} of a run at {end} was appended")

    def agree(self) -> None:
        """Cut what the leader has not."""
        common = 0
        log = self.states[-1]
        while common < min(len(log), len(self.leads)) and log[common] == self.leads[common]:
            common += 1
        shared_end = log[common - 1].end if common else 0
        if common == len(log):
            following = self.leads[common].position if self.leads[common:] else self.leader.end_position
            if following >= self.store.end_position:
                return
            at = shared_end  # only a blank record differs
        else:
            at = self.random.choice([log[common].position, shared_end])
            if self.leads[common:] and self.leads[common].position < at:
                at = shared_end
        self.store.truncate(at)
        self.see(log[:common])
        self.seen["cut"] += 1

    def flush_some(self) -> None:
        store = self.store
        while self.random.random() < 0.8:
            if (batch := store.take_batch()) is not None:
                self.taken.append((batch, self.flushed if store.untaken else len(self.states) - 1))
            if self.taken and self.random.random() < 0.8:
                self.write_oldest()

    def write_oldest(self) -> None:
        """Do the writer thread's next piece, which may have been taken some cuts ago."""
        batch, covers = self.taken.popleft()
        batch.write_and_flush()
        self.store.flushed(batch)
        self.flushed = max(self.flushed, covers)

    def see(self, log: Log) -> None:
        self.states.append(log)

    def commit(self) -> None:
        """Let the group commit some of what both have and the follower has flushed."""
        certain = self.certain(self.states[self.flushed :])
        shared = [a.end for a, b in zip(certain, self.leads, strict=False) if a == b and a.end > self.committed]
        if shared:
            self.committed = self.random.choice([shared[0], shared[-1], self.random.choice(shared)])
            self.seen["committed"] += 1
        touched = self.store.advance(self.committed)
        assert all(queue.max_offset > 0 for queue in touched)
        assert self.store.committed_position <= self.committed
        self.flush_leader()
        self.leader.advance(self.committed)
        self.forget_deleted()

    def forget_deleted(self) -> None:
        deleted = [entry for entry in self.states[-1] if entry.deletes and entry.end <= self.store.committed_position]
        if deleted:
            self.store.forget_deleted({"B": deleted[-1].end})
            self.seen["deletion committed"] += 1

    def certain(self, states: list[Log]) -> Log:
        """What every one of these logs begins with."""
        first = states[0]
        length = len(first)
        for log in states[1:]:
            length = min(length, len(log))
            while first[:length] != log[:length]:
                length -= 1
        return first[:length]

    def change_leader(self) -> None:
        """Another log wins: it has what is committed, and some of the rest."""
        if self.random.random() < 0.5:
            self.flush_leader()
        kept = [entry.end for entry in self.leads if entry.end >= self.committed]
        at = self.random.choice([self.committed, *kept])
        self.leader.truncate(at)
        self.leads = tuple(entry for entry in self.leads if entry.end <= at)
        self.lead(self.random.randrange(1, 8))
        if self.committed and self.random.random() < 0.2:
            self.refuse_cut()

    def refuse_cut(self) -> None:
        before = self.store.end_position
        try:
            self.store.truncate(self.store.committed_position - 1)
        except InvariantError:
            assert self.store.end_position == before
        else:
            raise AssertionError("a committed record was cut")

    def retain(self) -> None:
        store = self.store
        store.tick()
        while store.background_work() and self.random.random() < 0.98:
            pass
        store.apply_retention(self.clock.now, self.random.randrange(store.committed_position + 1))

    def crash(self, *, power: bool) -> None:
        self.follower = None
        self.taken.clear()
        self.disk = self.disk.crash(self.random, power=power)

    # ---- what must hold ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """All that must hold of a freshly opened follower; what was found is durable from now on."""
        store = self.store
        found = self.found()
        self.check_log(found)
        assert store.committed_position <= self.committed, f"{store.committed_position} readable, {self.committed} told"
        assert not found or store.flushed_position == store.end_position
        self.states, self.flushed = [found], 0
        self.forget_deleted()  # as a broker does when it starts
        self.check_queues()

    def found(self) -> Log:
        """The log as it lies there; the part that was deleted is as it was."""
        store = self.store
        known = {(entry.position, entry.body): entry for log in self.states for entry in log}
        log = [entry for entry in self.states[-1] if entry.end <= store.min_position]
        position = store.min_position
        while position < store.end_position:
            data, end = store.read_raw(position, 1)
            if len(data) > 8:
                record = decode_record(data)
                entry = known.get((position, bytes(record.body)))
                assert entry is not None, f"the record at {position} was never there"
                assert (entry.end, entry.topic, entry.offset) == (end, record.topic, record.queue_offset)
                log.append(entry)
            position = end
        return tuple(log)

    def check_log(self, found: Log) -> None:
        states = self.states[self.flushed :]
        for number, log in enumerate(states):
            if found == log[: len(found)] and len(found) >= len(self.certain(states[: number + 1])):
                return
        raise AssertionError(f"L1: {len(found)} records found, none of {[len(log) for log in states]} fits")

    def check_queues(self) -> None:
        store, log = self.store, self.states[-1]
        readable: dict[tuple[str, int], list[Entry]] = {}
        ends: dict[tuple[str, int], int] = {}
        for entry in log:
            name = (entry.topic, entry.queue_id)
            ends[name] = entry.offset + 1
            if not entry.offset:  # what was before is out of sight as soon as the queue begins again
                readable[name] = []
            if entry.end <= store.committed_position:
                readable.setdefault(name, []).append(entry)
        gone = max((entry.end for entry in log if entry.deletes and entry.end <= store.committed_position), default=0)
        readable = {name: [entry for entry in entries if name[0] != "B" or entry.end > gone]
                    for name, entries in readable.items()}  # fmt: skip
        for name, end in ends.items():
            queue = store.find_queue(*name)
            if name[0] == "B" and not any(entry.end > gone for entry in log if (entry.topic, entry.queue_id) == name):
                assert queue is None or not queue.next_offset, f"L2: {queue} was deleted at {gone}"
                continue
            assert queue is not None, name
            assert queue.next_offset == end, f"L3: {queue} goes on with {queue.next_offset}, should with {end}"
            kept = [entry for entry in readable.get(name, []) if entry.position >= store.min_position]
            self.check_messages(queue, kept)

    def check_messages(self, queue, kept: list[Entry]) -> None:
        """L2 and L3 of one queue."""
        store, offset, bodies = self.store, queue.min_offset, []
        while offset < queue.max_offset:
            result = store.read(queue, offset, messages_max=7, bytes_max=2000)
            assert result.count, (queue, offset)
            data, at = b"".join(result.slices), 0
            for _ in range(result.count):
                record = decode_record(data, at)
                bodies.append(bytes(record.body))
                at += record.size
            offset = result.next_offset
        assert bodies == [entry.body for entry in kept], f"L2: {queue} has {len(bodies)} messages, not {len(kept)}"
        for entry in kept[-3:]:
            serial = entry.body[1:].partition(b":")[0].decode()
            hits = store.query_index(queue.topic, f"id{serial}", max_count=64, begin=0, end=1 << 60)
            assert entry.position in hits, f"L3: the index lacks id{serial}"
            assert all(hit < store.committed_position for hit in hits)

    def finish(self) -> None:
        """L4: bring the follower to where the leader is."""
        store = self.store
        self.agree()
        while store.end_position < self.leader.end_position:
            data, end = self.leader.read_raw(store.end_position, 5000)
            store.append_raw(data, store.end_position, end=end)
        while self.taken:
            self.write_oldest()
        for each in (store, self.leader):
            while (batch := each.take_batch()) is not None:
                batch.write_and_flush()
                each.flushed(batch)
            each.advance(each.end_position)
        self.committed = store.end_position
        assert store.committed_position == store.end_position == self.leader.committed_position
        self.see(self.leads)
        self.forget_deleted()
        position = store.min_position
        while position < store.end_position:
            ours, end = store.read_raw(position, 1 << 20)
            theirs, _ = self.leader.read_raw(position, 1 << 20)
            assert bytes(ours) == bytes(theirs), f"L4: the logs differ in what follows {position}"
            position = end
        for queue in self.leader.queues():
            other = store.find_queue(queue.topic, queue.queue_id)
            assert queue.max_offset == 0 or (other is not None and other.max_offset == queue.max_offset), queue
            if other is not None:
                ours = [store.unit(other, offset) for offset in range(other.min_offset, other.max_offset)]
                theirs = [self.leader.unit(queue, offset) for offset in range(other.min_offset, queue.max_offset)]
                assert ours == theirs, f"L4: the units of {queue} differ"
        self.check_queues()


def run_replica_history(seed: int) -> Counter[str]:
    """One history; counts crash states, and what was met on the way. Raises: AssertionError if a rule is broken."""
    history = ReplicaHistory(seed)
    random, seen = Random(seed ^ 0x5EED), history.seen
    for _ in range(_LIVES):
        while True:
            history.disk.crash_after(random.choice([None, random.randrange(1, 40)]))
            if random.random() < 0.1:
                history.disk.failing_flush = random.randrange(8)
                history.disk.failing_path = random.choice(["", "/commitlog/"])
            seen["states"] += 1
            try:
                recovery = history.open().recovery
            except SimulatedCrash:
                seen["crashed while recovering"] += 1
                history.crash(power=random.random() < 0.8)
                continue
            except (OSError, StoreStopped):
                seen["a flush failed while recovering"] += 1
                history.crash(power=random.random() < 0.3)
                continue
            except StoreDamaged as error:
                raise AssertionError(f"refused after an honest crash: {error}") from error
            break
        history.disk.crash_after(None)
        history.disk.failing_flush = None
        seen.update((f"tail: {recovery.tail}", f"derived: {recovery.derived}"))
        seen["opened with an uncommitted end"] += history.store.committed_position < history.store.end_position
        history.check()
        _plan_end(history, random)
        try:
            for _ in range(random.randrange(3, 50)):
                if not history.stopped:
                    history.step()
        except SimulatedCrash as crash:
            seen["crashed in a cut"] += "_cut" in _functions(crash)
        history.crash(power=random.random() < 0.8)
        history.stopped = False
        history.disk.capacity = 1 << 30
    history.open()
    history.check()
    history.finish()
    history.store.close()
    history.open()
    history.check()
    assert history.store.committed_position == history.committed, "L2: an orderly end forgets nothing"
    return seen


def _functions(error: BaseException) -> set[str]:
    names, frame = set[str](), error.__traceback__
    while frame is not None:
        names.add(frame.tb_frame.f_code.co_name)
        frame = frame.tb_next
    return names


def _plan_end(history: ReplicaHistory, random: Random) -> None:
    """How this life ends: at a write of the log, at any call, or after a flush that fails."""
    kind = random.randrange(10)
    if random.random() < 0.2:
        history.disk.capacity = history.disk.used() + random.randrange(20_000)
    if kind < 5:
        history.disk.crash_after(random.randrange(1, 30), at="write /data/commitlog")
    elif kind < 9:
        history.disk.crash_after(random.randrange(1, 120))
    else:
        history.disk.failing_flush = random.randrange(30)
        history.disk.failing_path = random.choice(["", "/commitlog/"])
