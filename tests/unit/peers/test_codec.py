"""Envelopes and bytes, in both directions; whatever else the bytes are, they are refused and nothing more."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from logherd.group.messages import Contradicted, Presence, Summons
from logherd.model.names import Epoch, Position
from logherd.peers.codec import decode_envelope, encode_envelope, envelope_parts
from logherd.peers.errors import CodecError
from logherd.raft.messages import TimeoutNow, VoteAnswer, VoteRequest
from logherd.replication.epochs import ORIGIN, Point, Run
from logherd.replication.log import Image, Span
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    ClusterId,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    Stale,
)

CLUSTER = ClusterId("c1", 3)
A, B = ReplicaId("a.00000000000000aa"), ReplicaId("b.00000000000000bb")
IMAGE = Image("7-900-0badcafe", Point(Epoch(7), Position(900)), 0xDEADBEEF, 0xCAFE, 5, b"{}")
SPAN = Span(
    Point(Epoch(6), Position(100)), Position(190), (Run(Epoch(6), Position(100)), Run(Epoch(7), Position(140))), b"xyz"
)
EMPTY = Span(Point(Epoch(6), Position(100)), Position(100), (), b"")

GOLDEN: list[tuple[object, str, str]] = [
    (Append(9, SPAN, Position(80)), "0100", ("000000000000000900000000000000060000000000000064"
     "00000000000000be0000000000000050" "0002" "00000000000000060000000000000064" "0000000000000007000000000000008c"
     "78797a")),
    (Append(9, changed(SPAN, outline=b"uv"), Position(80)), "0101", ("000000000000000900000000000000060000000000000064"
     "00000000000000be0000000000000050" "0002" "00000000000000060000000000000064" "0000000000000007000000000000008c"
     "00000002" "7576" "78797a")),
    (Append(9, EMPTY, Position(80)), "0100",
     ("00000000000000090000000000000006000000000000006400000000000000640000000000000050" "0000")),
    (AppendAck(9, Position(190), Position(100)), "0200", "000000000000000900000000000000be0000000000000064"),
    (AppendReject(9, Position(190), Point(Epoch(5), Position(80))), "0300",
     "000000000000000900000000000000be00000000000000050000000000000050"),
    (Heartbeat(4, Position(80)), "0400", "00000000000000040000000000000050"),
    (HeartbeatAck(4, Position(80)), "0500", "00000000000000040000000000000050"),
    (HeartbeatAck(4, Position(80), busy=True), "0501", "00000000000000040000000000000050"),
    (HeartbeatAck(4, Position(80), short=True), "0502", "00000000000000040000000000000050"),
    (CopyChunk(9, IMAGE, 2, b"xyz"), "0600", ("0000000000000009" "0000000000000002" "0000000000000007"
     "0000000000000384" "deadbeef" "0000cafe" "0000000000000005" "000e" "00000002" "372d3930302d3062616463616665"
     "7b7d" "78797a")),
    (CopyAck(9, "7-900", 2), "0700", ("00000000000000090000000000000002" "372d393030")),
    (Stale(), "0800", ""),
    (TimeoutNow(), "0900", ""),
    (VoteRequest(ORIGIN), "0a00", "00000000000000000000000000000000"),
    (VoteRequest(Point(Epoch(6), Position(100)), pre=True), "0a01", "00000000000000060000000000000064"),
    (VoteRequest(Point(Epoch(6), Position(100)), transfer=True), "0a02", "00000000000000060000000000000064"),
    (VoteAnswer(granted=True), "0b01", ""),
    (VoteAnswer(granted=False, pre=True), "0b02", ""),
    (ReadAsk(2**64 - 1), "0c00", "ffffffffffffffff"),
    (ReadGrant(5, Position(190)), "0d01", "000000000000000500000000000000be"),
    (ReadGrant(5, Position(0)), "0d01", "00000000000000050000000000000000"),
    (ReadGrant(5, None), "0d00", "00000000000000050000000000000000"),
    (Summons(), "1000", ""),
    (Presence(Point(Epoch(6), Position(100))), "1100", "00000000000000060000000000000064"),
    (Presence(ORIGIN, leaving=True), "1101", "00000000000000000000000000000000"),
    (Contradicted(Point(Epoch(6), Position(100))), "1200", "00000000000000060000000000000064"),
]  # fmt: skip
ADDRESS = "0263310000000312" + A.encode().hex() + "12" + B.encode().hex()


def envelope(body: object, epoch: int = 8) -> Envelope:
    return Envelope(CLUSTER, A, B, Epoch(epoch), body)


@pytest.mark.parametrize(("body", "tag", "fields"), GOLDEN)
def test_every_message_has_the_bytes_of_version_one(body: object, tag: str, fields: str) -> None:
    head = f"0501{tag}0000000000000008{len(bytes.fromhex(ADDRESS)):04x}"
    data = bytes.fromhex(head + ADDRESS + fields)
    assert encode_envelope(envelope(body)) == data
    assert decode_envelope(data) == envelope(body)
    assert decode_envelope(memoryview(bytearray(data))) == envelope(body)


def test_the_golden_messages_are_all_there_are() -> None:
    assert {type(body) for body, _, _ in GOLDEN} == {
        Append, AppendAck, AppendReject, Heartbeat, HeartbeatAck, CopyChunk, CopyAck, Stale, TimeoutNow, VoteRequest,
        VoteAnswer, ReadAsk, ReadGrant, Summons, Presence, Contradicted,
    }  # fmt: skip


@pytest.mark.parametrize(("body", "tag", "fields"), GOLDEN)
def test_bytes_that_are_cut_short_are_refused_by_name(body: object, tag: str, fields: str) -> None:
    whole = encode_envelope(envelope(body))
    data = len(bytes(getattr(body, "data", b"") or getattr(getattr(body, "span", None), "data", b"")))
    text = len(getattr(body, "image", "")) if isinstance(body, CopyAck) else 0
    for size in range(len(whole) - data - text):
        with pytest.raises(CodecError) as caught:
            decode_envelope(whole[:size])
        assert caught.value.field


@pytest.mark.parametrize(("body", "tag", "fields"), GOLDEN)
def test_only_the_codecs_own_error_comes_out_of_damaged_bytes(body: object, tag: str, fields: str) -> None:
    whole = encode_envelope(envelope(body))
    draw = Random(tag)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        if draw.random() < 0.3:
            damaged += draw.randbytes(draw.randrange(1, 30))
        check(bytes(damaged))


@given(st.binary(max_size=200))
def test_only_the_codecs_own_error_comes_out_of_any_bytes(data: bytes) -> None:
    check(data)
    check(b"\x05\x01" + data)
    check(bytes.fromhex("0501") + data[:2] + bytes(8) + bytes.fromhex("002d" + ADDRESS) + data[2:])


def check(data: bytes) -> None:
    """If it decodes, it is what its encoding says, and a span or chunk of it keeps what the cores rely on."""
    try:
        found = decode_envelope(data)
    except CodecError:
        return
    assert encode_envelope(found) == data
    if isinstance(found.body, Append):
        span = found.body.span
        assert bool(span.runs) == bool(span.data)
        assert span.history.runs == span.runs  # raises if the runs are none


numbers = st.integers(0, 2**63 - 1)
points = st.builds(Point, numbers, numbers)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    steps = draw(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), max_size=5))
    previous = Point(Epoch(draw(st.integers(0, 2**40))), Position(draw(st.integers(0, 2**40))))
    if not steps:
        return Span(previous, previous.position, (), b"")
    epochs = list(accumulate((epoch for epoch, _ in steps), initial=previous.epoch + draw(st.integers(0, 1))))
    places = list(accumulate((size for _, size in steps), initial=previous.position))
    runs = tuple(Run(Epoch(epoch), Position(at)) for epoch, at in zip(epochs, places[:-1], strict=False))
    data, outline = draw(st.binary(min_size=1, max_size=100)), draw(st.binary(max_size=50))
    return Span(previous, Position(places[-1]), runs, data, outline)


@st.composite
def chunks(draw: st.DrawFn) -> CopyChunk:
    data, offset = draw(st.binary(max_size=100)), draw(st.integers(0, 2**40))
    size = offset + len(data) + draw(st.integers(0, 10))
    sums = st.integers(0, 2**32 - 1)
    image = Image(draw(st.text(max_size=80)), draw(points), draw(sums), draw(sums), size, draw(st.binary(max_size=300)))
    return CopyChunk(draw(numbers), image, offset, data)


bodies = st.one_of(
    st.builds(Append, numbers, spans(), numbers),
    st.builds(AppendAck, numbers, numbers, numbers),
    st.builds(AppendReject, numbers, numbers, points),
    st.builds(Heartbeat, numbers, numbers),
    st.builds(HeartbeatAck, numbers, numbers, st.booleans(), st.booleans()),
    chunks(),
    st.builds(CopyAck, numbers, st.text(max_size=80), numbers),
    st.builds(VoteRequest, points, st.booleans(), st.booleans()),
    st.builds(VoteAnswer, st.booleans(), st.booleans()),
    st.just(Summons()),
    st.builds(Presence, points, st.booleans()),
    st.builds(Contradicted, points),
    st.builds(ReadAsk, st.integers(0, 2**64 - 1)),
    st.builds(ReadGrant, st.integers(0, 2**64 - 1), st.none() | numbers),
)
names = st.text(min_size=1, max_size=60)


@given(names, st.integers(0, 2**32 - 1), names, names, bodies)
def test_what_is_encoded_is_decoded(name: str, reset: int, sender: str, to: str, body: object) -> None:
    whole = Envelope(ClusterId(name, reset), ReplicaId(sender), ReplicaId(to), Epoch(2**62), body)
    data = encode_envelope(whole)
    assert decode_envelope(data) == whole
    assert b"".join(envelope_parts(whole)) == data


def test_data_is_neither_copied_in_nor_out() -> None:
    data = memoryview(bytearray(b"z" * 5))
    for body in (Append(1, changed(SPAN, data=data), Position(0)), CopyChunk(1, IMAGE, 0, data)):
        assert envelope_parts(envelope(body))[1] is data
        received = bytearray(encode_envelope(envelope(body)))
        found = decode_envelope(memoryview(received)).body
        kept = found.span.data if isinstance(found, Append) else found.data  # type: ignore[attr-defined]
        assert bytes(kept) == b"zzzzz"
        received[-1] = ord("!")
        assert bytes(kept) == b"zzzz!"


BROKEN_SPANS: dict[str, Callable[[Span], Span]] = {
    "data without runs": lambda span: changed(span, runs=()),
    "runs without data": lambda span: changed(span, data=b""),
    "an empty span that ends elsewhere": lambda span: changed(span, runs=(), data=b""),
    "a first run elsewhere": lambda span: changed(span, runs=(Run(Epoch(6), Position(101)), *span.runs[1:])),
    "a first run of an older epoch": lambda span: changed(span, runs=(Run(Epoch(5), Position(100)), *span.runs[1:])),
    "epochs that do not rise": lambda span: changed(span, runs=(span.runs[0], Run(Epoch(6), Position(140)))),
    "places that do not rise": lambda span: changed(span, runs=(span.runs[0], Run(Epoch(7), Position(100)))),
    "a run at the end": lambda span: changed(span, runs=(span.runs[0], Run(Epoch(7), Position(190)))),
    "an outline of nothing": lambda _: changed(EMPTY, outline=b"u"),
    "an epoch above the leader's": lambda span: changed(span, runs=(span.runs[0], Run(Epoch(9), Position(140)))),
}


@pytest.mark.parametrize("name", BROKEN_SPANS)
def test_a_span_that_would_stop_a_core_is_refused(name: str) -> None:
    data = encode_envelope(envelope(Append(1, BROKEN_SPANS[name](SPAN), Position(0))))
    with pytest.raises(CodecError, match=r"append\."):
        decode_envelope(data)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (Heartbeat(2**63, Position(0)), "heartbeat"),
        (AppendAck(1, Position(2**63), Position(0)), "append ack"),
        (AppendReject(1, Position(0), Point(Epoch(2**63), Position(0))), "append reject"),
        (Append(2**63, EMPTY, Position(0)), "append"),
        (CopyChunk(1, replace(IMAGE, size=2**63), 0, b""), "copy chunk"),
        (CopyChunk(1, IMAGE, 3, b"xyz"), "copy chunk.offset"),
        (CopyAck(2**63, "i", 0), "copy ack"),
        (ReadGrant(1, Position(2**63)), "read grant"),
        (VoteRequest(Point(Epoch(2**63), Position(0))), "vote request"),
    ],
)
def test_numbers_that_fit_no_log_are_refused_by_name(body: object, field: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode_envelope(encode_envelope(envelope(body)))
    assert caught.value.field == field


@pytest.mark.parametrize("size", [0, 6, 2**32 - 1])
def test_an_outline_that_does_not_lie_in_the_message_is_refused(size: int) -> None:
    data = bytearray(encode_envelope(envelope(Append(1, changed(SPAN, outline=b"uv"), Position(0)))))
    data[-9:-5] = size.to_bytes(4)
    with pytest.raises(CodecError, match=r"append\.outline: .* bytes are told, 5 are left"):
        decode_envelope(data)


def test_an_epoch_that_could_not_be_counted_on_is_refused() -> None:
    with pytest.raises(CodecError, match="epoch"):
        decode_envelope(encode_envelope(envelope(Stale(), 2**63)))


@pytest.mark.parametrize(
    "body",
    [object(), Heartbeat(-1, Position(0)), Heartbeat(2**64, Position(0)), CopyAck(1, "\ud800", 0),
     CopyChunk(1, replace(IMAGE, identity="i" * 70_000), 0, b"")],
)  # fmt: skip
def test_what_has_no_place_in_the_layout_is_not_encoded(body: object) -> None:
    with pytest.raises(CodecError):
        encode_envelope(envelope(body))


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_a_name_that_does_not_fit_is_not_encoded(name: str) -> None:
    with pytest.raises(CodecError, match="sender"):
        encode_envelope(Envelope(CLUSTER, ReplicaId(name), B, Epoch(1), Stale()))


def test_another_version_is_refused_by_its_number() -> None:
    data = bytearray(encode_envelope(envelope(Stale())))
    data[1] = 2
    with pytest.raises(CodecError, match="version 2"):
        decode_envelope(bytes(data))
