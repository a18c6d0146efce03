"""The checks of a log's history (H1 to H8): each is necessary for a linearizable log, together they are sufficient.

The server returns the order (the offset), so no search is needed: one sort and one sweep decide real-time order.
A history without a complete drain is unknown, one with too little in it void; both are as red as a violation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checkers.history import History, Outcome, Queue

__all__ = ["Verdict", "Violation", "check_log"]

_ALWAYS, _NEVER = -1, 1 << 63


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule with the evidence, in one sentence."""

    rule: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`valid`, `invalid` (with violations), or `unknown` or `void` (with the reason)."""

    name: str
    violations: tuple[Violation, ...] = ()
    reason: str = ""
    checked: int = 0


def check_log(history: History, *, ok_sends_min: int = 1, reads_min: int = 0) -> Verdict:
    """Judge a whole history. Nothing was shown by fewer than `ok_sends_min` acknowledged sends, or with fewer than
    `reads_min` reads that showed messages, or as many that told a queue's end."""
    if not history.drained or not history.final:
        return Verdict("unknown", reason="the queues were not drained to their end")
    oks = sum(send.outcome is Outcome.OK for send in history.sends)
    shown = sum(bool(read.entries) for read in history.reads)
    ends = sum(read.max_offset is not None for read in history.reads)
    for count, least, what in (
        (oks, ok_sends_min, "acknowledged sends"), (shown, reads_min, "reads with messages"),
        (ends, reads_min, "reads of a queue's end"),
    ):  # fmt: skip
        if count < least:
            return Verdict("void", reason=f"{count} {what}, at least {least} are needed", checked=oks)
    checks = (_one_value_per_offset, _one_offset_per_value, _no_lost_write, _no_phantom, _contiguous, _real_time_order)
    violations = tuple(violation for check in checks for violation in check(history))
    return Verdict("invalid" if violations else "valid", violations, checked=len(history.sends) + len(history.reads))


def _shown(history: History) -> Iterator[tuple[Queue, int, str, str]]:
    """Every (queue, offset, value) that anybody was ever shown, with where."""
    for send in history.sends:
        if send.outcome is Outcome.OK and send.queue is not None and send.offset is not None:
            yield send.queue, send.offset, send.value, "an answer"
    for read in history.reads:
        for offset, value in read.entries:
            yield read.queue, offset, value, "a read"
    for queue, (_, entries) in history.final.items():
        for offset, value in entries:
            yield queue, offset, value, "the final log"


def _one_value_per_offset(history: History) -> Iterator[Violation]:
    seen: dict[tuple[Queue, int], tuple[str, str]] = {}
    for queue, offset, value, where in _shown(history):
        known, known_where = seen.setdefault((queue, offset), (value, where))
        if known != value:
            yield Violation("H1", f"{queue} offset {offset} is {known!r} in {known_where} and {value!r} in {where}")


def _one_offset_per_value(history: History) -> Iterator[Violation]:
    seen: dict[str, tuple[Queue, int]] = {}
    for queue, offset, value, where in _shown(history):
        known = seen.setdefault(value, (queue, offset))
        if known != (queue, offset):
            yield Violation("H2", f"{value!r} is at {known} and, in {where}, at {(queue, offset)}")


def _no_lost_write(history: History) -> Iterator[Violation]:
    final = {queue: dict(entries) for queue, (_, entries) in history.final.items()}
    for queue, (first, _) in history.final.items():
        if first and not history.deletes:
            yield Violation("H3", f"{queue} begins at offset {first}, and nothing may have been deleted")
    for send in history.sends:
        if send.outcome is not Outcome.OK or send.queue is None or send.offset is None:
            continue
        first = history.final.get(send.queue, (0, []))[0]
        if send.offset >= first and final.get(send.queue, {}).get(send.offset) != send.value:
            yield Violation("H3", f"{send.value!r} was acknowledged at {send.queue} offset {send.offset} and is lost")
    for read in history.reads:
        first = history.final.get(read.queue, (0, []))[0]
        for offset, value in read.entries:
            if offset >= first and final.get(read.queue, {}).get(offset) != value:
                yield Violation("H7", f"{value!r} was read at {read.queue} offset {offset} and is not in the final log")


def _no_phantom(history: History) -> Iterator[Violation]:
    sent = {send.value: send for send in history.sends}
    for queue, offset, value, where in _shown(history):
        send = sent.get(value)
        if send is None:
            yield Violation("H4", f"{value!r} at {queue} offset {offset} in {where} was never sent")
        elif send.outcome is Outcome.FAILED:
            yield Violation("H4", f"{value!r} at {queue} offset {offset} in {where} was answered as failed")
    for read in history.reads:
        for _, value in read.entries:
            if value in sent and sent[value].invoked > read.returned:
                yield Violation("H4", f"{value!r} was read before it was sent")


def _contiguous(history: History) -> Iterator[Violation]:
    for read in history.reads:
        if read.entries and read.start not in (None, read.entries[0][0]):
            yield Violation("H5", f"a read of {read.queue} from offset {read.start} began at {read.entries[0][0]}")
        for (before, _), (after, _) in zip(read.entries, read.entries[1:], strict=False):
            if after != before + 1:
                yield Violation("H5", f"a read of {read.queue} went from offset {before} to {after}")
    for queue, (first, entries) in history.final.items():
        for expected, (offset, _) in enumerate(entries, start=first):
            if offset != expected:
                yield Violation("H5", f"the final log of {queue} has offset {offset} where {expected} is due")
                break


def _real_time_order(history: History) -> Iterator[Violation]:
    """Something later in the log must not have finished before something earlier began."""
    items: dict[Queue, list[tuple[int, int, int, str]]] = {}
    place = {value: (queue, offset) for queue, offset, value, _ in _shown(history)}
    for send in history.sends:
        if send.value in place and send.outcome is not Outcome.FAILED:
            queue, offset = place[send.value]
            end = send.returned if send.outcome is Outcome.OK and send.returned is not None else _NEVER
            items.setdefault(queue, []).append((2 * offset + 1, send.invoked, end, f"append of offset {offset}"))
    for read in history.reads:
        if read.max_offset is not None:
            item = (2 * read.max_offset, read.invoked, read.returned, f"read of maximum {read.max_offset}")
            items.setdefault(read.queue, []).append(item)
        if read.entries:  # so many there were when it returned; whenever it began there may have been fewer
            seen = read.entries[-1][0]
            item = (2 * seen + 2, _ALWAYS, read.returned, f"read of offset {seen}")
            items.setdefault(read.queue, []).append(item)
    for queue, listed in items.items():
        yield from _sweep(queue, sorted(listed))


def _sweep(queue: Queue, items: list[tuple[int, int, int, str]]) -> Iterator[Violation]:
    low, low_what = _NEVER, ""
    at = len(items)
    while at:
        start = at
        while start and items[start - 1][0] == items[at - 1][0]:
            start -= 1
        for _, invoked, _, what in items[start:at]:
            if low < invoked:
                yield Violation("H6", f"{queue}: {low_what} had finished before {what} began")
        for _, _, returned, what in items[start:at]:
            if returned < low:
                low, low_what = returned, what
        at = start
