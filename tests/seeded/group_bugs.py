"""Defects of a replica's part in its group, each one patch; `tests/sim/groups` catches each within a few seeds.

`python -m seeded.group_bugs [NAME ...]` prints where each is caught.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from logherd.controller.holder import LeaseHolder
from logherd.group.follower import Follows
from logherd.group.ground import Ground
from logherd.group.handover import Handover
from logherd.group.insync import InSync
from logherd.group.leader import Leader
from logherd.group.leading import Leadership
from logherd.group.reading import READ_MS, Granted, Reading
from logherd.model.names import Epoch, Position
from logherd.replication.durable import DurableEnd
from logherd.replication.messages import ReadAsk, ReadGrant, ReplicaId
from sim.groups.run import Result, run_seed

__all__ = ["BUGS", "Bug", "search"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """What is wrong, how it is applied, which rules may catch it, and within how many seeds from the first."""

    what: str
    apply: Callable[[Patch], None]
    rules: tuple[str, ...]
    budget: int
    first: int = 0
    """Later where the seed that shows it comes late: a search from 0 takes a test's time on a busy machine."""


def _pending_does_not_count(patch: Patch) -> None:
    def needed(self: InSync) -> object:
        return tuple((member, self._ground.standing.latest(member)) for member in self._view.members)

    patch.setattr(InSync, "_who_is_needed", needed)


def _removal_before_its_answer(patch: Patch) -> None:
    def members(self: InSync) -> object:
        latest = self._proposed[-1].members if self._proposed else None
        return self._view.members if latest is None else tuple(member.broker_id for member in latest)

    patch.setattr(InSync, "members", property(members))


def _own_flush_does_not_count(patch: Patch) -> None:
    def reached(self: InSync) -> Position:
        me, end = self._ground.me.broker_id, self._ground.log.end
        others = [(each, process) for each, process in self._needed if each != me]
        return min([end, *(self._attendance.flushed_by(each, process) for each, process in others)])

    patch.setattr(InSync, "reached", reached)


def _epoch_not_kept(patch: Patch) -> None:
    true = Ground.promise

    def promise(self: Ground, epoch: Epoch) -> None:
        true(self, epoch)
        self.out.keep = None

    patch.setattr(Ground, "promise", promise)


def _answer_before_the_epoch(patch: Patch) -> None:
    def confirm(self: Ground, to: ReplicaId, body: object) -> None:
        self.send(to, body)

    patch.setattr(Ground, "confirm", confirm)


def _commit_without_a_lease(patch: Patch) -> None:
    true = Leader.advance

    def advance(self: Leader) -> str | None:
        self._commit()
        return true(self)

    patch.setattr(Leader, "advance", advance)


def _release_before_everything_is_told(patch: Patch) -> None:
    def due(self: Handover) -> str | None:
        return "leadership is handed over" if self.draining else None

    patch.setattr(Handover, "due", due)


def _leads_on_after_it_resigned(patch: Patch) -> None:
    patch.setattr(LeaseHolder, "resign", lambda self, epoch: None)


def _no_greeting(patch: Patch) -> None:
    patch.setattr(Follows, "_greet", lambda self: None)


def _reads_up_to_the_end(patch: Patch) -> None:
    true = Reading.readable

    def readable(self: Reading, now: int) -> Position | None:
        return None if true(self, now) is None else self._ground.log.end

    patch.setattr(Reading, "readable", readable)


def _reads_on_when_cut_off(patch: Patch) -> None:
    patch.setattr(Granted, "counts", lambda self, now, applied: applied >= self.position)


def _reads_what_it_lacks(patch: Patch) -> None:
    patch.setattr(Granted, "counts", lambda self, now, applied: now - self.asked_at < READ_MS)


def _grants_reads_after_its_lease(patch: Patch) -> None:
    def on_read_ask(self: Leadership, sender: ReplicaId, ask: ReadAsk) -> None:
        self._ground.send(sender, ReadGrant(ask.number, self._ground.commit))

    patch.setattr(Leadership, "on_read_ask", on_read_ask)


BUGS = {
    "union": Bug("a proposed set does not count (#5663)", _pending_does_not_count, ("L3", "W1", "R1"), 40),
    "gone": Bug("a removal counts before it is accepted", _removal_before_its_answer, ("L3", "W1", "R1"), 20),
    "minimum": Bug(
        "too few commit (DX-3)",
        lambda patch: patch.setattr(InSync, "enough", property(lambda self: True)),
        ("L3", "R1", "W1"),
        20,
    ),
    "own-flush": Bug("the leader's own flush does not count", _own_flush_does_not_count, ("W1", "L3", "R1"), 10),
    "epoch-kept": Bug("the epoch is never made durable", _epoch_not_kept, ("R4",), 10),
    "epoch-first": Bug("an answer does not wait for the epoch", _answer_before_the_epoch, ("R4",), 10),
    "shown": Bug(
        "what is shown is not flushed here",
        lambda patch: patch.setattr(Ground, "shown", property(lambda self: self.commit)),
        ("W1",),
        10,
    ),
    "leaseless": Bug("records are committed after the lease", _commit_without_a_lease, ("R1",), 20),
    "no-fence": Bug(
        "a lease never ends for its holder",
        lambda patch: patch.setattr(LeaseHolder, "epoch_at", lambda self, now: self._epoch if self._until else None),
        ("L1", "R2"),
        20,
    ),
    "resigned": Bug("a resignation is forgotten", _leads_on_after_it_resigned, ("L1", "L2", "L4", "R2"), 20),
    "hasty": Bug(
        "leadership is released before everybody has an answer", _release_before_everything_is_told, ("R10",), 20
    ),
    "read-all": Bug("a follower lets read all that it has", _reads_up_to_the_end, ("F1",), 5),
    "read-cut-off": Bug("a follower that hears nobody lets read on", _reads_on_when_cut_off, ("F2",), 10),
    "read-less": Bug("a follower lets read though it lacks records", _reads_what_it_lacks, ("F1", "F2"), 20),
    "read-leaseless": Bug("a leader lets read after its lease", _grants_reads_after_its_lease, ("F2",), 40),
    "cut": Bug(
        "what was flushed before a cut counts for what replaces it",
        lambda patch: patch.setattr(DurableEnd, "cut", lambda self, at: None),
        ("W1", "R14"),
        20,
    ),
    "silent": Bug("a follower does not say where it is", _no_greeting, ("liveness",), 10),
}


def search(bug: Bug) -> tuple[int, Result] | None:
    """The first seed that shows it by one of its rules."""
    for seed in range(bug.budget):
        result = run_seed(seed, keep=1)
        if result.failure is not None and result.rule in bug.rules:
            return seed, result
    return None


def main(names: list[str]) -> int:
    escaped = 0
    for name in names or BUGS:
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name].apply(patch)
            found = search(BUGS[name])
        escaped += found is None
        print(f"{name:12} {found[0] if found else '-':>4} {str(found[1].failure)[11:100] if found else 'ESCAPED'}")
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
