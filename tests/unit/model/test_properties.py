"""Properties are parsed as RocketMQ does, and one is found as all of them would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.properties import find_property, format_properties, parse_properties

WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=8)
PROPERTIES = st.dictionaries(WORD, WORD, max_size=5)


@given(PROPERTIES)
def test_properties_come_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("K\x01v", {"K": "v"}),
        ("K\x01v\x02", {"K": "v"}),
        ("K\x01a\x01b\x02", {"K": "a\x01b"}),
        ("K\x02L\x01v\x02", {"L": "v"}),
        ("K\x01\x02L\x01v\x02", {"L": "v"}),
        ("\x01v\x02", {}),
        ("K\x01a\x02K\x01b\x02", {"K": "b"}),
    ],
)
def test_pieces_without_name_or_value_are_ignored(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_an_empty_value_is_not_written() -> None:
    assert format_properties({"K": "", "L": "v"}) == "L\x01v\x02"


@given(PROPERTIES, WORD, st.booleans())
def test_one_property_is_found_without_parsing_the_others(properties: dict[str, str], name: str, cut: bool) -> None:
    encoded = format_properties(properties).encode()
    if cut:
        encoded = encoded.removesuffix(b"\x02")
    for wanted in (*properties, name):
        value = properties.get(wanted)
        assert find_property(encoded, wanted.encode()) == (None if value is None else value.encode())


@pytest.mark.parametrize(
    ("encoded", "value"),
    [(b"", None), (b"K\x01\x02", None), (b"K\x01", None), (b"XK\x01v\x02", None), (b"X\x01K\x01v\x02", None),
     (b"X\x01v\x02K\x01w", b"w"), (b"K\x01v\x02", b"v"), (b"K\x02", None)],
)  # fmt: skip
def test_only_a_whole_name_counts(encoded: bytes, value: bytes | None) -> None:
    assert find_property(encoded, b"K") == value
