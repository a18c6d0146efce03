"""Frames at any cut of the stream, and what no frame costs."""

import tracemalloc
from random import Random
from zlib import crc32

import pytest

from logherd.peers.errors import FrameError
from logherd.peers.frames import FRAME_HEAD_SIZE, FrameReader, make_frame

PAYLOADS = [b"\x03", b"\x05hello", b"\x05" + bytes(range(256)) * 40, b"\x04"]
STREAM = b"".join(make_frame(payload) for payload in PAYLOADS)


def feed(reader: FrameReader, *pieces: bytes) -> list[bytes]:
    return [bytes(payload) for piece in pieces for payload in reader.feed(piece)]


def test_a_frame_is_length_checksum_and_payload() -> None:
    assert make_frame(b"ab") == b"\x00\x00\x00\x02" + crc32(b"ab").to_bytes(4, "big") + b"ab"
    assert make_frame(b"a", b"b") == make_frame(b"ab") == make_frame(b"a", memoryview(b"b"))


def test_frames_come_out_whole_at_any_cut() -> None:
    for cut in range(len(STREAM)):
        assert feed(FrameReader(1 << 20), STREAM[:cut], STREAM[cut:]) == PAYLOADS
    assert feed(FrameReader(1 << 20), *(bytes((byte,)) for byte in STREAM)) == PAYLOADS
    draw = Random(1)
    for _ in range(200):
        cuts = sorted(draw.randrange(len(STREAM)) for _ in range(draw.randrange(8)))
        pieces = [STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
        reader = FrameReader(1 << 20)
        assert feed(reader, *pieces) == PAYLOADS
        assert reader.buffered == 0


def test_a_payload_within_one_read_is_a_view_of_it() -> None:
    data = make_frame(b"abc")
    (payload,) = FrameReader(100).feed(data)
    assert payload.obj is data


@pytest.mark.parametrize("bit", [32, 40, 64, 71])
def test_a_flipped_bit_ends_the_stream(bit: int) -> None:
    damaged = bytearray(make_frame(b"abc"))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError, match="checksum"):
        FrameReader(100).feed(bytes(damaged))


@pytest.mark.parametrize(("size", "fits"), [(99, True), (100, True), (101, False)])
def test_the_largest_frame_is_the_limit(size: int, fits: bool) -> None:
    reader = FrameReader(100)
    if fits:
        assert feed(reader, make_frame(b"x" * size)) == [b"x" * size]
        return
    with pytest.raises(FrameError, match="101 bytes, 1 to 100"):
        reader.feed(make_frame(b"x" * size)[:FRAME_HEAD_SIZE])


def test_an_empty_frame_is_none() -> None:
    with pytest.raises(FrameError):
        FrameReader(100).feed(bytes(8))


def test_frames_before_the_fault_are_not_lost() -> None:
    with pytest.raises(FrameError) as caught:
        FrameReader(100).feed(make_frame(b"abc") + bytes(8))
    assert [bytes(frame) for frame in caught.value.frames] == [b"abc"]


def test_a_length_alone_takes_no_memory() -> None:
    reader = FrameReader(1 << 30)
    tracemalloc.start()
    try:
        reader.feed((1 << 30).to_bytes(4, "big") + b"1234x")
        assert tracemalloc.get_traced_memory()[1] < 10_000
        for _ in range(50_000):
            reader.feed(b"yz")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert reader.buffered == 9 + 100_000
