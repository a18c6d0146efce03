"""Hashes of ids are those of any key, whatever was hashed before."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.javahash import java_hash
from logherd.store.consume_queue import topic_hash
from logherd.store.key_index import PENDING, KeyHasher, find_waiting, hash_key

keys = st.one_of(
    st.from_regex(rb"\A7F00000100[0-9A-F]{22}\Z"), st.binary(max_size=80), st.text(max_size=20).map(str.encode)
)


@given(st.lists(keys, max_size=20))
def test_an_id_is_hashed_like_any_key(found: list[bytes]) -> None:
    hasher = KeyHasher()
    for topic in ("orders", "t\xf6pic"):
        for key in found * 2:
            assert hasher.hash_id(topic_hash(topic), key) == hash_key(topic_hash(topic), key)


def test_an_id_is_hashed_as_java_does() -> None:
    assert KeyHasher().hash_id(topic_hash("t"), b"7F0000010000000000000000000000A1") == abs(
        java_hash("t#7F0000010000000000000000000000A1")
    )


def test_what_is_remembered_is_bounded() -> None:
    hasher = KeyHasher()
    for number in range(5000):
        hasher.hash_id(7, b"%020d%08d%04d" % (number, number, number))
    assert max(len(hasher._beginnings), len(hasher._clients)) <= 1024


@given(st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 0x7FFFFFFF), st.integers(0, 1 << 40)), max_size=30))
def test_waiting_entries_are_found_newest_first(entries):
    waiting = b"".join(PENDING.pack(key_hash, position, position + 7) for key_hash, position in entries)
    for wanted in {key_hash for key_hash, _ in entries} | {0, 1}:
        expected = [(position, position + 7) for key_hash, position in reversed(entries) if key_hash == wanted]
        assert list(find_waiting(waiting, wanted)) == expected
