"""A change of the file while the disk is full, or memory: it is neither lost nor half in force."""

import errno
import os
from pathlib import Path

import pytest

from logherd_operator.local import keeping as keeping_module
from logherd_operator.local.addresses import Ports
from logherd_operator.local.changes import GroupFile, read_group
from logherd_operator.local.errors import LocalError
from logherd_operator.local.folder import Folder
from logherd_operator.local.keeping import Keeping
from logherd_operator.local.places import Places
from logherd_operator.local.state import GroupState
from logherd_operator.spec.group import BrokerGroup

TEXT = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\nspec: {replicas: %d}\n"
PORTS = Ports(name_service=20_000, broker=21_000, admin=21_002)


@pytest.mark.parametrize("name", ["group.json", "spec.json"])
def test_a_change_that_could_not_be_kept_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(keeping_module, "check_settings", lambda *_, **__: None)
    path, folder = tmp_path / "group.yaml", Folder(tmp_path)
    path.write_text(TEXT % 1)
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file=str(path), brokers=0, controllers=0)
    keeping = Keeping(read_group(path), GroupFile(path), Places(folder, state), folder, lambda line: None)
    written = Folder.write_text

    def refuse(self: Folder, path: Path, text: str, **more: bool) -> None:
        if path.name == name:
            raise LocalError("no space")
        written(self, path, text, **more)

    path.write_text(TEXT % 3 + "\n")
    assert keeping._file.saved()
    with monkeypatch.context() as full:
        full.setattr(Folder, "write_text", refuse)
        with pytest.raises(LocalError, match="no space"):
            keeping._read_again()
    assert keeping._file.saved()
    keeping._read_again()
    assert keeping.group.spec.replicas == 3
    assert (folder.document("spec.json") or {})["spec"]["replicas"] == 3
    remembered = folder.read()
    assert remembered is not None
    assert remembered.generation > 1


def test_a_change_that_no_process_could_check_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "group.yaml", Folder(tmp_path)
    path.write_text(TEXT % 1)
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file=str(path), brokers=0, controllers=0)
    keeping = Keeping(read_group(path), GroupFile(path), Places(folder, state), folder, lambda line: None)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("subprocess.run", refuse)
    path.write_text(TEXT % 3 + "\n")
    assert keeping._file.saved()
    with pytest.raises(LocalError, match=r"group\.yaml: no process to check it in: Cannot allocate memory"):
        keeping._read_again()
    assert keeping._file.saved()
    assert keeping.fault is None, "nothing is wrong with it"


@pytest.mark.parametrize("half", [TEXT % 1 + "# more\n", "kind: Broker"], ids=["right by itself", "wrong"])
def test_a_file_that_is_still_being_written_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """What a program writes in several pieces may be a group after each, and another one than is meant."""
    path, folder = tmp_path / "group.yaml", Folder(tmp_path)
    path.write_text(TEXT % 5)
    said = list[str]()
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file=str(path), brokers=0, controllers=0)
    keeping = Keeping(read_group(path), GroupFile(path), Places(folder, state), folder, said.append)

    def meanwhile(read: Path) -> BrokerGroup:
        try:
            return read_group(read)
        finally:
            path.write_text(TEXT % 7)

    monkeypatch.setattr(keeping_module, "check_settings", lambda *_, **__: None)
    path.write_text(half)
    assert keeping._file.saved()
    with monkeypatch.context() as writing:
        writing.setattr(keeping_module, "read_group", meanwhile)
        keeping._read_again()
    assert (keeping.group.spec.replicas, keeping.fault, said) == (5, None, [])
    assert keeping._file.saved()
    keeping._read_again()
    assert keeping.group.spec.replicas == 7


def test_what_was_no_file_is_not_read_again(tmp_path: Path) -> None:
    """As with `-f <(...)` or /dev/stdin, whose times change with every reader and writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert not GroupFile(path, seen=False).saved()
    path.unlink()
    path.write_text(TEXT % 1)
    assert GroupFile(path, seen=False).saved()
