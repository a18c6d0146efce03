"""Queues and key index are the same whoever derives them: the leader as it appends, a follower by the leader's outline
or record by record, and each of them when it is opened again."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from logherd.store import MessageStore
from unit.store.helpers import HOST, ROOT, SimClock, SimDisk, append, flush, small_options

# Nothing of it is written to files, so that all of it can be compared.
OPTIONS = replace(
    small_options(
        log={"segment_bytes": 1 << 16, "batch_bytes_max": 1 << 14},
        derived={"interval_ms": 1 << 40, "bytes_max": 1 << 40, "index_write_entries": 1 << 20},
    ),
    replicated=True,
)  # fmt: skip

NAMES = st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"XKEYS", b"WAIT", b"UNIQ_KEYX", b""])
ODD = [
    b"", b" ", b"a b", b"a  b ", b"0123456789abcdef", b"0123456789abcdeg", b"0123456789aX", b"12345678901", b"\xff\xfe",
    "é😀 k".encode(), b"\xed\xa0\x80", b"KEYS\x01q", b"q" * 70, b"a\xc2\x85b",
]  # fmt: skip
TEXTS = st.text(st.characters(exclude_characters="\0\2", exclude_categories=["Cs"]), max_size=14).map(str.encode)
PAIRS = st.lists(st.tuples(NAMES, st.one_of(st.sampled_from(ODD), TEXTS)), max_size=4)
PROPERTIES = PAIRS.map(lambda pairs: b"".join(b"%s\x01%s\x02" % pair for pair in pairs))
TOPICS = st.sampled_from(["A", "%RETRY%g", "Ä" * 3, "T" * 130])
STEPS = st.tuples(st.sampled_from(["one", "run", "all"]), TOPICS, st.lists(PROPERTIES, min_size=1, max_size=4))


def derived(store: MessageStore) -> tuple[bytes, dict[tuple[str, int], bytes]]:
    """The waiting entries of the index, and the units of all queues."""
    units = {(queue.topic, queue.queue_id): bytes(queue.tail) for queue in store.queues() if queue.tail}
    return bytes(store._extract.pending), units


def opened(disk: SimDisk, *, replicated: bool = True) -> MessageStore:
    disk.locks.clear()
    return MessageStore.open(ROOT, replace(OPTIONS, replicated=replicated), disk, clock=SimClock())


def lead(leader: MessageStore, way: str, topic: str, properties: list[bytes], at: int) -> None:
    queue = leader.queue(topic, 0)
    if way == "all":
        messages = [(0, b"x", each) for each in properties]
        leader.append_all(queue, messages, born_timestamp=1, born_host=HOST, store_timestamp=at)
        return
    run = [(queue, b"x", each, None, 1, 0, 0, 0) for each in properties]
    done = len(leader.append_run(run, HOST, at)) if way == "run" else 0
    for each in properties[done:]:
        append(leader, topic, body=b"x", properties=each, at=at)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=6))
@example([("one", "A", [b"UNIQ_KEY\x01id\x02KEYS\x01a b\x02TAGS\x01t\x02"])])
@example([("all", "A", [b"KEYS\x01a\x02UNIQ_KEY\x01id\x02", b"UNIQ_KEY\x01id\x02"])])
def test_whoever_derives_them_queues_and_index_are_the_same(steps: list[tuple[str, str, list[bytes]]]) -> None:
    disk = SimDisk()
    leader, outlined, plain = opened(disk), opened(SimDisk()), opened(SimDisk())
    for number, (way, topic, properties) in enumerate(steps):
        lead(leader, way, topic, properties, 5000 + 7 * number)
    position = 0
    while position < leader.end_position:
        data, end = leader.read_raw(position, 600)
        outlined.append_raw(data, position, end=end, outlines=leader.outlines.between(position, end))
        plain.append_raw(data, position, end=end)
        position = end
    expected = derived(leader)
    assert derived(outlined) == expected
    assert derived(plain) == expected
    flush(leader)
    assert derived(opened(disk)) == expected
    assert derived(opened(disk, replicated=False)) == expected, "what is readable is derived in another way"
