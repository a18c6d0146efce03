"""Update windows: cron fields, openings that reach over midnight, and what is no time at all."""

from datetime import UTC, datetime

import pytest

from logherd_operator.plan.windows import WindowError, is_open
from logherd_operator.spec.changes import Window


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def opened(cron: str, minutes: int, moment: str) -> bool:
    return is_open((Window(cron=cron, durationMinutes=minutes),), at(moment))


def test_without_windows_it_is_always_open() -> None:
    assert is_open((), 0.0)


@pytest.mark.parametrize(
    ("cron", "minutes", "moment", "expected"),
    [
        ("0 3 * * 6", 60, "2026-11-21T03:00", True),  # a Saturday
        ("0 3 * * 6", 60, "2026-11-21T03:59:59", True),
        ("0 3 * * 6", 60, "2026-11-21T04:00", False),
        ("0 3 * * sat", 60, "2026-11-22T03:30", False),
        ("30 23 * * *", 60, "2026-11-22T00:29", True),
        ("30 23 * * *", 60, "2026-11-22T00:30", False),
        ("0 22 * * fri", 3 * 1440, "2026-11-23T21:59", True),
        ("*/15 * * * *", 5, "2026-11-22T10:34", True),
        ("*/15 * * * *", 4, "2026-11-22T10:34", False),
        ("0 0 1 jan *", 1440, "2026-01-01T12:00", True),
        ("0 0 1-7 * mon", 10, "2026-11-23T00:05", True),  # either day is enough, as in every cron
        ("0 9-17/4 * * *", 1, "2026-11-22T13:00", True),
        ("0 9-17/4 * * 7", 1, "2026-11-22T17:00:30", True),  # 7 and 0 are both Sunday
    ],
)
def test_a_window_is_open_from_its_minute_on(cron: str, minutes: int, moment: str, expected: bool) -> None:
    assert opened(cron, minutes, moment) is expected


@pytest.mark.parametrize("cron", ["60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * foo *", "0 0 5-2 * *", "*/0 * * * *"])
def test_what_is_no_time_is_refused_by_its_field(cron: str) -> None:
    with pytest.raises(WindowError):
        opened(cron, 1, "2026-11-22T00:00")
