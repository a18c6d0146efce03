"""Where a page is kept: one for each child, and what goes wrong with it ends nobody."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from logherd_guardian.child import LeasePage
from logherd_guardian.page_file import PageFile


def fail(*_: object) -> NoReturn:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("in_a_file", [True, False])
def test_nothing_that_an_earlier_child_said_speaks_for_the_next(tmp_path: Path, in_a_file: bool) -> None:
    path = tmp_path / "page"
    kept = PageFile(str(path) if in_a_file else None)
    first = os.dup(kept.renew())
    LeasePage(first).lease(3, 1_000)
    assert kept.read() is not None
    second = kept.renew()
    assert (kept.read(), kept.last) == (None, None)
    LeasePage(first).lease(3, 2_000)  # one that outlived its kill
    assert kept.read() is None
    os.close(first)
    os.close(second)
    if in_a_file:
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_page_that_cannot_be_read_says_nothing_and_that_is_said_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = PageFile(None)
    LeasePage(kept.renew()).lease(3, 1_000)
    heard = kept.read()
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", fail)
        assert [kept.read(), kept.read()] == [None, None]
    assert kept.last == heard is not None
    assert capfd.readouterr().err.count("cannot read what the child says: Input/output error") == 1
    assert kept.read() == heard


def test_a_page_that_the_disk_does_not_let_go_leaves_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PageFile(None)
    first = kept.renew()
    with monkeypatch.context() as broken:
        broken.setattr(os, "close", fail)
        second = kept.renew()
    os.close(first)
    assert kept.descriptor == second
    os.close(second)


def test_a_page_without_room_is_no_page_and_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PageFile(None)
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", fail)
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output error"):
                kept.renew()
    os.close(kept.renew())
    assert len(os.listdir("/proc/self/fd")) == before
