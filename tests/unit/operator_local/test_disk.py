"""A disk without space is said before anything starts."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from logherd_operator.local.disk import check_disk
from logherd_operator.local.errors import LocalError


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_the_reserve_itself_is_enough_and_less_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1000, 900, 100))
    check_disk(tmp_path, 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1000, 901, 99))
    with pytest.raises(LocalError, match=r"its disk has 9 % free.*below 10 % \(spec.storage.reservedPercent"):
        check_disk(tmp_path, 10)
