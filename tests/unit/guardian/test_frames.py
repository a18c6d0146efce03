"""The report is a frame that the broker's own codec reads, and its answers are read as that codec writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.leases import LeaseReleaseHeader
from logherd_guardian.frames import ANSWER_BYTES_MAX, LEASE_RELEASE, Answer, Exit, decode_answer, encode_report
from logherd_guardian.page import Identity

EXIT = Exit(Identity(cluster="Default\"Cluster'", group="bé", broker_id=7, store_id="5t0re"), "ab" * 16)


def test_the_report_says_whose_process_has_exited() -> None:
    (frame,) = FrameReader().feed(encode_report(EXIT))
    assert frame.code == LEASE_RELEASE == 27001
    assert not frame.is_response
    assert not frame.is_oneway
    assert frame.body == b""
    assert frame.ext == {
        "clusterName": "Default\"Cluster'",
        "brokerName": "bé",
        "brokerId": "7",
        "storeId": "5t0re",
        "incarnation": "ab" * 16,
        "exited": "true",
    }


def test_the_report_is_what_controllers_decode() -> None:
    (frame,) = FrameReader().feed(encode_report(EXIT))
    assert frame.code == RequestCode.LEASE_RELEASE
    assert decode_header(LeaseReleaseHeader, frame.ext) == LeaseReleaseHeader(
        cluster_name="Default\"Cluster'", broker_name="bé", broker_id=7, store_id="5t0re", incarnation="ab" * 16,
        exited=True,
    )  # fmt: skip


def answer_bytes(code: int, remark: str | None = None, opaque: int = 1, **ext: str) -> bytes:
    return encode_frame(Frame(code, opaque, flag=Flag.RESPONSE, remark=remark, ext=ext))


def test_an_answer_is_read_at_any_cut() -> None:
    data = answer_bytes(2007, "ask 10.0.0.2:9878", controllerLeaderAddress="10.0.0.2:9878")
    for cut in range(len(data)):
        assert decode_answer(data[:cut]) is None
    assert decode_answer(data) == Answer(2007, "10.0.0.2:9878", "ask 10.0.0.2:9878")
    assert decode_answer(data + b"more") == Answer(2007, "10.0.0.2:9878", "ask 10.0.0.2:9878")


def test_a_plain_answer_is_read() -> None:
    assert decode_answer(answer_bytes(0, masterEpoch="3")) == Answer(0)


@pytest.mark.parametrize("leader", ['""', "5", "[]"])
def test_a_leader_without_a_name_is_none(leader: str) -> None:
    header = b'{"code":2007,"opaque":1,"flag":1,"extFields":{"controllerLeaderAddress":%b}}' % leader.encode()
    data = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    assert decode_answer(data) == Answer(2007)


@pytest.mark.parametrize(
    "data",
    [
        answer_bytes(0, opaque=2),
        encode_frame(Frame(0, 1)),
        b"\x00\x00\x00\x03abcd",
        (ANSWER_BYTES_MAX + 1).to_bytes(4, "big") + bytes(8),
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x06\x00\x00\x00\x03{}",
        b"\x00\x00\x00\x06\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x06\x01\x00\x00\x02{}",
        b"\x00\x00\x00\x06\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x31\x00\x00\x00\x2d" + b'{"code":Infinity,"opaque":1,"flag":1,"a":[0]}',
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x23\x01\x00\x00\x1f" + b'{"code":0,"opaque":1,"flag":1}  ',
        b"\x00\x00\x00\x23\x00\x00\x00\x20" + b'{"code":0,"opaque":1,"flag":1}  ',
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_answer(data)


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x00\x00\x00\x40\x00\x00\x00\x30"]))
def test_any_bytes_are_an_answer_or_refused_or_incomplete(data: bytes, start: bytes) -> None:
    try:
        found = decode_answer(start + data)
    except ValueError:
        return
    assert found is None or isinstance(found.code, int)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3))
def test_any_json_in_an_answer_is_read_or_refused(value: object) -> None:
    import json

    for name in ("code", "opaque", "flag", "remark", "extFields"):
        header = {"code": 0, "opaque": 1, "flag": 1, "remark": "", "extFields": {}, name: value}
        data = json.dumps(header).encode()
        framed = (4 + len(data)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
        try:
            found = decode_answer(framed)
        except ValueError:
            continue
        assert found is not None
        assert isinstance(found.remark, str)
