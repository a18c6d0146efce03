"""What brokers told an office last, and which moment had passed for sure when they said so.

A report tells what its sender had when it made it, and it may arrive long after: it waits for a connection, on its way,
or in the socket of a process that was stopped. That it was made after a moment only its sender can show, by knowing an
answer that this office gave then.
"""

from typing import Final

from msgspec.structs import replace

from logherd.controller.reports import Report, Seen
from logherd.controller.values import BrokerId, GroupKey

__all__ = ["SeenTable"]

_ANSWERS_KEPT: Final = 8
"""Brokers have a report or two under way, and tell of the latest answer."""

_Place = tuple[GroupKey, BrokerId]


class SeenTable:
    """One per office; starts empty. `now` is the office's clock.

    Invariant: a report was made after its `after`, because no report is answered by two offices. One of a broker that
    does not say which answer it knows (of an earlier release) is taken for made when it arrives.
    """

    def __init__(self) -> None:
        self._seen: dict[_Place, Seen] = {}
        self._answers: dict[_Place, dict[int, int]] = {}
        """When reports of the latest process were answered, by their numbers, as long as it may yet tell of that."""

    def get(self, key: GroupKey, broker_id: BrokerId) -> Seen | None:
        """The latest report of a broker, whichever process it is of."""
        return self._seen.get((key, broker_id))

    def take(self, report: Report, now: int) -> bool:
        """Note a report that arrives; False if a later one of its process came before."""
        place = (report.group, report.broker_id)
        before = self._seen.get(place)
        after = 0
        if before is None or before.report.registration != report.registration:
            self._answers.pop(place, None)
        elif before.report.number > report.number:
            return False
        else:
            after = before.after
        self._seen[place] = Seen(report, now, after=max(after, self._known_at(place, report, now)))
        return True

    def _known_at(self, place: _Place, report: Report, now: int) -> int:
        if report.answered is None:
            return now
        answers = self._answers.get(place)
        if not answers:
            return 0
        at = answers.get(report.answered, 0)
        for number in [each for each in answers if each <= report.answered]:
            del answers[number]
        return at

    def answered(self, report: Report, now: int) -> None:
        """A report is about to be answered. Of one that is not the latest nothing is noted: its sender has gone on."""
        place = (report.group, report.broker_id)
        seen = self._seen.get(place)
        if seen is None or report.answered is None:
            return
        if (seen.report.registration, seen.report.number) == (report.registration, report.number):
            answers = self._answers.setdefault(place, {})
            answers.setdefault(report.number, now)
            if len(answers) > _ANSWERS_KEPT:
                del answers[min(answers)]

    def silence(self, key: GroupKey, broker_id: BrokerId) -> None:
        """What its process said says nothing about now; its number counts all the same."""
        self._seen[key, broker_id] = replace(self._seen[key, broker_id], stands=False)

    def forget(self, key: GroupKey, broker_id: BrokerId) -> None:
        """It was said by a process that is gone."""
        del self._seen[key, broker_id]
