"""Records of a run are byte for byte those of the general encoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.host import encode_host
from logherd.model.record import RecordError, encode_record_for, encode_topic
from logherd.model.record_run import run_encoder

V4, V6 = encode_host("10.0.0.1", 4000), encode_host("::1", 4000)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TIMES = st.integers(0, (1 << 63) - 1)


@given(
    topic=st.binary(min_size=1, max_size=200), body=st.binary(max_size=300), properties=st.binary(max_size=300),
    numbers=st.tuples(INT32, INT32, TIMES, TIMES), born=TIMES, stored=TIMES, times=INT32, sys_flag=st.integers(0, 3),
)  # fmt: skip
def test_a_record_of_a_run_is_the_general_one(topic, body, properties, numbers, born, stored, times, sys_flag):
    queue_id, flag, offset, position = numbers
    part = encode_topic(topic)
    expected = encode_record_for(
        part, body, properties, queue_id, offset, position, stored, V4, born, V4, flag, sys_flag, times, 0
    )
    encode = run_encoder(V4, stored, V4)
    assert encode is not None
    pieces: list[bytes] = [b"before"]
    size = encode(pieces, part, body, properties, queue_id, flag, offset, position, sys_flag, born, times)
    assert (b"".join(pieces[1:]), len(pieces)) == (expected, 3)
    assert size == len(expected)


@pytest.mark.parametrize(("born", "store"), [(V6, V4), (V4, V6)])
def test_other_hosts_are_for_the_general_encoder(born, store):
    assert run_encoder(born, 1, store) is None


def test_properties_that_do_not_fit_add_nothing():
    encode = run_encoder(V4, 1, V4)
    pieces: list[bytes] = []
    with pytest.raises(RecordError, match="32768"):
        encode(pieces, encode_topic(b"T"), b"", b"x" * 32748, 0, 0, 0, 0, 0, 0, 0)
    assert pieces == []
