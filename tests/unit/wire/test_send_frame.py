"""Ordinary sends decoded in one step mean the same as when they are decoded by fields."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.errors import FrameError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd.wire.limits import WireLimits
from logherd.wire.send_frame import SendFrame, decode_typed_send, typed_header_max

EXT = {
    "a": "group", "b": "topic", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01AB\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip


def read(data: bytes, *, typed: bool, limits: WireLimits | None = None) -> Frame:
    (frame,) = FrameReader(limits or WireLimits(), typed_sends=typed).feed(data)
    return frame


def header_bytes(**changed: Any) -> bytes:
    fields = {"code": 310, "extFields": EXT, "flag": 0, "language": "JAVA", "opaque": 7, "version": 477} | changed
    return json.dumps(fields, separators=(",", ":")).encode()


def framed(header: bytes, body: bytes = b"body") -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4) + len(header).to_bytes(4) + header + body


text = st.text(max_size=40)
numbers = st.integers(-(1 << 31), (1 << 31) - 1).map(str)
values = st.one_of(text, numbers, st.sampled_from(["true", "false", "", "1e3", " 1", "01", "1.0", "null", "True", "0"]))


@given(
    ext=st.fixed_dictionaries({}, optional=dict.fromkeys("abcdefghijklmnopz", values)).map(
        lambda changed: EXT | changed
    ),
    removed=st.sets(st.sampled_from(sorted(EXT)), max_size=2),
    flag=st.integers(0, 3),
    opaque=st.integers(-5, 5),
)
def test_a_typed_send_means_what_its_fields_say(ext: dict[str, str], removed: set[str], flag: int, opaque: int) -> None:
    kept = {key: value for key, value in ext.items() if key not in removed}
    data = encode_frame(Frame(310, opaque, flag=flag, ext=kept, body=b"xyz"))
    typed, plain = read(data, typed=True), read(data, typed=False)
    assert (typed.code, typed.opaque, typed.flag, typed.body) == (plain.code, plain.opaque, plain.flag, plain.body)
    if isinstance(typed, SendFrame):
        expected = decode_header(SendMessageHeaderV2, plain.ext)
        assert all(getattr(typed.header, name) == getattr(expected, name) for name in expected.__struct_fields__)
    else:
        assert typed == plain


@pytest.mark.parametrize("cut", range(1, 360, 7))
def test_sends_are_typed_however_they_are_cut(cut: int) -> None:
    data = b"".join(encode_frame(Frame(310, n, ext=EXT, body=b"x" * n)) for n in range(4))
    reader = FrameReader(typed_sends=True)
    frames = [frame for at in range(0, len(data), cut) for frame in reader.feed(data[at : at + cut])]
    assert [(type(frame), frame.opaque, frame.body) for frame in frames] == [(SendFrame, n, b"x" * n) for n in range(4)]
    assert not reader.mid_frame


def test_the_form_that_stock_clients_send_is_typed() -> None:
    assert type(read(framed(header_bytes()), typed=True)) is SendFrame


@pytest.mark.parametrize(
    "header",
    [
        header_bytes(code=10),
        header_bytes(flag=1),
        header_bytes(remark="why"),
        header_bytes(extFields=EXT | {"Signature": "abc"}),
        header_bytes(extFields=EXT | {"e": "x"}),
        header_bytes(extFields=EXT | {"i": "v" * 2100}),
        header_bytes()[:-1] + b',"code":10}',
    ],
)
def test_anything_else_is_left_to_the_general_decoder(header: bytes) -> None:
    assert type(read(framed(header), typed=True)) is Frame


@pytest.mark.parametrize(
    "header", [header_bytes()[:-1], header_bytes(extFields=EXT | {"b": ["x"]}), header_bytes()[:60]]
)
def test_a_wrong_header_is_refused_with_and_without_typing(header: bytes) -> None:
    said = []
    for typed in (True, False):
        with pytest.raises(FrameError) as caught:
            read(framed(header), typed=typed)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_small_limits_are_kept_by_not_typing() -> None:
    assert typed_header_max(WireLimits(fields_max=13)) == 0
    assert typed_header_max(WireLimits(value_bytes_max=100)) == 100
    limits = WireLimits(fields_max=12)
    with pytest.raises(FrameError):
        read(framed(header_bytes()), typed=True, limits=limits)


def test_a_header_of_another_code_is_not_even_tried() -> None:
    assert decode_typed_send(b'{"code":31,"opaque":1}', b"") is None
