"""Make a failing plan small: drop faults by delta debugging, then shorten what is left. The noise streams stay fixed.

Zeller and Hildebrandt's ddmin; picire, which the test plan names, needs a module that setuptools no longer has.
"""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TypeVar

from sim.plan import Plan

__all__ = ["minimised", "shrink"]

EventT = TypeVar("EventT")
Simpler = Callable[[Plan], Iterable[Plan]]
_SHORT_MS = (5, 50, 300, 1_200)


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, seconds: float, simpler: Simpler = lambda plan: ()) -> Plan:
    """The smallest plan found that still fails. `fails` decides, and should insist on the same kind of failure;
    `simpler` proposes plans of a simpler shape, the simplest first."""
    search = _Search(fails, monotonic() + seconds)
    before = None
    while plan != before and not search.over:
        before = plan
        plan = search.fewer_faults(plan)
        plan = search.first_of(plan, simpler)
        plan = search.shorter(plan)
    return plan


def minimised(events: list[EventT], fails: Callable[[list[EventT]], bool]) -> list[EventT]:
    """A sublist that still fails, from which no single part of the last round could be taken.

    `fails` holds for `events`, and answers False to all once its time is over.
    """
    parts = 2
    while events:
        size = -(-len(events) // parts)
        for begin in range(0, len(events), size):
            rest = events[:begin] + events[begin + size :]
            if fails(rest):
                events, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return events
            parts = min(parts * 2, len(events))
    return events


class _Search:
    def __init__(self, fails: Callable[[Plan], bool], until: float) -> None:
        self._fails, self._until = fails, until
        self._known: dict[str, bool] = {}

    @property
    def over(self) -> bool:
        return monotonic() >= self._until

    def _still(self, plan: Plan) -> bool:
        if self.over:
            return False
        digest = plan.digest
        if digest not in self._known:
            self._known[digest] = self._fails(plan)
        return self._known[digest]

    def fewer_faults(self, plan: Plan) -> Plan:
        """Without whatever the failure does not need."""
        faults = minimised(list(plan.faults), lambda rest: self._still(plan.replaced(faults=tuple(rest))))
        return plan.replaced(faults=tuple(faults))

    def shorter(self, plan: Plan) -> Plan:
        """Each fault as short as it can be."""
        for place, fault in enumerate(plan.faults):
            for lasts in _SHORT_MS:
                if lasts >= fault.lasts_ms:
                    break
                fresh = type(fault)(fault.at_ms, fault.kind, fault.target, lasts, fault.number)
                tried = plan.replaced(faults=(*plan.faults[:place], fresh, *plan.faults[place + 1 :]))
                if self._still(tried):
                    plan = tried
                    break
        return plan

    def first_of(self, plan: Plan, simpler: Simpler) -> Plan:
        """As simple a shape as it can have."""
        for tried in simpler(plan):
            if self._still(tried):
                return tried
        return plan
