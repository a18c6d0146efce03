"""The store against the simplest thing that could be right: lists in memory. Hypothesis shrinks what differs."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from logherd.kit.javahash import java_hash
from logherd.store import ReadStatus, StoreFull
from unit.store.helpers import SimClock, SimDisk, append, bodies, flush, open_store

QUEUES = st.tuples(st.sampled_from(["A", "B", "%RETRY%g"]), st.integers(0, 2))


class StoreAgainstLists(RuleBasedStateMachine):
    """`pending` were appended, `committed` can be read; a kill forgets the first kind only."""

    def __init__(self):
        super().__init__()
        self.disk, self.clock = SimDisk(), SimClock()
        self.store = open_store(self.disk, clock=self.clock)
        self.committed = {}
        self.pending = []

    @rule(queue=QUEUES, body=st.binary(max_size=300), tag=st.sampled_from(["", "a", "b"]), later=st.integers(0, 50))
    def append(self, queue, body, tag, later):
        self.clock.now += later
        properties = b"TAGS\x01%s\x02KEYS\x01k%d\x02" % (tag.encode(), len(body) % 5)
        try:
            offset, _ = append(self.store, *queue, body=body, properties=properties, at=self.clock.now)
        except StoreFull:
            return
        before = len(self.committed.get(queue, [])) + sum(entry[0] == queue for entry in self.pending)
        assert offset == before
        self.pending.append((queue, body, tag, self.clock.now))

    @rule()
    def flush(self):
        flush(self.store)
        for queue, *message in self.pending:
            self.committed.setdefault(queue, []).append(tuple(message))
        self.pending.clear()

    @rule(steps=st.integers(1, 20))
    def background(self, steps):
        self.clock.now += 100
        self.store.tick()
        for _ in range(steps):
            self.store.background_work()

    @rule(orderly=st.booleans())
    def reopen(self, orderly):
        if orderly:
            self.store.close()
        self.disk.locks.clear()
        self.pending.clear()
        self.store = open_store(self.disk, clock=self.clock)

    @rule(topic=st.sampled_from(["A", "B"]))
    @precondition(lambda self: not self.pending)
    def delete_topic(self, topic):
        self.store.delete_topic(topic)
        self.background(200)  # until the files are gone: a kill before that may bring the topic back
        for queue in [queue for queue in self.committed if queue[0] == topic]:
            del self.committed[queue]

    @rule(queue=QUEUES, offset=st.integers(0, 30), limit=st.integers(1, 9), tag=st.sampled_from([None, "a", "b"]))
    def read(self, queue, offset, limit, tag):
        handle = self.store.find_queue(*queue)
        expected = self.committed.get(queue, [])
        if handle is None:
            assert not expected
            return
        codes = None if tag is None else frozenset({java_hash(tag)})
        result = self.store.read(handle, offset, messages_max=limit, bytes_max=1 << 20, tag_codes=codes)
        wanted = [n for n in range(offset, len(expected)) if tag is None or expected[n][1] == tag][:limit]
        assert result.count == len(wanted)
        assert (result.status is ReadStatus.FOUND) == bool(wanted)
        assert result.max_offset == len(expected)
        if wanted and result.count == limit:
            assert result.next_offset == wanted[-1] + 1

    @rule(queue=QUEUES, timestamp=st.integers(0, 2000), upper=st.booleans())
    def search(self, queue, timestamp, upper):
        handle = self.store.find_queue(*queue)
        if handle is None:
            return
        times = [message[2] for message in self.committed.get(queue, [])]
        timestamp += 1_700_000_000_000
        found = self.store.offset_by_time(handle, timestamp, upper=upper)
        if upper:
            assert found == max(sum(time <= timestamp for time in times) - 1, 0)
        else:
            assert found == sum(time < timestamp for time in times)

    @rule(topic=st.sampled_from(["A", "B"]), key=st.integers(0, 4))
    def look_up(self, topic, key):
        found = self.store.query_index(topic, f"k{key}", max_count=1000, begin=0, end=1 << 60)
        kept = sum(len(message[0]) % 5 == key for queue, messages in self.committed.items() if queue[0] == topic
                   for message in messages)  # fmt: skip
        assert len(found) >= kept, "deleted topics may leave more, never less"
        assert found == sorted(set(found), reverse=True)

    @invariant()
    def everything_committed_is_there(self):
        for queue, messages in self.committed.items():
            assert bodies(self.store, *queue) == [message[0] for message in messages]


StoreAgainstLists.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
test_the_store_behaves_like_lists = StoreAgainstLists.TestCase
