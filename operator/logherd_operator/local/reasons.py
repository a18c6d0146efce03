"""Why a group does not serve, in the words of whoever knows: its controllers, and each broker of its own store.

Nothing is known here of what may be wrong. Whatever they say while nobody leads or messages are refused is passed on.
"""

import re
from collections.abc import Iterable

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.slots import Slot

__all__ = ["alike", "is_refused", "place_reason", "timeless", "why_not_served"]

_NUMBER = re.compile(r"[0-9]+([.][0-9]+)?")
_TIME = re.compile(r"[0-9]+([.][0-9]+)? m?s\b")


def why_not_served(observed: Observed) -> str:
    """A sentence or two; empty while messages are taken, and where nothing runs."""
    if not any(slot.instance is not None for slot in (*observed.brokers, *observed.controllers)):
        return ""
    group = observed.group
    if group is None:
        return "No controller tells how the group stands."
    if not group.led:
        return " ".join([_sentence(group.why or "nobody leads"), *_refusals(observed.brokers)])
    waits = _sentence(group.why) if len(group.in_sync) < group.rules.min_in_sync else ""
    leader = [slot for slot in observed.brokers if slot.broker_id == group.leader]
    silent = [
        f"Broker {slot.broker_id} leads, as the controllers know it, and does not answer."
        for slot in leader
        if slot.report is None
    ]
    return " ".join(said for said in [waits, *silent, *_refusals(leader)] if said)


def is_refused(observed: Observed) -> bool:
    """Does a broker say of itself that it takes no messages? That ends not just because the group has started."""
    return any(slot.report is not None and (slot.report.fault or slot.report.refuses) for slot in observed.brokers)


def place_reason(slot: Slot) -> str:
    """Why what stands there does not serve, or not wholly; empty if it does."""
    instance, report = slot.instance, slot.report
    if instance is None:
        return ""
    if instance.failing or instance.terminating:
        return instance.failing or "it is about to stop"
    if report is None:
        return ""
    return report.fault or (f"it takes no messages: {report.refuses}" if report.refuses else "")


def alike(one: str, other: str) -> bool:
    """Is it the same but for numbers, as of a clock that runs or a disk that fills?"""
    return _NUMBER.sub("0", one) == _NUMBER.sub("0", other)


def timeless(said: str) -> str:
    """What is said without how long it may last."""
    return _TIME.sub("a while", said)


def _sentence(said: str) -> str:
    """What more may follow: in the modes raft and static it is a clause, which others put behind a colon."""
    return said if not said or said.endswith((".", "!", "?")) else f"{said[0].upper()}{said[1:]}."


def _refusals(slots: Iterable[Slot]) -> list[str]:
    """What brokers say of themselves: of those that say the same, one speaks for all."""
    told: list[tuple[str, list[int]]] = []
    for slot in slots:
        said = "" if slot.report is None else slot.report.fault or slot.report.refuses
        same = next((numbers for text, numbers in told if alike(text, said)), None)
        if same is not None:
            same.append(slot.broker_id)
        elif said:
            told.append((said, [slot.broker_id]))
    return [
        f"Broker {first} takes no messages{_so_do(others)}: {said.removesuffix('.')}."
        for said, (first, *others) in told
    ]  # fmt: skip


def _so_do(others: list[int]) -> str:
    if not others:
        return ""
    return f", nor do{'es' if len(others) == 1 else ''} {' and '.join(map(str, others))}"
