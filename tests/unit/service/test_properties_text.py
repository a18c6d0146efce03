"""Configurations as `name=value` lines, as Java's Properties reads and RocketMQ writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.service.properties_text import format_properties_text, parse_properties_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("# note\n! note\n\n a : 1 \r\n", {"a": "1"}),
        ("alone", {"alone": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c", {"a": "b=c"}),
        (r"a\=b=c\\d\t\u00e9", {"a=b": "c\\d\té"}),
        ("a=one \\\n   two", {"a": "one two"}),
        (r"path=C\:\\dir", {"path": r"C:\dir"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        (r"a=4\ud8008", {"a": "4\ufffd8"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties_text(text) == expected


NAMES = st.from_regex(r"[a-zA-Z.]{1,12}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9:=/ ;]{0,12}[a-z0-9]", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    stripped = {name: value.strip() for name, value in values.items()}
    assert parse_properties_text(format_properties_text(stripped).decode()) == stripped
