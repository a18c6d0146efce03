"""Defects of consensus and shipping, each seen in some real system, each one patch.

`python -m seeded.raft_bugs [NAME ...]` looks for each from scratch, within its budget of seeds, and prints a table;
`--keep` makes the plan that caught it small and stores it in `plans/`, which CI replays.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.raft.doubt import Doubts
from logherd.raft.ground import Ground
from logherd.raft.leader import Leader
from logherd.raft.lease import Lease
from logherd.raft.members import Configuration
from logherd.raft.memory import MemoryLog
from logherd.raft.options import Jitter, RaftOptions
from logherd.raft.record import decode_records
from logherd.raftlog import recovery
from logherd.raftlog.rows import TAIL_ROWS, TailAction
from logherd.replication.messages import AppendAck, ReplicaId
from logherd.replication.receiver import Receiver
from logherd.replication.sender import Mode
from logherd.replication.shipper import Shipper
from logherd.store.slots import SlotPair
from sim.consensus.plan import Plan, decode_plan, draw_plan, encode_plan
from sim.consensus.run import run_seed
from sim.consensus.shape import draw_shape
from sim.consensus.shrink import shrunk
from sim.disk import SimFile

__all__ = ["BUGS", "Bug", "apply_dropping_image", "apply_repeating_numbers", "keep_plan", "search"]

Patch = pytest.MonkeyPatch


PLANS = Path(__file__).parent / "plans"


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect: what it is, how it is applied, which rule must catch it, within how many seeds from scratch."""

    what: str
    apply: Callable[[Patch], None]
    caught_by: tuple[str, ...]
    budget: int
    """Seeds that may be tried; those that lack what the defect needs are counted, though not run."""
    needs: tuple[str, ...] = ()
    """Faults without which a seed cannot show it; `lease` stands for lease reads."""
    files: bool = False
    """Whether it shows only over the controllers' store."""

    def shows_in(self, seed: int) -> bool:
        """Whether the seed has what the defect needs."""
        shape = draw_shape(seed)
        return all(shape.lease_reads if need == "lease" else need in shape.kinds for need in self.needs)

    def is_caught(self, failure: str | None) -> bool:
        """Whether one of its own rules says so: a violation, or the product's own check of an invariant."""
        if failure is None:
            return False
        return failure.startswith((*(f"Violation: {rule}" for rule in self.caught_by), "InvariantError"))

    def plan(self, name: str) -> Plan:
        """What CI replays."""
        return decode_plan((PLANS / f"{name}.json").read_text())


def _vote_leaves_early(patch: Patch) -> None:
    patch.setattr(Ground, "hold", lambda self, to, body: self.send(to, body))


def _vote_is_not_kept(patch: Patch) -> None:
    def promise(self: Ground, term: Any, vote: Any) -> int:
        self.hard = replace(self.hard, term=term, vote=vote)
        self.log.keep_hard_state(replace(self.hard, vote=None))
        return self.wrote()

    patch.setattr(Ground, "promise", promise)


def _old_term_by_counting(patch: Patch) -> None:
    def committable(self: Leader) -> Position:
        reached = Position(self._ground.members.current.agreed(self._durable_at))
        return max(reached, self._ground.progress.commit)

    patch.setattr(Leader, "_committable", committable)


def _cut_after_every_append(patch: Patch) -> None:
    """A late, short message makes the follower drop everything after it."""
    merge = Receiver._merge

    def merge_and_cut(self: Receiver, span: Any, *known: Any) -> Any:
        cut, grown = merge(self, span, *known)
        if span.data and self._log.end > span.end >= self._log.epochs.base.position:
            self._log.truncate(span.end)
            self._durable.cut(span.end)
            return span.end, grown
        return cut, grown

    patch.setattr(Receiver, "_merge", merge_and_cut)


def _ack_before_flush(patch: Patch) -> None:
    patch.setattr(Receiver, "_ack", lambda self: AppendAck(self._generation, self._verified, self._verified))


def _ack_own_end(patch: Patch) -> None:
    """The follower acknowledges its whole log, not only what was compared."""

    def ack(self: Receiver) -> AppendAck:
        return AppendAck(self._generation, self._log.end, min(self._log.end, self._durable.position))

    patch.setattr(Receiver, "_ack", ack)


def _leader_counts_unflushed(patch: Patch) -> None:
    def durable_at(self: Leader, member: ReplicaId) -> Position:
        return self._ground.log.end if member == self._ground.identity else self._ship.match(member)

    patch.setattr(Leader, "_durable_at", durable_at)


def _commit_not_clamped(patch: Patch) -> None:
    def learn(self: Receiver, commit: Position) -> None:
        self._commit = max(self._commit, min(commit, self._log.end))

    patch.setattr(Receiver, "_learn_commit", learn)


def _lease_survives_transfer(patch: Patch) -> None:
    patch.setattr(Lease, "give_up", lambda self: None)


def _lease_too_long(patch: Patch) -> None:
    patch.setattr(RaftOptions, "lease_ms", property(lambda self: self.election_ms * 4))
    patch.setattr(RaftOptions, "__post_init__", lambda self: None)
    patch.setattr(Leader, "quorum_recent", property(lambda self: True))


def _no_quarantine(patch: Patch) -> None:
    patch.setattr(Ground, "quarantined", property(lambda self: False))


def _read_without_quorum(patch: Patch) -> None:
    patch.setattr(Lease, "quorum_round", lambda self: self._rounds.last)


def _read_before_own_commit(patch: Patch) -> None:
    start = Leader.start

    def ready_at_once(self: Leader) -> Any:
        self._ready = True
        return start(self)

    patch.setattr(Leader, "start", ready_at_once)


def apply_repeating_numbers(patch: Patch) -> None:
    """B13: a follower numbers its questions from one after every start."""
    mixed = Jitter.next

    def count(self: Jitter) -> int:
        self.asked = getattr(self, "asked", 0) + 1  # type: ignore[attr-defined]
        return int(self.asked)  # type: ignore[attr-defined]

    patch.setattr(Jitter, "next", count)
    patch.setattr(Jitter, "below", lambda self, limit: mixed(self) % limit)


def apply_dropping_image(patch: Patch) -> None:
    """B14: an image drops a longer log that agrees with it."""
    install = MemoryLog.install

    def install_and_drop(self: MemoryLog, image: Any) -> None:
        keeps = self._history.matches(image.point, self.end) and self.end > image.point.position
        install(self, image)
        if keeps:
            self.truncate(image.point.position)

    patch.setattr(MemoryLog, "install", install_and_drop)


def _joint_counts_one_half(patch: Patch) -> None:
    def agreed(self: Configuration, value: Callable[[ReplicaId], int]) -> int:
        ensure(bool(self.voters), "an empty configuration decides nothing")
        return sorted((value(peer) for peer in self.voters), reverse=True)[len(self.voters) // 2]

    patch.setattr(Configuration, "agreed", agreed)


def _learners_count(patch: Patch) -> None:
    agreed = Configuration.agreed

    def with_learners(self: Configuration, value: Callable[[ReplicaId], int]) -> int:
        widened = Configuration(self.voters + tuple(p for p in self.learners if p not in self.voters), self.outgoing)
        return agreed(widened, value)

    patch.setattr(Configuration, "agreed", with_learners)


def _vote_without_log_check(patch: Patch) -> None:
    from logherd.raft import core, voting

    def blind(ground: Any, envelope: Any, request: Any) -> bool:
        return voting.answer_vote(ground, envelope, replace(request, last=ground.last))

    def blind_before(ground: Any, envelope: Any, request: Any) -> None:
        voting.answer_pre_vote(ground, envelope, replace(request, last=ground.last))

    patch.setattr(core, "answer_vote", blind)
    patch.setattr(core, "answer_pre_vote", blind_before)


def _changes_before_own_commit(patch: Patch) -> None:
    """The single-server change of a new leader that has committed nothing yet (the published correction to Raft)."""
    advance = Leader._advance_change

    def eager(self: Leader) -> Any:
        ready, self._ready = self._ready, True
        commit, self._ground.progress.commit = self._ground.progress.commit, self._ground.log.end
        try:
            return advance(self)
        finally:
            self._ready, self._ground.progress.commit = ready, commit

    patch.setattr(Leader, "_advance_change", eager)


def _flush_error_ignored(patch: Patch) -> None:
    """fsyncgate: the error is logged, and the position moves on."""
    flush = SimFile.flush

    def quiet(self: SimFile, at: int = 0, size: int | None = None) -> None:
        with suppress(OSError):
            flush(self, at, size)

    patch.setattr(SimFile, "flush", quiet)


def _damage_is_the_end(patch: Patch) -> None:
    rows = tuple(replace(row, action=TailAction.CUT) for row in TAIL_ROWS)
    patch.setattr(recovery, "TAIL_ROWS", rows)


def _batch_appended_again(patch: Patch) -> None:
    merge = Receiver._merge

    def append_again(self: Receiver, span: Any, *place: Any) -> Any:
        known = span.data and span.previous.position < self._log.end and self._log.epochs.base.position == 0
        if not known:
            return merge(self, span, *place)
        before, seal = self._log.end, self._log.seal_at(span.previous.position)
        for record in decode_records(span.data, after=span.previous.position, seal=seal):
            self._log.append(record.kind, record.epoch, record.body)  # type: ignore[attr-defined]
        return None, before

    patch.setattr(Receiver, "_merge", append_again)


def _claims_are_believed(patch: Patch) -> None:
    def on_ack(self: Shipper, sender: Any, ack: AppendAck, out: Any) -> None:
        if sender.confirm(ack.durable):
            out.moved = True
            sender.retry_at = None
        if ack.generation == sender.generation and sender.mode is Mode.PROBE and ack.verified >= sender.next:
            sender.become_replicate(ack.verified)
        elif ack.generation == sender.generation and sender.mode is Mode.REPLICATE:
            sender.next = max(sender.next, ack.verified)

    patch.setattr(Shipper, "_on_ack", on_ack)


def _straggler_is_taken(patch: Patch) -> None:
    def take(self: Receiver, generation: int) -> bool:
        self._generation = max(self._generation, generation)
        return False

    patch.setattr(Receiver, "_is_straggler", take)


def _doubt_is_ignored(patch: Patch) -> None:
    patch.setattr(Ground, "doubtful", property(lambda self: False))


def _doubtful_counts(patch: Patch) -> None:
    patch.setattr(Doubts, "peers", property(lambda self: ()))


def _doubt_is_not_kept(patch: Patch) -> None:
    """A torn or damaged promise is seen once, and not noted: the next start knows nothing of it."""
    patch.setattr(SlotPair, "damaged", property(lambda self: False, lambda self, value: None))


BUGS: dict[str, Bug] = {
    "B02": Bug("a vote leaves before it is durable", _vote_leaves_early, ("C1", "C2"), 500),
    "B02b": Bug("a vote is not kept at all", _vote_is_not_kept, ("C1", "C2"), 500),
    "B03": Bug("an older term's record commits by counting copies", _old_term_by_counting, ("C3", "C4"), 2_000),
    "truncate": Bug("a late append cuts what follows it", _cut_after_every_append, ("C2", "C3"), 500),
    "B01": Bug("a follower acknowledges before the flush", _ack_before_flush, ("C2", "C4"), 100),
    "own-end": Bug("a follower acknowledges what was not compared", _ack_own_end, ("C3", "C4", "C2"), 500),
    "self-count": Bug("a leader counts its own unflushed records", _leader_counts_unflushed, ("C4",), 100),
    "clamp": Bug("a follower commits what was not compared", _commit_not_clamped, ("C3", "C4"), 2_000),
    "lease-transfer": Bug(
        "a lease outlives a handover", _lease_survives_transfer, ("C7",), 4_000, ("lease", "late-order")
    ),
    "lease-long": Bug("a lease is longer than an election", _lease_too_long, ("C7",), 500),
    "quarantine": Bug("a restarted voter votes at once", _no_quarantine, ("C7",), 4_000, ("lease", "usurp")),
    "read-alone": Bug("a read asks no quorum", _read_without_quorum, ("C7",), 500),
    "read-early": Bug("a new leader serves before its first commit", _read_before_own_commit, ("C7", "C3"), 500),
    "joint": Bug("a joint group counts only the new half", _joint_counts_one_half, ("C1", "C3", "C4"), 1_000),
    "learners": Bug("learners count", _learners_count, ("C1", "C3", "C4"), 1_000),
    "blind-vote": Bug("a vote ignores the candidate's log", _vote_without_log_check, ("C3", "C4"), 500),
    "early-change": Bug("members change before the first commit", _changes_before_own_commit, ("C", "liveness"), 2_000),
    "B07": Bug("a failed flush is taken for a good one", _flush_error_ignored, ("C2", "C3", "C4"), 500, files=True),
    "B08": Bug(
        "damage in the middle is taken for the end", _damage_is_the_end, ("C2", "C3"), 500, ("damage",), files=True
    ),
    "B09": Bug("a batch that is sent again is appended again", _batch_appended_again, ("C2", "C3", "C5"), 500),
    "B10": Bug(
        "a follower's end is believed beyond the own", _claims_are_believed, ("C2", "C3", "C4"), 500, ("boast",)
    ),
    "B13": Bug("a read's number repeats after a restart", apply_repeating_numbers, ("C7",), 4_000, ("echo",)),
    "B14": Bug("an image drops a longer log", apply_dropping_image, ("C2", "C3", "C4"), 4_000, ("relapse",)),
    "B15": Bug("a straggler of an old connection is taken", _straggler_is_taken, ("C3",), 500),
    "doubt": Bug(
        "a damaged member goes on voting", _doubt_is_ignored, ("C1", "C2", "C3", "C4", "C6"), 500, ("damage",)
    ),
    "doubt-counts": Bug("a doubtful member counts", _doubtful_counts, ("C1", "C3", "C4"), 4_000, ("turncoat",)),
    "doubt-forgotten": Bug(
        "a doubt is forgotten with the process",
        _doubt_is_not_kept,
        ("C1", "C2", "C3", "C4", "C6"),
        500,
        ("damage",),
        files=True,
    ),
}


def search(bug: Bug, first: int, seeds: int) -> tuple[int, str] | None:
    """The first seed from `first` that catches the bug by one of its rules and is clean without it; what it said."""
    for seed in range(first, first + seeds):
        if bug.shows_in(seed):
            with pytest.MonkeyPatch.context() as patch:
                bug.apply(patch)
                failure = run_seed(seed, files=bug.files).failure
            if failure is not None and bug.is_caught(failure) and run_seed(seed, files=bug.files).failure is None:
                return seed, failure
    return None


def keep_plan(name: str, seed: int, seconds: float) -> Plan:
    """Make the plan of a seed that catches the bug small, and store it for CI."""
    bug = BUGS[name]
    with pytest.MonkeyPatch.context() as patch:
        bug.apply(patch)
        small, _ = shrunk(draw_plan(seed, files=bug.files), seconds)
    PLANS.mkdir(exist_ok=True)
    (PLANS / f"{name}.json").write_text(encode_plan(small, f"{name}: {bug.what}"))
    return small


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="instead of each bug's own budget")
    parser.add_argument("--keep", action="store_true", help="shrink and store what was found")
    parser.add_argument("--seconds", type=float, default=30.0, help="for shrinking one plan")
    given = parser.parse_args()
    escaped = 0
    print(f"{'bug':<16}{'seeds':>6}{'budget':>8}{'s':>7}  caught by")
    for name in given.names or BUGS:
        began, budget = monotonic(), given.seeds or BUGS[name].budget
        found = search(BUGS[name], given.first, budget)
        took = monotonic() - began
        escaped += found is None
        tried, said = (budget, "ESCAPED") if found is None else (found[0] - given.first + 1, found[1][:80])
        print(f"{name:<16}{tried:>6}{budget:>8}{took:>7.1f}  {said}", flush=True)
        if given.keep and found is not None:
            small = keep_plan(name, found[0], given.seconds)
            print(f"{'':<16}kept: {len(small.faults)} faults, {len(small.actions)} actions", flush=True)
    print(f"{len(given.names or BUGS)} bugs, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
