"""Real histories with one answer changed: each must be found invalid, or the judge had nothing to judge."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from checkers.history import History, Outcome, Read
from checkers.operations import Operation

__all__ = ["controller_mutants", "log_mutants", "register_mutants"]

Answer = dict[str, object]


def _answered(operations: Sequence[Operation], name: str, fits: Callable[[Operation], bool]) -> list[int]:
    return [
        place
        for place, each in enumerate(operations)
        if each.name == name and each.outcome is Outcome.OK and fits(each)
    ]


def _changed(
    operations: Sequence[Operation], draw: random.Random, name: str, change: Callable[[Operation], Answer],
    fits: Callable[[Operation], bool] = lambda _each: True,
) -> list[Operation]:  # fmt: skip
    """The history with the answer of one request of this kind changed. Raises ValueError if there is none."""
    places = _answered(operations, name, fits)
    if not places:
        raise ValueError(f"no answered {name} can be changed")
    place = draw.choice(places)
    found = operations[place]
    copy = list(operations)
    copy[place] = replace(found, answer={**found.answer, **change(found)})
    return copy


def controller_mutants(
    operations: Sequence[Operation], draw: random.Random
) -> Iterator[tuple[str, list[Operation]]]:  # fmt: skip
    """A lost claim, a double claim, a registration given twice, an epoch and a version that go back, another set.

    Each contradicts an earlier answer, so that no order can excuse it.
    """
    oks = [each for each in operations if each.outcome is Outcome.OK]
    last = {(each.name, each.key): each for each in oks}

    def final(each: Operation) -> bool:
        return last[each.name, each.key] is each

    def confirmed(each: Operation, *fields: str, before: bool = False) -> bool:
        """Another answer has said the same of these fields; with `before`, it was there before this was asked."""
        return any(
            (other.name, other.key) == (each.name, each.key)
            and other.arguments == each.arguments
            and all(other.answer[field] == each.answer[field] for field in fields)
            for other in oks
            if other is not each and not (before and (other.returned or 0) >= each.called)
        )

    granted = {
        (each.key, each.arguments["id"]): each.returned or 0
        for each in oks
        if each.name == "claim" and each.answer["granted"]
    }
    yield "a claim is forgotten", _changed(
        operations, draw, "next", lambda each: {"id": each.answer["id"] - 1},
        lambda each: granted.get((each.key, each.answer["id"] - 1), each.called) < each.called,
    )  # fmt: skip
    yield "a claim is granted twice", _changed(
        operations, draw, "claim", lambda _each: {"granted": True},
        lambda each: not each.answer["granted"] and (each.key, each.arguments["id"]) in granted,
    )  # fmt: skip
    yield "a registration is given twice", _changed(
        operations, draw, "register", lambda each: {"registration": each.answer["registration"] + 1},
        lambda each: confirmed(each, "registration"),
    )  # fmt: skip
    for field in ("epoch", "version"):
        yield f"the {field} goes back at the end", _changed(
            operations, draw, "look", lambda each, field=field: {field: each.answer[field] - 1},  # type: ignore[misc]
            lambda each, field=field: final(each) and confirmed(each, field, before=True),  # type: ignore[misc]
        )  # fmt: skip
    yield "a version has another set", _changed(
        operations, draw, "look", lambda each: {"members": [*each.answer["members"], 31]},
        lambda each: each.answer["epoch"] > 0 and confirmed(each, "version"),
    )  # fmt: skip


def register_mutants(
    operations: Sequence[Operation], draw: random.Random
) -> Iterator[tuple[str, list[Operation]]]:  # fmt: skip
    """A read of what nobody wrote, a read of an empty register after a full one, a swap denied whose value was read.

    Nobody writes the empty value, and each value is written by one request only.
    """
    read = [each for each in operations if each.name == "read" and each.outcome is Outcome.OK and each.answer["value"]]
    full_since = dict[str, int]()
    for each in read:
        end = each.returned or 0
        full_since[each.key] = min(full_since.get(each.key, end), end)
    seen = {(each.key, each.answer["value"]) for each in read}
    yield "a read sees what nobody wrote", _changed(operations, draw, "read", lambda _each: {"value": "nobody"})
    yield "a read sees an empty register", _changed(
        operations, draw, "read", lambda _each: {"value": ""},
        lambda each: each.called > full_since.get(each.key, each.called),
    )  # fmt: skip
    yield "a swap is denied", _changed(
        operations, draw, "cas", lambda _each: {"swapped": False},
        lambda each: each.answer["swapped"] and (each.key, each.arguments["to"]) in seen,
    )  # fmt: skip


def log_mutants(history: History, draw: random.Random) -> Iterator[tuple[str, History]]:
    """An acknowledged message that is gone, a beginning that is, a message that changed, one from nowhere, reads of
    what is not there and from elsewhere than asked, and an end that falls. The name begins with the rule that must find
    it."""
    queue, (first, entries) = draw.choice([(queue, final) for queue, final in history.final.items() if final[1]])
    place = draw.randrange(max(1, len(entries) - 1))
    offset, value = entries[place]

    def final(changed: list[tuple[int, str]]) -> History:
        return replace(history, final={**history.final, queue: (first, changed)})

    yield "H3 the last message is gone", final(entries[:-1]) if _acknowledged(history, entries[-1][1]) else final([])
    if not history.deletes:
        changed = {**history.final, queue: (entries[-1][0], entries[-1:])}
        yield "H3 the beginning is gone", replace(history, final=changed)
    yield "H5 a message is gone", final(entries[:place] + entries[place + 1 :])
    yield "H4 a message has changed", final([*entries[:place], (offset, f"{value}?"), *entries[place + 1 :]])
    yield "H4 a message from nowhere", final([*entries, (entries[-1][0] + 1, "nobody's")])
    read = draw.choice([each for each in history.reads if each.entries])
    at = read.entries[0][0]
    for name, mutant in {
        "H7 a read of what is not there": replace(read, entries=((at, "foreign"), *read.entries[1:])),
        "H5 a read that skips": replace(read, start=at - 1),
        "H6 an end that falls": Read(read.queue, (), read.returned + 1, read.returned + 2, at),
    }.items():
        yield name, replace(history, reads=[*history.reads, mutant])


def _acknowledged(history: History, value: str) -> bool:
    return any(send.value == value and send.outcome is Outcome.OK for send in history.sends)
