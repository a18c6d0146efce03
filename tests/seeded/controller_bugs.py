"""Defects of controllers and leases, each one patch; `tests/sim/leases` catches each, by a rule meant for it.

`python -m seeded.controller_bugs [NAME ...]` looks for each from scratch, within its budget, and prints a table.
`--store` keeps the first plan that shows it, made small: what CI replays.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from logherd.controller import choosing, insync, machine, mastership, membership, office
from logherd.controller.choosing import best_of
from logherd.controller.commands import Release
from logherd.controller.holder import LeaseHolder
from logherd.controller.leases import LeaseTable, LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.values import Group, GroupKey, SyncSet
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from sim.leases.broker import Broker
from sim.leases.controller import Controller
from sim.leases.duty import Duty
from sim.leases.run import Result, make_small, run_plan
from sim.leases.shape import draw_plan
from sim.plan import Plan

__all__ = ["BUGS", "Bug", "plan_of", "shown"]

Patch = pytest.MonkeyPatch
PLANS = Path(__file__).parent / "plans" / "controller"


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect: what it is, how it is applied, which rules may catch it, and within how many seeds from scratch."""

    what: str
    apply: Callable[[Patch], None]
    rules: tuple[str, ...]
    budget: int


def shown(bug: Bug, result: Result) -> bool:
    """Whether a run shows the defect, by one of its rules and not by a crash of the harness."""
    return result.failure is not None and result.failure.startswith("Violation: ") and result.rule in bug.rules


def plan_of(name: str) -> Plan:
    """The stored plan that shows a defect."""
    return Plan.load(PLANS / f"{name}.json")


# ---- leases ---------------------------------------------------------------------------------------------------------


def _no_fencing(patch: Patch) -> None:
    patch.setattr(LeaseHolder, "epoch_at", lambda self, now: self._epoch if self._until is not None else None)


def _no_wait(patch: Patch) -> None:
    patch.setattr(LeaseTable, "over_at", lambda self, key, tenure: self._began)


def _no_wait_of_a_new_leader(patch: Patch) -> None:
    true = LeaseTable.over_at

    def over_at(self: LeaseTable, key: Any, tenure: Any) -> int:
        return true(self, key, tenure) if key in self._until else self._began

    patch.setattr(LeaseTable, "over_at", over_at)


def _no_wait_for_longer_leases(patch: Patch) -> None:
    true = LeaseTable.__init__
    patch.setattr(LeaseTable, "__init__", lambda self, terms, now, *, earlier_ms=0: true(self, terms, now))


def _no_bound(patch: Patch) -> None:
    patch.setattr(LeaseTerms, "__post_init__", lambda self: None)
    patch.setattr(LeaseTerms, "holder_ms", property(lambda self: self.lease_ms))
    patch.setattr(LeaseTerms, "waiter_ms", property(lambda self: self.lease_ms))


def _no_confirmation(patch: Patch) -> None:
    patch.setattr(Controller, "confirm", lambda self, done: done(self.office))


def _grant_while_electing(patch: Patch) -> None:
    patch.setattr(Office, "submitted", lambda self, command: None)


def _count_from_the_answer(patch: Patch) -> None:
    true = Broker._hear
    patch.setattr(Broker, "_hear", lambda self, answer, sent: true(self, answer, self.now_ms()))


def _any_exit_releases(patch: Patch) -> None:
    def release(group: Any, command: Release) -> Any:
        if group is not None and group.tenure is not None and group.tenure.broker_id == command.broker_id:
            tenure = group.tenure
            command = replace(command, store_id=tenure.store_id, incarnation=tenure.incarnation)
        return mastership.release(group, command)

    patch.setitem(machine._RULES, Release, release)


def _any_epoch_is_given_up(patch: Patch) -> None:
    patch.setitem(
        machine._RULES, Release, lambda group, command: mastership.release(group, replace(command, epoch=UNSET))
    )


def _holder_takes_a_resigned_epoch(patch: Patch) -> None:
    true = LeaseHolder.granted

    def granted(self: LeaseHolder, grant: Any, *, sent: int) -> None:
        self._resigned, known = Epoch(0), self._resigned
        true(self, grant, sent=sent)
        self._resigned = known

    patch.setattr(LeaseHolder, "granted", granted)
    patch.setattr(Office, "_resigned_before", lambda self, report: Epoch(0))


def _believe_late_heartbeats(patch: Patch) -> None:
    true = Office.hear
    patch.setattr(Office, "hear", lambda self, report, now: true(self, replace(report, number=0), now))


# ---- elections and the in-sync set ----------------------------------------------------------------------------------


def _reversed_scan(patch: Patch) -> None:
    def seen(self: Office, replica: Any, key: Any, now: int) -> Any:
        found = self._seen.get(key, replica.broker_id)
        return found if found is not None and now - found.at >= self._options.fresh_ms else None

    patch.setattr(Office, "seen", seen)


def _elect_anybody(patch: Patch) -> None:
    def choose(group: Any, seen_of: Any) -> Any:
        return best_of(group, [each.broker_id for each in group.replicas], seen_of)

    patch.setattr(mastership, "_groundless", lambda group, winner, command: None)
    patch.setattr(choosing, "choose", choose)
    patch.setattr(office, "choose", choose)


def _lead_without_space(patch: Patch) -> None:
    true = choosing.choose

    def choose(group: Any, seen_of: Any) -> Any:
        def blind(each: Any) -> Any:
            seen = seen_of(each)
            return seen if seen is None else replace(seen, report=replace(seen.report, space=True))

        return true(group, blind)

    patch.setattr(choosing, "choose", choose)
    patch.setattr(office, "choose", choose)


def _eligible_for_ever(patch: Patch) -> None:
    true = SyncSet.changed
    patch.setattr(
        SyncSet, "changed", lambda self, members, *, minimum, keep=True: true(self, members, minimum=99, keep=keep)
    )


def _old_set_counts(patch: Patch) -> None:
    patch.setattr(Duty, "_needed", lambda self, view: dict(zip(view.members, view.processes, strict=True)))


def _any_process_counts(patch: Patch) -> None:
    true = Duty._count_of
    patch.setattr(Duty, "_count_of", lambda self, each, process: true(self, each, 0))


def _any_process_joins(patch: Patch) -> None:
    true = insync._unfit

    def unfit(group: Any, command: Any, member: Any) -> Any:
        found = group.replica(member.broker_id)
        return true(group, command, replace(member, registration=found.registration) if found is not None else member)

    patch.setattr(insync, "_unfit", unfit)


def _no_version(patch: Patch) -> None:
    true = insync._fenced

    def fenced(group: Any, command: Any) -> Any:
        return true(group, replace(command, version=group.sync.version))

    patch.setattr(insync, "_fenced", fenced)


# ---- identity, epochs, the replicated state -------------------------------------------------------------------------


def _trust_every_store(patch: Patch) -> None:
    patch.setattr(membership, "lacks", lambda group, found, command: False)


def _trust_older_logs(patch: Patch) -> None:
    patch.setattr(membership, "_below", lambda end, committed: False)


def _same_epoch_after_a_restart(patch: Patch) -> None:
    true = membership._take_in

    def take_in(group: Any, found: Any, command: Any) -> Any:
        verdict, tenure = true(group, found, command), group.tenure
        if tenure is None or tenure.broker_id != found.broker_id or tenure.ended:
            return verdict
        kept = replace(
            tenure, registration=verdict.group.registrations, incarnation=command.incarnation,
            store_id=command.store_id,
        )  # fmt: skip
        return Verdict(replace(verdict.group, tenure=kept, sync=group.sync), events=verdict.events)

    patch.setattr(membership, "_take_in", take_in)


def _forget_the_epoch(patch: Patch) -> None:
    true = membership.clean

    def clean(group: Any, command: Any) -> Any:
        verdict = true(group, command)
        if verdict.refusal is None and not command.broker_ids:
            return Verdict(replace(verdict.group, epoch=Epoch(0), tenure=None), events=verdict.events)
        return verdict

    patch.setitem(machine._RULES, machine.Clean, clean)


def _found_by_the_first(patch: Patch) -> None:
    patch.setattr(office, "best_of_longest", lambda group, ids, seen_of: best_of(group, [min(ids)], seen_of))
    patch.setattr(office, "have_more", lambda group, best, seen_of: [])


def _believe_the_record(patch: Patch) -> None:
    patch.setattr(Group, "outrun", property(lambda self: False))


def _one_cluster(patch: Patch) -> None:
    true = Machine.apply

    def apply(self: Machine, command: Any) -> Any:
        key = getattr(command, "group", None)
        return true(self, replace(command, group=GroupKey("c", key.name)) if key is not None else command)

    patch.setattr(Machine, "apply", apply)


def _chance_in_apply(patch: Patch) -> None:
    true, numbers = mastership.elect, count()

    def elect(group: Any, command: Any) -> Any:
        return true(group, replace(command, request=f"{next(numbers)}"))

    patch.setitem(machine._RULES, machine.Elect, elect)


def _image_without_committed(patch: Patch) -> None:
    true = Machine.load

    def load(image: bytes) -> Machine:
        loaded = true(image)
        for key, group in loaded._groups.items():
            loaded._groups[key] = replace(group, sync=replace(group.sync, committed=ORIGIN))
        return loaded

    patch.setattr(Machine, "load", load)


BUGS = {
    "B05": Bug("no fencing: an old master goes on", _no_fencing, ("L1",), 50),
    "B12": Bug("the scan is reversed: who reports is taken for dead", _reversed_scan, ("liveness", "R10"), 20),
    "B04": Bug("the set has grown, and the old one counts", _old_set_counts, ("L3",), 200),
    "no-wait": Bug("R2: an election does not wait for the lease", _no_wait, ("L1",), 20),
    "no-wait-new": Bug("R2: a new controller does not wait", _no_wait_of_a_new_leader, ("L1",), 50),
    "no-wait-longer": Bug("R2: who takes office waits for own leases only", _no_wait_for_longer_leases, ("L1",), 400),
    "no-bound": Bug("R1: nobody allows for clocks of other rates", _no_bound, ("L1",), 200),
    "no-confirmation": Bug("R1: a deposed controller grants leases", _no_confirmation, ("L1", "C7"), 200),
    "grant-electing": Bug("R1: a lease is granted during an election", _grant_while_electing, ("L1",), 400),
    "from-answer": Bug("R1: a lease counts from the answer", _count_from_the_answer, ("L1",), 100),
    "resigned": Bug("R2: a master takes a lease after it resigned", _holder_takes_a_resigned_epoch, ("L1", "L4"), 200),
    "late-beat": Bug("H4, R2: what a late heartbeat says is believed", _believe_late_heartbeats, ("L4", "H4"), 2_000),
    "any-epoch": Bug("R2: a late resignation ends a later lease", _any_epoch_is_given_up, ("L1",), 6_000),
    "any-exit": Bug("H14: any exit of a broker releases its lease", _any_exit_releases, ("L1",), 100),
    "elect-anybody": Bug("R10: election outside the in-sync set", _elect_anybody, ("L3",), 50),
    "no-space": Bug("H4: a master is elected without space where another has some", _lead_without_space, ("H4",), 200),
    "eligible": Bug("R10: who left stays eligible for ever", _eligible_for_ever, ("L3",), 100),
    "any-process": Bug("R6: any process of an id acknowledges for it", _any_process_counts, ("L3",), 1_000),
    "any-joins": Bug("R9: any process of an id joins", _any_process_joins, ("L3",), 1_000),
    "no-version": Bug("R9: a proposal made from an older set is taken", _no_version, ("L3", "R9"), 1_000),
    "any-store": Bug("R11: a lost volume stays in sync", _trust_every_store, ("L3",), 50),
    "older-log": Bug("R11: a volume that was restored stays in sync", _trust_older_logs, ("L3", "R1"), 100),
    "same-epoch": Bug("R13, DX-6: a restarted master keeps its epoch", _same_epoch_after_a_restart, ("L1", "L2"), 50),
    "forget-epoch": Bug("R20, DX-18: a forgotten group begins anew", _forget_the_epoch, ("L2",), 100),
    "any-founder": Bug("R20: whoever is first founds a dissolved group anew", _found_by_the_first, ("L3",), 400),
    "lost-decisions": Bug("R20: an in-sync set counts that a log has outrun", _believe_the_record, ("L3",), 6_000),
    "one-cluster": Bug("DX-19: two clusters share a group", _one_cluster, ("liveness", "L3", "R10"), 50),
    "chance": Bug("R18: a command is not deterministic", _chance_in_apply, ("C5",), 10),
    "image": Bug("R18: an image leaves something out", _image_without_committed, ("C5",), 10),
}


def search(bug: Bug, first: int) -> tuple[int, Plan, Result] | None:
    """The first seed that shows it: how many were tried, its plan, what was said."""
    with pytest.MonkeyPatch.context() as patch:
        bug.apply(patch)
        for tried in range(1, bug.budget + 1):
            plan = draw_plan(first + tried - 1)
            result = run_plan(plan, keep=1)
            if shown(bug, result):
                return tried, plan, result
    return None


def _store(name: str, plan: Plan, seconds: float) -> None:
    bug = BUGS[name]
    with pytest.MonkeyPatch.context() as patch:
        bug.apply(patch)
        small = make_small(plan, seconds)
    if run_plan(small, keep=1).failure is not None:
        raise AssertionError(f"{name}: the small plan fails without the defect, too")
    small.replaced(why=bug.what, bug=name).save(PLANS / f"{name}.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--store", action="store_true", help="keep small plans for CI")
    parser.add_argument("--seconds", type=float, default=20, help="for making one plan small")
    given = parser.parse_args()
    escaped = 0
    print(f"{'defect':16} {'budget':>6} {'seeds':>6} {'s':>6}  caught by")
    for name in given.names or BUGS:
        began = monotonic()
        found = search(BUGS[name], given.first)
        took = monotonic() - began
        if found is None:
            escaped += 1
            print(f"{name:16} {BUGS[name].budget:6} {'-':>6} {took:6.1f}  ESCAPED: {BUGS[name].what}", flush=True)
            continue
        tried, plan, result = found
        print(f"{name:16} {BUGS[name].budget:6} {tried:6} {took:6.1f}  {str(result.failure)[11:90]}", flush=True)
        if given.store:
            _store(name, plan, given.seconds)
    print(f"{len(given.names or BUGS)} defects, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
