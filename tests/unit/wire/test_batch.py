"""A batch comes back as it was made; lengths that disagree are refused, whichever they are."""

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.wire.batch import BATCH_MESSAGES_MAX, BatchMessage, decode_batch, encode_batch
from logherd.wire.errors import BodyError
from logherd.wire.limits import ANSWER_LIMITS

INT32 = st.integers(-(2**31), 2**31 - 1)
MESSAGES = st.lists(
    st.builds(BatchMessage, INT32, st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=6
)


@given(MESSAGES)
def test_a_batch_comes_back(messages: list[BatchMessage]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


def test_the_layout_is_the_one_that_java_writes() -> None:
    unit = pack(">IIIii", 20 + 4 + 2 + 7, 0, 0, 9, 4) + b"body" + pack(">h", 7) + b"TAGS\x01A\x02"
    assert encode_batch([BatchMessage(9, b"body", b"TAGS\x01A\x02")] * 2) == unit * 2


@given(MESSAGES, st.data())
def test_a_batch_cut_anywhere_is_refused(messages: list[BatchMessage], data: st.DataObject) -> None:
    encoded = encode_batch(messages)
    ends = {len(encode_batch(messages[:count])) for count in range(1, len(messages) + 1)}
    cut = data.draw(st.integers(0, len(encoded) - 1).filter(lambda at: at not in ends))
    with pytest.raises(BodyError):
        decode_batch(encoded[:cut])


@pytest.mark.parametrize("at", [0, 16, 24])
@pytest.mark.parametrize("change", [-1, 1, 1000, 2**31, -(2**31)])
def test_a_wrong_length_is_refused(at: int, change: int) -> None:
    encoded = bytearray(encode_batch([BatchMessage(0, b"body", b"K\x01v\x02")]))
    size = 2 if at == 24 else 4
    wrong = (int.from_bytes(encoded[at : at + size], "big") + change) % 256**size
    if wrong.to_bytes(size, "big") == encoded[at : at + size]:
        wrong = 256**size - 1
    encoded[at : at + size] = wrong.to_bytes(size, "big")
    with pytest.raises(BodyError, match="message 0"):
        decode_batch(encoded)


@given(st.binary(max_size=90))
def test_any_bytes_give_messages_or_a_body_error(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        assert encode_batch(decode_batch(data))


def test_the_number_of_messages_is_bounded() -> None:
    unit = encode_batch([BatchMessage(0, b"", b"")])
    for count in (BATCH_MESSAGES_MAX - 1, BATCH_MESSAGES_MAX):
        assert len(decode_batch(unit * count)) == count
    with pytest.raises(BodyError, match=f"more than {BATCH_MESSAGES_MAX}"):
        decode_batch(unit * (BATCH_MESSAGES_MAX + 1))


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BodyError, match="no message"):
        decode_batch(b"")


def test_properties_that_do_not_fit_their_length_are_not_sent() -> None:
    assert decode_batch(encode_batch([BatchMessage(0, b"b", bytes(32767))]))
    with pytest.raises(BodyError, match="32768"):
        encode_batch([BatchMessage(0, b"b", bytes(32768))])


def test_the_ids_of_the_largest_batch_fit_an_answer() -> None:
    id_length = 2 * (20 + 8)
    assert BATCH_MESSAGES_MAX * (id_length + len(",")) < ANSWER_LIMITS.value_bytes_max
