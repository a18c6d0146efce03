"""When updates may run: cron expressions in UTC, and for how long each opening lasts."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from logherd_operator.spec.changes import Window

__all__ = ["WindowError", "is_open"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class WindowError(ValueError):
    """A cron expression that no time fits, or whose numbers are out of range."""


class _Times(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both days are restricted: then either of them is enough, as in every cron."""


def is_open(windows: Iterable[Window], now: float) -> bool:
    """Is a window open at `now`, in seconds since 1970? Without any window it always is. Raises: WindowError."""
    windows = tuple(windows)
    moment = datetime.fromtimestamp(now, UTC)
    return not windows or any(
        opened <= moment < opened + timedelta(minutes=window.duration_minutes)
        for window in windows
        for opened in _openings(_parse(window.cron), moment, window.duration_minutes)
    )


def _openings(times: _Times, moment: datetime, minutes: int) -> Iterator[datetime]:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    for back in range(minutes // 1440 + 2):
        day = midnight - timedelta(days=back)
        if not _fits_day(times, day):
            continue
        for hour in times.hours:
            for minute in times.minutes:
                yield day.replace(hour=hour, minute=minute)


def _fits_day(times: _Times, day: datetime) -> bool:
    if day.month not in times.months:
        return False
    of_month, of_week = day.day in times.days, day.isoweekday() % 7 in times.weekdays
    return of_month or of_week if times.either_day else of_month and of_week


def _parse(cron: str) -> _Times:
    minute, hour, day, month, weekday = cron.split()
    return _Times(
        minutes=_values(minute, 0, 59), hours=_values(hour, 0, 23), days=_values(day, 1, 31),
        months=_values(month, 1, 12, _MONTHS), weekdays=frozenset(each % 7 for each in _values(weekday, 0, 7, _DAYS)),
        either_day=not day.startswith("*") and not weekday.startswith("*"),
    )  # fmt: skip


def _values(field: str, least: int, most: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            low, high = least, most
        else:
            low = _number(first, least, names)
            high = _number(last, least, names) if last else (most if step else low)
        if not least <= low <= high <= most or (step and int(step) == 0):
            raise WindowError(f"{field} is not right: write numbers from {least} to {most}")
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, least: int, names: tuple[str, ...]) -> int:
    if text.isdigit():
        return int(text)
    if text.lower() in names:
        return names.index(text.lower()) + least
    raise WindowError(f"{text} is neither a number nor a name that is known here")
