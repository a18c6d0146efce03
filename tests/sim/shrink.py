"""Make a failing plan small: drop faults by delta debugging, then shorten what is left. The noise streams stay fixed.

Zeller and Hildebrandt's ddmin; picire, which the test plan names, needs a module that setuptools no longer has.
"""

from collections.abc import Callable, Iterable
from time import monotonic

from sim.plan import Plan

__all__ = ["shrink"]

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
        """ddmin: without ever smaller parts of the list."""
        parts = 2
        while len(plan.faults) >= 1:
            size = max(1, -(-len(plan.faults) // parts))
            for start in range(0, len(plan.faults), size):
                tried = plan.replaced(faults=plan.faults[:start] + plan.faults[start + size :])
                if self._still(tried):
                    plan, parts = tried, max(parts - 1, 2)
                    break
            else:
                if size == 1 or self.over:
                    break
                parts = min(parts * 2, len(plan.faults))
        return plan

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
