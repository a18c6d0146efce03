"""Hashes are Java's, for every text and however it is cut."""

from sys import getrefcount

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.javahash import extend_hash, hash_ascii, java_hash, signed32

ASCII = st.text(st.characters(max_codepoint=127), max_size=60) | st.integers(500, 1600).map("xy".__mul__)


def slow_hash(text: str) -> int:
    """The definition: h = 31 * h + unit over UTF-16 units, as a signed 32-bit number."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(raw), 2):
        value = (31 * value + int.from_bytes(raw[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("TagA", 2598919), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("漢字", 905333)],
)
def test_known_values_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text(max_size=60) | ASCII | st.just("\ud800"))
def test_every_text_has_the_hash_of_the_definition(text: str) -> None:
    assert java_hash(text) == slow_hash(text)


@pytest.mark.parametrize("unit", ["a", "\u6f22"])
def test_no_long_text_is_kept_for_its_hash(unit: str) -> None:
    """Peers choose them: 32 KiB each, and of each number that is remembered."""
    text = unit * 10_000
    references = getrefcount(text)
    assert java_hash(text) == slow_hash(text)
    assert getrefcount(text) == references


@given(ASCII, ASCII)
def test_a_hash_is_extended_by_a_suffix(prefix: str, suffix: str) -> None:
    assert extend_hash(hash_ascii(prefix.encode()), suffix.encode()) == hash_ascii((prefix + suffix).encode())


@pytest.mark.parametrize("length", [511, 512, 513, 1024, 1025])
def test_the_table_of_powers_ends_without_a_seam(length: int) -> None:
    text = "k" * length
    assert signed32(hash_ascii(text.encode())) == slow_hash(text)


@pytest.mark.parametrize(
    ("value", "signed"), [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (2**32 - 1, -1), (2**32, 0), (-1, -1)]
)
def test_the_low_32_bits_are_read_as_signed(value: int, signed: int) -> None:
    assert signed32(value) == signed
