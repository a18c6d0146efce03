"""Defects of controllers and leases, each one patch; `tests/sim/leases` must catch each.

`python -m seeded.controller_bugs [NAME ...] --seeds N` looks for each from scratch, and prints a table.
"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace

from logherd.controller import choosing, machine, mastership, membership, office
from logherd.controller.choosing import best_of
from logherd.controller.commands import Release
from logherd.controller.holder import LeaseHolder
from logherd.controller.leases import LeaseTable, LeaseTerms
from logherd.controller.office import Office
from logherd.controller.values import SyncSet
from sim.leases.broker import Broker
from sim.leases.controller import Controller
from sim.leases.run import run_seed

__all__ = ["BUGS", "Bug"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect: what it is, how it is applied, a seed known to catch it, and what is then said."""

    what: str
    apply: Callable[[Patch], None]
    seed: int
    says: str


def _no_wait(patch: Patch) -> None:
    patch.setattr(LeaseTable, "over_at", lambda self, key, tenure: self._began)


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


def _trust_every_store(patch: Patch) -> None:
    patch.setattr(membership, "_lost", lambda group, found, command: False)


def _elect_anybody(patch: Patch) -> None:
    def choose(group: Any, seen_of: Any) -> Any:
        return best_of(group, [each.broker_id for each in group.replicas], seen_of)

    patch.setattr(mastership, "_groundless", lambda group, winner, command: None)
    patch.setattr(choosing, "choose", choose)
    patch.setattr(office, "choose", choose)


def _eligible_for_ever(patch: Patch) -> None:
    true = SyncSet.changed
    patch.setattr(
        SyncSet, "changed", lambda self, members, *, minimum, keep=True: true(self, members, minimum=99, keep=keep)
    )


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
        return membership.Verdict(replace(verdict.group, tenure=kept, sync=group.sync), events=verdict.events)

    patch.setattr(membership, "_take_in", take_in)


def _any_exit_releases(patch: Patch) -> None:
    def release(group: Any, command: Release) -> Any:
        if group is not None and group.tenure is not None and group.tenure.broker_id == command.broker_id:
            tenure = group.tenure
            command = replace(command, store_id=tenure.store_id, incarnation=tenure.incarnation)
        return mastership.release(group, command)

    patch.setitem(machine._RULES, Release, release)


def _no_fencing(patch: Patch) -> None:
    patch.setattr(LeaseHolder, "epoch_at", lambda self, now: self._epoch if self._until is not None else None)


def _old_set_answers(patch: Patch) -> None:
    patch.setattr(Broker, "_needed", lambda self, view: set(view.members))


def _reversed_scan(patch: Patch) -> None:
    def seen(self: Office, replica: Any, key: Any, now: int) -> Any:
        found = self._seen.get((key, replica.broker_id))
        return found if found is not None and now - found.at >= self._options.fresh_ms else None

    patch.setattr(Office, "seen", seen)


BUGS = {
    "grown-set": Bug("B04: the set has grown, and the old one answers", _old_set_answers, 542, "lacks committed"),
    "no-fencing": Bug("B05: an old master goes on", _no_fencing, 0, "believes in its lease|'b"),
    "reversed-scan": Bug("B12: who reports is taken for dead", _reversed_scan, 0, "nobody"),
    "no-wait": Bug("R2: an election does not wait for the lease", _no_wait, 0, "believes in its lease"),
    "no-bound": Bug("R1: nobody allows for clocks of other rates", _no_bound, 1, "believes in its lease"),
    "no-confirmation": Bug("R1: a deposed controller grants leases", _no_confirmation, 5, "believes in its lease"),
    "grant-while-electing": Bug(
        "a lease is granted during an election", _grant_while_electing, 8, "believes in its lease"
    ),
    "count-from-the-answer": Bug(
        "R1: a broker counts its lease from the answer", _count_from_the_answer, 21, "believes in its lease"
    ),
    "trust-every-store": Bug("R11: a lost volume stays in sync", _trust_every_store, 13, "lacks committed"),
    "elect-anybody": Bug("R10: election outside the in-sync set", _elect_anybody, 1, "lacks committed"),
    "eligible-for-ever": Bug("R10: who left stays eligible for ever", _eligible_for_ever, 3, "lacks committed"),
    "same-epoch": Bug("R13, DX-6: a restarted master keeps its epoch", _same_epoch_after_a_restart, 3, "one process"),
    "any-exit": Bug("H14: any exit of a broker releases its lease", _any_exit_releases, 31, "believes in its lease"),
}


def search(bug: Bug, seeds: int) -> tuple[int, str] | None:
    """The first seed that catches the bug by its rule, and what it said."""
    with pytest.MonkeyPatch.context() as patch:
        bug.apply(patch)
        for seed in range(seeds):
            failure = run_seed(seed).failure
            if failure is not None and re.search(bug.says, failure):
                return seed, failure
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1_000, help="the budget of each")
    given = parser.parse_args()
    escaped = 0
    print(f"{'bug':<24}{'seeds':>6}{'budget':>8}{'s':>7}  caught by")
    for name in given.names or BUGS:
        began, found = monotonic(), search(BUGS[name], given.seeds)
        escaped += found is None
        tried, said = (given.seeds, "ESCAPED") if found is None else (found[0] + 1, found[1][:80])
        print(f"{name:<24}{tried:>6}{given.seeds:>8}{monotonic() - began:>7.1f}  {said}", flush=True)
    print(f"{len(given.names or BUGS)} bugs, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
