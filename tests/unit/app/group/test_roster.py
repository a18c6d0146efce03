"""roster.json: whom a replica knows of; nothing rather than a list that lacks somebody."""

import errno
from pathlib import Path
from random import Random

import pytest

from logherd.app.group import roster as roster_module
from logherd.app.group.roster import Roster, read_roster
from logherd.store import StoreFull
from logherd.store.files_os import OsFiles
from sim.disk import SimDisk
from unit.app.group.stand import Clock
from unit.store.helpers import ROOT

FILES = OsFiles()


def test_who_was_met_is_known_to_the_next_process_also_after_the_power_went() -> None:
    disk = SimDisk()
    disk.make_directory(str(ROOT))
    assert read_roster(disk, str(ROOT)) is None
    assert Roster(disk, str(ROOT)).brokers is None
    roster = Roster(disk, str(ROOT))
    roster.begin(2)
    roster.meet(1)
    before = disk.names[f"{ROOT}/roster.json"]
    roster.meet(2)
    assert disk.names[f"{ROOT}/roster.json"] is before, "who is known is not written again"
    disk = disk.crash(Random(7), power=True)
    assert read_roster(disk, str(ROOT)) == {1, 2}
    again = Roster(disk, str(ROOT))
    again.meet(3)
    assert again.brokers == (1, 2, 3)
    again.follow({3, 2})
    assert (again.brokers, read_roster(disk, str(ROOT))) == ((2, 3), {2, 3})


def test_a_list_that_is_missing_is_not_begun_with_whoever_is_met_now(tmp_path: Path) -> None:
    """It may have named others."""
    roster = Roster(FILES, str(tmp_path))
    roster.meet(1)
    assert roster.brokers is None
    assert not (tmp_path / "roster.json").exists()
    roster.follow({1, 2})
    assert read_roster(FILES, str(tmp_path)) == {1, 2}, "who knows all of them may say so"
    roster.begin(7)
    assert roster.brokers == (1, 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(roster_module, "boot_ms", made)
    return made


LATER = [
    StoreFull("no space"), OSError(errno.EMFILE, "no descriptor"), OSError(errno.ENOMEM, "no memory"),
    OSError(errno.ENOSPC, "no space"),
]  # fmt: skip


@pytest.mark.parametrize("error", LATER)
def test_a_list_that_would_lack_somebody_is_deleted_and_made_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, error: Exception
) -> None:
    roster, tries = Roster(FILES, str(tmp_path)), list[int]()
    roster.begin(1)
    assert (tmp_path / "roster.json").exists()

    def refuses(*_: object) -> None:
        tries.append(clock.now)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(roster_module, "replace_file", refuses)
        for broker in (2, 2, 3, 2):
            roster.meet(broker)
        clock.now += 59_999
        roster.meet(2)
        assert tries == [5_000], "a full disk is not asked again and again"
    assert read_roster(FILES, str(tmp_path)) is None
    assert roster.brokers == (1, 2, 3), "this process knows all the same"
    clock.now += 1
    roster.meet(2)
    assert read_roster(FILES, str(tmp_path)) == {1, 2, 3}


@pytest.mark.parametrize(("number", "ends"), [(errno.EIO, True), (errno.EMFILE, False), (errno.ENOSPC, False)])
def test_a_list_that_may_come_back_with_the_power_is_made_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, number: int, *, ends: bool
) -> None:
    """It is deleted, and the disk does not say that it has that."""
    roster = Roster(FILES, str(tmp_path))
    roster.begin(1)

    def fails(*_: object) -> None:
        raise OSError(number, "that")

    def refuses(*_: object) -> None:
        raise StoreFull("no space")

    with monkeypatch.context() as patch:
        patch.setattr(OsFiles, "sync_dir", fails)
        patch.setattr(roster_module, "replace_file", refuses)
        if ends:
            with pytest.raises(OSError, match="that"):
                roster.meet(2)
            return
        roster.meet(2)
    assert clock.now == 5_000
    roster.meet(2)
    assert read_roster(FILES, str(tmp_path)) == {1, 2}


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(roster_module, "replace_file", fails)
    with pytest.raises(OSError, match="broken"):
        Roster(FILES, str(tmp_path)).begin(1)


@pytest.mark.parametrize(
    "text", ["", "{", '{"format":1}', '{"format":2,"brokers":[1]}', '{"format":1,"brokers":[1],"x":2}']
)  # fmt: skip
def test_what_cannot_be_read_is_no_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "roster.json").write_text(text)
    assert read_roster(FILES, str(tmp_path)) is None
