"""Broker and operator read YAML alike, and refuse what is none in the same words, which are ours."""

import pytest
import yaml

from logherd.settings.errors import SettingsError
from logherd.settings.yaml_text import parse_yaml as parse_of_broker
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.yaml_text import parse_yaml as parse_of_operator

BROKEN = [
    ("a: [1 2, 3", "line 1, column 11: a list in [ ] should have ',' between its values and ']' at its end"),
    ("a: {b: 1", "line 1, column 9: keys in { } should have ',' between them and '}' at their end"),
    ("a: ]", "line 1, column 4: a value should stand here, and each bracket have its counterpart"),
    ("a: 1\n b: 2", "line 2, column 3: no key can stand here; indent keys alike, and put a text with ': ' in quotes"),
    ("a:\n  b: 1\n c: 2", "line 3, column 2: the line should be indented as those that it belongs to"),
    ("a:\n\tb: 1", "line 2, column 1: a tab stands here; indent with spaces"),
    ("a: @x", "line 1, column 4: nothing begins with this character; put a text with it in quotes"),
    ("a: - b", "line 1, column 4: a list in lines should begin on the line below its key"),
    ("a: 1\nb\n", "line 3, column 1: a key should have ': ' and its value behind it"),
    ("a: {{ x }}", "line 1, column 5: a key should be a text, in quotes where it begins with [ or {"),
    ("a: 'x", "line 1, column 6: the quotes should be closed before the end"),
    ("a: 'x\n---\n", "line 2, column 1: the quotes should be closed before the document's end"),
    (r'a: "\q"', r"line 1, column 6: in double quotes write \\ for a backslash, or use single quotes"),
    (r'a: "\xZZ"', r"line 1, column 7: in double quotes write \\ for a backslash, or use single quotes"),
    (r'a: "\UFFFFFFFF"', "line 1, column 7: there is no such character or number"),
    ("a: x\n---\n", "line 2, column 1: there should be one document, and a second one begins here"),
    ("a: x\n...\nb: y", "line 3, column 1: one document should stand here, and it ends before this"),
    ("a: *x", "line 1, column 4: a name behind * should stand behind & before; put a text in quotes"),
    ("a: &x 1\nb: &x 2", "line 2, column 4: a name with & should be given once"),
    ("a: |x\n  b", "line 1, column 5: nothing but a comment should stand behind | and >"),
    ("<<: {a: 1}", "line 1, column 1: << is no key here; write its keys out"),
    ("a: !foo x", "line 1, column 4: no value has this tag; leave it out, or put a text in quotes"),
    ("a: &a [*a]", "line 1, column 4: a value should not hold itself"),
    ("a: 2020-13-45", "line 1, column 4: there is no such number, time or truth value; put a text in quotes"),
    ("a: 1\na: 2", "line 2, column 1: the key a appears twice"),
    ("%YAML 3.0\n---\na: 1", "line 1, column 1: what stands here is not YAML"),
    ("a: 1\nb: \u00fc\0", "line 2, column 5: a text has no such character"),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_what_is_no_yaml_is_told_with_its_place_and_what_it_should_be(text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as of_broker:
        parse_of_broker(text, source="given.yaml")
    with pytest.raises(SpecError) as of_operator:
        parse_of_operator(text, source="given.yaml")
    assert str(of_broker.value) == str(of_operator.value) == f"given.yaml: {expected}"


def test_what_is_nested_too_deeply_is_told_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(yaml, "load", deep)
    with pytest.raises(SettingsError, match=r"^given\.yaml: is not YAML: it is nested too deeply$"):
        parse_of_broker("a", source="given.yaml")
    with pytest.raises(SpecError, match=r"^given\.yaml: is not YAML: it is nested too deeply$"):
        parse_of_operator("a", source="given.yaml")


@pytest.mark.parametrize("text", ["a: {b: [1, 'x', true, null]}\n", "# nothing\n", "- 1.5\n- 2020-01-02\n"])
def test_what_is_yaml_is_read_as_the_library_reads_it(text: str) -> None:
    expected = yaml.safe_load(text)
    assert parse_of_broker(text, source="x") == parse_of_operator(text, source="x") == expected
