"""Compressed message bodies: zlib stream (RFC 1950), LZ4 frame or zstd frame, as three bits of the sys flag say.

Only clients decompress; a broker keeps what it got. A few bytes can name gigabytes, so that decompression stops at a
size, whatever the data says about itself.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/compression/CompressionType.java
"""

import zlib

import lz4.frame
import zstandard

from logherd.model.record import SysFlag
from logherd.wire.errors import BodyError, BodyTooLarge

__all__ = ["PLAIN_BYTES_MAX", "compress_body", "decompress_body"]

_ZLIB_LEVEL = 5
_ZSTD_LEVEL = 3
_ZSTD_WINDOW_BYTES_MAX = 8 << 20
_PIECE_BYTES = 64 << 10


PLAIN_BYTES_MAX = 4 << 20
"""What a body may become: as many bytes as stock producers send at most unless told otherwise. There is no bound on how
many times it grows, because zeros or one repeated line, which such a producer may send, grow a thousand times."""


def decompress_body(body: bytes | memoryview, sys_flag: int, bytes_max: int = PLAIN_BYTES_MAX) -> bytes:
    """The body as its producer had it; a copy also when it is not compressed.

    Raises: BodyError for an unknown method, or damaged or truncated data; BodyTooLarge for more than `bytes_max` bytes.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return bytes(body)
    method = sys_flag & SysFlag.COMPRESSION_MASK
    try:
        if method in (0, SysFlag.COMPRESSION_ZLIB):
            plain, whole = _inflate(body, bytes_max)
        elif method == SysFlag.COMPRESSION_LZ4:
            plain, whole = _unpack_lz4(body, bytes_max)
        elif method == SysFlag.COMPRESSION_ZSTD:
            plain, whole = _unpack_zstd(body, bytes_max)
        else:
            raise BodyError(f"the body's compression method is {method:#x}, known are 0x0, 0x100, 0x200 and 0x300")
    except (zlib.error, RuntimeError, zstandard.ZstdError) as error:
        raise BodyError(f"the body of {len(body)} bytes cannot be decompressed: {error}") from error
    if len(plain) > bytes_max:
        raise BodyTooLarge(f"the body of {len(body)} bytes decompresses to more than {bytes_max} bytes")
    if not whole:
        raise BodyError(f"the compressed body of {len(body)} bytes is cut short")
    return plain


def _inflate(body: bytes | memoryview, allowed: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    plain = stream.decompress(body, allowed + 1)
    return plain, stream.eof


def _unpack_lz4(body: bytes | memoryview, allowed: int) -> tuple[bytes, bool]:
    stream = lz4.frame.LZ4FrameDecompressor()
    plain: bytes = stream.decompress(body, max_length=allowed + 1)
    return plain, bool(stream.eof)


def _unpack_zstd(body: bytes | memoryview, allowed: int) -> tuple[bytes, bool]:
    # One call without a window needs no more memory than its result; it refuses truncated data itself. The size that a
    # frame declares is what would be allocated.
    declared = zstandard.frame_content_size(body)
    if declared > allowed:
        raise BodyTooLarge(f"the body of {len(body)} bytes says that it decompresses to more than {allowed} bytes")
    try:
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=allowed), True
    except zstandard.ZstdError:
        # Java producers declare no size: one that is too large then ends in the same error as one that is cut short.
        if declared < 0 and _exceeds(body, allowed):
            raise BodyTooLarge(f"the body of {len(body)} bytes decompresses to more than {allowed} bytes") from None
        raise


def _exceeds(body: bytes | memoryview, allowed: int) -> bool:
    """Whether more than `allowed` bytes come out of a zstd frame. Keeps a piece of them at a time."""
    left = allowed
    with zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).stream_reader(body) as stream:
        while left >= 0 and (piece := stream.read(_PIECE_BYTES)):
            left -= len(piece)
    return left < 0


def compress_body(body: bytes, method: int = SysFlag.COMPRESSION_ZLIB) -> tuple[bytes, int]:
    """The compressed body, and the bits that say so in the sys flag. `method` is one of SysFlag.COMPRESSION_*.

    Raises: BodyError for an unknown method.
    """
    if method == SysFlag.COMPRESSION_ZLIB:
        packed = zlib.compress(body, _ZLIB_LEVEL)
    elif method == SysFlag.COMPRESSION_LZ4:
        packed = lz4.frame.compress(body)
    elif method == SysFlag.COMPRESSION_ZSTD:
        packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)
    else:
        raise BodyError(f"the compression method is {method:#x}, known are 0x100, 0x200 and 0x300")
    return packed, method | SysFlag.COMPRESSED
