"""What is remembered of reads here and there."""

import errno
import os
from typing import cast

import pytest

from logherd.store import readable
from logherd.store.files import File
from logherd.store.readable import LatelyRead, Unreadable

BLOCK = 4096


class LostFile:
    """Of a disk that gives nothing. `asked`: how often."""

    def __init__(self) -> None:
        self.asked = 0

    def read(self, _at: int, _size: int) -> bytes:
        self.asked += 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_of_a_disk_that_gives_nothing_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable, "_KNOWN_MAX", 3)
    file, lately = LostFile(), LatelyRead()

    def ask(block: int) -> int:
        before = file.asked
        with pytest.raises(Unreadable):
            lately.ensure(cast("File", file), 0, 64 * BLOCK, block * BLOCK, (block + 1) * BLOCK)
        return file.asked - before

    assert all(ask(block) > 0 for block in (0, 8, 16))
    assert [ask(block) for block in (0, 8, 16)] == [0, 0, 0], "they are remembered"
    assert ask(24) > 0
    assert [ask(24), ask(0) > 0] == [0, True], "the others were forgotten"
