"""What was compressed comes back; bombs stop at their limit; damage is refused."""

import random
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.record import SysFlag
from logherd.wire.compression import PLAIN_BYTES_MAX, compress_body, decompress_body
from logherd.wire.errors import BodyError, BodyTooLarge

METHODS = [SysFlag.COMPRESSION_ZLIB, SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD]
BYTES_MAX = 100_000


@given(st.binary(max_size=400).map(lambda data: data * 9), st.sampled_from(METHODS))
def test_a_body_comes_back(body: bytes, method: int) -> None:
    packed, bits = compress_body(body, method)
    assert decompress_body(memoryview(packed), bits | SysFlag.TRANSACTION_COMMIT) == body


def test_old_clients_name_no_method_and_mean_zlib() -> None:
    assert decompress_body(zlib.compress(b"hello"), SysFlag.COMPRESSED) == b"hello"


def test_a_body_that_is_not_compressed_is_left_alone() -> None:
    assert decompress_body(b"hello", SysFlag.COMPRESSION_LZ4) == b"hello"


def test_a_zstd_frame_without_a_declared_size_comes_back() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(b"hello" * 100) + stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert decompress_body(packed, SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD) == b"hello" * 100


@pytest.mark.parametrize("method", [0x400, 0x500, 0x600, 0x700])
def test_an_unknown_method_is_refused(method: int) -> None:
    with pytest.raises(BodyError, match="method"):
        decompress_body(b"x", SysFlag.COMPRESSED | method)
    with pytest.raises(BodyError, match="method"):
        compress_body(b"x", method)


@pytest.mark.parametrize("method", METHODS)
def test_damaged_and_truncated_bodies_are_refused(method: int) -> None:
    body = bytes(range(256)) * 20
    packed, bits = compress_body(body, method)
    for cut in range(len(packed) - 4):
        with pytest.raises(BodyError):
            decompress_body(packed[:cut], bits)
    for other in METHODS:
        if other != method:
            with pytest.raises(BodyError):
                decompress_body(packed, SysFlag.COMPRESSED | other)


@pytest.mark.parametrize("method", METHODS)
def test_the_size_is_bounded_at_its_exact_value(method: int) -> None:
    size = 5_000
    packed, bits = compress_body(bytes(size), method)
    for allowed in (size + 1, size):
        assert decompress_body(packed, bits, allowed) == bytes(size)
    with pytest.raises(BodyError):
        decompress_body(packed, bits, size - 1)


def undeclared(plain: bytes) -> bytes:
    """A zstd frame as Java producers make it: they write it without knowing how long it will be."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(plain) + stream.flush()


@pytest.mark.parametrize("plain", [bytes(200_000), random.Random(1).randbytes(200_000)], ids=["zeros", "noise"])
def test_a_body_that_is_too_large_is_no_damaged_one(plain: bytes) -> None:
    bodies = [compress_body(plain, method) for method in METHODS]
    bodies.append((undeclared(plain), SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD))
    for packed, bits in bodies:
        assert decompress_body(packed, bits, len(plain)) == plain
        with pytest.raises(BodyTooLarge, match=f"more than {len(plain) - 1} bytes"):
            decompress_body(packed, bits, len(plain) - 1)
        with pytest.raises(BodyError) as damaged:
            decompress_body(packed[:-1], bits, len(plain))
        assert not isinstance(damaged.value, BodyTooLarge)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("plain", [bytes(PLAIN_BYTES_MAX), b"the same line\n" * 200_000], ids=["zeros", "a line"])
def test_what_a_stock_producer_may_send_can_be_read_however_much_it_shrinks(plain: bytes, method: int) -> None:
    packed, bits = compress_body(plain, method)
    assert len(plain) > 200 * len(packed)
    assert decompress_body(packed, bits) == plain


def bombs() -> list[tuple[bytes, int]]:
    plain = bytes(64 * 1024 * 1024)
    stream = zstandard.ZstdCompressor().compressobj()
    return [
        (zlib.compress(plain, 9), SysFlag.COMPRESSION_ZLIB),
        (zlib.compress(zlib.compress(plain, 9) * 20, 9), SysFlag.COMPRESSION_ZLIB),
        (lz4.frame.compress(plain), SysFlag.COMPRESSION_LZ4),
        (zstandard.ZstdCompressor().compress(plain), SysFlag.COMPRESSION_ZSTD),
        (stream.compress(plain) + stream.flush(), SysFlag.COMPRESSION_ZSTD),
    ]


def test_a_bomb_takes_no_more_memory_than_its_limit() -> None:
    for packed, method in bombs():
        tracemalloc.start()
        try:
            with pytest.raises(BodyError):
                decompress_body(packed, SysFlag.COMPRESSED | method, BYTES_MAX)
            assert tracemalloc.get_traced_memory()[1] < 5 * BYTES_MAX
        finally:
            tracemalloc.stop()
