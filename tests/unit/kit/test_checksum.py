"""The checksum of records, frames and files is zlib's, whatever computes it."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.checksum import crc32


@given(st.binary(max_size=5_000), st.integers(0, 0xFFFFFFFF), st.integers(0, 64))
def test_it_is_zlibs_for_any_bytes_at_any_start_and_place(data: bytes, start: int, skipped: int) -> None:
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)[skipped:], start) == zlib.crc32(data[skipped:], start)
