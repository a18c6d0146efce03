"""The record of the controllers' log: layout, chain of checksums, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.names import Epoch, Position
from logherd.raft.record import HEADER_SIZE, Kind, Record, decode_records, encode_record
from logherd.replication.log import SpanDamagedError

GOLDEN = bytes.fromhex("4c48020000000003000000000000006400000000000000078c3dc1f7616263")


def chain(*bodies: bytes) -> list[Record]:
    records: list[Record] = []
    for number, body in enumerate(bodies):
        start = records[-1].end if records else Position(0)
        seal = records[-1].checksum if records else 0
        records.append(encode_record(Kind.DATA, Epoch(number + 1), start, body, seal=seal))
    return records


def test_the_layout_is_what_the_module_says() -> None:
    record = encode_record(Kind.MEMBERS, Epoch(7), Position(100), b"abc", seal=5)
    assert record.frame[:24] == GOLDEN[:24]
    assert record.frame[28:] == b"abc"
    assert record.end == 100 + HEADER_SIZE + 3
    assert list(decode_records(record.frame, after=Position(100), seal=5)) == [record]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
def test_what_was_encoded_is_decoded_from_any_record_on(bodies: list[bytes]) -> None:
    records = chain(*bodies)
    data = b"".join(record.frame for record in records)
    for number in range(len(records)):
        after = records[number - 1].end if number else Position(0)
        seal = records[number - 1].checksum if number else 0
        assert list(decode_records(data, after=after, seal=seal)) == records[number:]


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=4), st.data())
def test_every_flipped_bit_is_noticed(bodies: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(b"".join(record.frame for record in chain(*bodies)))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SpanDamagedError):
        list(decode_records(bytes(raw), after=Position(0), seal=0))


@given(st.integers(1, 60))
def test_a_range_cut_short_is_noticed(cut: int) -> None:
    raw = b"".join(record.frame for record in chain(b"first", b"second"))
    with pytest.raises(SpanDamagedError):
        list(decode_records(raw[: len(raw) - min(cut, HEADER_SIZE + 5)], after=Position(0), seal=0))


def test_records_that_continue_another_log_are_refused() -> None:
    """Equal positions and epochs, other history below: the chained checksum tells."""
    with pytest.raises(SpanDamagedError):
        list(decode_records(chain(b"one", b"two")[1].frame, after=Position(31), seal=chain(b"ONE")[0].checksum))
