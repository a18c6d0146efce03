"""Values of the name service survive, or are refused by name."""

from pathlib import Path

import pytest

from logherd.app.key_value_file import KeyValueFile, KeyValuesDamaged
from logherd.service.names.keyvalues import KeyValues


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    file = KeyValueFile(tmp_path / "names.json")
    assert file.load() == {}
    file.save({"n": {"k": "ü"}})
    assert file.load() == {"n": {"k": "ü"}}
    assert [path.name for path in tmp_path.iterdir()] == ["names.json"]


@pytest.mark.parametrize("content", [b"", b"\xff{]", b"[]", b'{"n": {"k": 1}}', b'{"n": {"k": "\xff"}}'])
def test_anything_else_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "names.json"
    path.write_bytes(content)
    with pytest.raises(KeyValuesDamaged, match=r"names\.json: .*move it away"):
        KeyValueFile(path).load()


def test_a_value_that_cannot_be_saved_is_not_there_either() -> None:
    def fail(_: object) -> None:
        raise OSError("the disk is full")

    values = KeyValues({"n": {"k": "v"}}, save=fail)
    with pytest.raises(OSError, match="full"):
        values.put("n", "k", "w")
    with pytest.raises(OSError, match="full"):
        values.delete("n", "k")
    values.delete("n", "other")
    assert values.namespace("n") == {"k": "v"}
