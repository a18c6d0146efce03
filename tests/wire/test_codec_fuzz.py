"""Half a million damaged frames and some bombs: one family of errors, no growth, no slow input.

Cases W01 to W03, W05 and W07 of the fault-testing sheet.
"""

import gc
import resource
import sys
import time
import tracemalloc
from struct import pack

import pytest

from logherd.wire.batch import decode_batch
from logherd.wire.bodies import decode_body
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.errors import FrameError, WireError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.message import decode_messages
from logherd.wire.table import REQUESTS
from wire.mutations import FrameMutator, corpus

FRAMES = 500_000
SEED = 20_240_601
CPU_SECONDS_MAX = 0.1
GROWTH_BYTES_MAX = 32 * 1024 * 1024


def read(pieces: list[bytes]) -> list[Frame]:
    reader = FrameReader()
    frames: list[Frame] = []
    for piece in pieces:
        try:
            frames += reader.feed(piece)
        except FrameError as error:
            return [*frames, *error.frames]
    return frames


def understand(frame: Frame) -> int:
    """Do with a frame what servers and clients do; how much of it made sense."""
    understood = 0
    row = REQUESTS.get(frame.code)
    if row is not None:
        for cls in (row.header, row.response):
            understood += cls is not None and tried(decode_header, cls, frame.ext)
        for body in (row.body, row.response_body):
            understood += body is not None and tried(decode_body, body, frame.body)
    if frame.body:
        understood += tried(decode_messages, frame.body) + tried(decode_batch, frame.body)
    return understood


def tried(decode: object, *arguments: object) -> bool:
    try:
        decode(*arguments)  # type: ignore[operator]
    except WireError as error:
        # What a peer sent must not flood a log, nor forge lines in it.
        message = str(error)
        if len(message) > 1_000 or "\n" in message:
            raise AssertionError(f"a message of {len(message)} characters: {message!r:.200}") from error
        return False
    return True


def push(mutator: FrameMutator, count: int) -> tuple[int, int, float]:
    """Frames decoded, parts understood, and the CPU seconds of the slowest input."""
    decoded = understood = 0
    slowest = 0.0
    for number in range(count):
        data = mutator.next_frame()
        pieces = mutator.pieces(data)
        started = time.thread_time()
        try:
            frames = read(pieces)
            for frame in frames:
                understood += understand(frame)
                if not number & 7:
                    assert read([encode_frame(frame)]) == [frame]
        except Exception as error:
            raise AssertionError(f"seed {SEED}, input {number}: {data.hex()[:4000]}") from error
        decoded += len(frames)
        spent = time.thread_time() - started
        if spent > slowest:
            slowest = spent
            assert slowest < CPU_SECONDS_MAX, f"seed {SEED}, input {number}: {data.hex()[:4000]}"
    return decoded, understood, slowest


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_the_corpus_itself_is_whole() -> None:
    assert all(read([data]) for data in corpus())


def test_a_seed_repeats_its_frames() -> None:
    first, second = FrameMutator(1), FrameMutator(1)
    assert [first.next_frame() for _ in range(200)] == [second.next_frame() for _ in range(200)]


def bombs() -> dict[str, bytes]:
    fields = b",".join(b'"%d":""' % number for number in range(24_000))
    pairs = b"".join(b"\0\4%04d\0\0\0\1x" % (number % 10_000) for number in range(24_000))
    binary = pack(">hBhiii", 34, 0, 0, 1, 0, 0) + pack(">i", len(pairs)) + pairs
    return {
        "fields": raw_frame(b'{"code":34,"extFields":{%b}}' % fields),
        "binary fields": raw_frame(binary, kind=1),
        "numbers": raw_frame(b'{"code":34,"extFields":{%b}}' % fields.replace(b'""', b"1")),
        "remark": raw_frame(b'{"code":34,"remark":"%b"}' % (b"\\u0041" * 40_000)),
        "value": raw_frame(b'{"code":34,"extFields":{"k":"%b"}}' % (b"x" * 250_000)),
        "key": raw_frame(b'{"code":34,"extFields":{"%b":""}}' % (b"\\n" * 120_000)),
        "depth": raw_frame(b'{"code":34,"x":' + b"[" * 260_000),
        "digits": raw_frame(b'{"code":' + b"7" * 260_000 + b"}"),
        "header": pack(">II", 10 * 1024 * 1024, 10 * 1024 * 1024 - 4),
    }


def raw_frame(header: bytes, *, kind: int = 0) -> bytes:
    return pack(">II", 4 + len(header), kind << 24 | len(header)) + header


@pytest.mark.parametrize("name", bombs())
def test_a_header_bomb_is_refused_quickly(name: str) -> None:
    data = bombs()[name]
    started = time.thread_time()
    with pytest.raises(FrameError):
        FrameReader().feed(data)
    assert time.thread_time() - started < CPU_SECONDS_MAX
    # Once more for the memory: counting it takes many times longer than the decoding does.
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            FrameReader().feed(data)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_half_a_million_damaged_frames_do_no_harm() -> None:
    mutator = FrameMutator(SEED)
    push(mutator, FRAMES // 10)
    gc.collect()
    blocks, peak = sys.getallocatedblocks(), peak_bytes()
    decoded, understood, slowest = push(mutator, FRAMES - FRAMES // 10)
    gc.collect()
    # A fuzzer whose frames are all refused at the first length tests nothing.
    assert decoded > FRAMES // 4
    assert understood > FRAMES // 10
    assert sys.getallocatedblocks() - blocks < 20_000
    assert peak_bytes() - peak < GROWTH_BYTES_MAX
    print(f"\n{decoded} of {FRAMES} decoded, {understood} parts understood, slowest {slowest * 1000:.1f} ms")
