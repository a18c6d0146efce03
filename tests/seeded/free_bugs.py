"""Defects of static and raft mode, each one patch; `tests/sim/groups` catches each within a few seeds.

`python -m seeded.free_bugs [NAME ...]` prints where each is caught.
"""

import sys

import pytest

from logherd.controller import promotion
from logherd.controller.commands import Promote
from logherd.controller.values import Roles
from logherd.group import static_core, voting_core
from logherd.group.ground import Ground
from logherd.group.output import Promise
from logherd.group.reading import Granted
from logherd.group.static_core import StaticCore
from logherd.group.static_leader import StaticLeader
from logherd.group.table import first_epoch
from logherd.group.voting_core import VotingCore
from logherd.group.voting_log import VotingLog
from logherd.model.names import Epoch, Position
from logherd.raft.ground import Ground as VotingGround
from logherd.raft.handover import Handover
from logherd.raft.leader import Leader
from logherd.raft.lease import Lease
from logherd.raft.messages import TimeoutNow
from logherd.raft.store import HardState
from logherd.replication.messages import ReplicaId
from seeded.group_bugs import Bug, Patch
from sim.groups.run import Result, run_seed

__all__ = ["RAFT", "STATIC", "search"]


# ---- static mode ---------------------------------------------------------------------------------------------------


def _one_copy_too_few(patch: Patch) -> None:
    true = StaticLeader._nth

    def nth(self: StaticLeader, values: object) -> int:
        reached = sorted(values, reverse=True)  # type: ignore[type-var,call-overload]
        needed = self.table.copies - 2
        return reached[needed - 1] if needed > 0 and len(reached) >= needed else true(self, reached)

    patch.setattr(StaticLeader, "_nth", nth)


def _static_own_flush(patch: Patch) -> None:
    true = StaticLeader._committable

    def committable(self: StaticLeader) -> Position:
        durable = self._ground.durable
        kept, durable.position = durable.position, self._ground.log.end
        try:
            return true(self)
        finally:
            durable.position = kept

    patch.setattr(StaticLeader, "_committable", committable)


def _same_epoch_again(patch: Patch) -> None:
    def next_epoch(number: int, seen: Epoch, incarnation: str) -> Epoch:
        epoch = Epoch(first_epoch(number) + (1 << 24))
        return epoch if epoch > seen else Epoch(seen + 1)

    patch.setattr(static_core, "next_epoch", next_epoch)


def _forgets_the_table(patch: Patch) -> None:
    true = Ground.promise

    def promise(self: Ground, epoch: Epoch) -> None:
        true(self, epoch)
        self.out.keep = None

    patch.setattr(Ground, "promise", promise)


def _records_blindly(patch: Patch) -> None:
    def promote(roles: Roles | None, command: Promote) -> Roles:
        number = command.after + 1
        return Roles(group=command.group, number=number, broker_id=command.broker_id, table=command.table)

    patch.setattr(promotion, "promote", promote)


STATIC = {
    "compare": Bug("a promotion is recorded without comparing", _records_blindly, ("H7",), 60),
    "copies": Bug("one copy too few", _one_copy_too_few, ("R6",), 20),
    "own-flush": Bug("the leader's own flush does not count", _static_own_flush, ("R6", "W1"), 20),
    "unbound": Bug(
        "a promoted follower does not wait for the old leader's end",
        lambda patch: patch.setattr(StaticCore, "_is_free", lambda self, number, leader: True),
        ("R2",),
        60,
    ),
    "leaseless": Bug(
        "a synchronous leader serves on alone",
        lambda patch: patch.setattr(StaticLeader, "leased", lambda self, now: True),
        ("R2",),
        60,
    ),
    "epoch-kept": Bug("the table's epoch is never made durable", _forgets_the_table, ("R4",), 20),
    "same-epoch": Bug("a start is no epoch of its own", _same_epoch_again, ("L2",), 60),
    "shown": Bug(
        "what is shown is not flushed here",
        lambda patch: patch.setattr(Ground, "shown", property(lambda self: self.commit)),
        ("W1",),
        20,
    ),
}


# ---- raft mode -----------------------------------------------------------------------------------------------------


def _vote_not_kept(patch: Patch) -> None:
    true = VotingLog.keep_hard_state

    def keep(self: VotingLog, state: HardState) -> None:
        true(self, state)
        self.keep = Promise(state.term)

    patch.setattr(VotingLog, "keep_hard_state", keep)


def _raft_own_flush(patch: Patch) -> None:
    true = Leader._durable_at

    def durable_at(self: Leader, member: ReplicaId) -> Position:
        return self._ground.log.end if member == self._ground.identity else true(self, member)

    patch.setattr(Leader, "_durable_at", durable_at)


def _hands_over_at_once(patch: Patch) -> None:
    def advance(self: Handover) -> None:
        order = self._order
        if order is not None and not order.sent:
            order.sent = True
            self._lease.give_up()
            self._ground.send(order.target, TimeoutNow())

    patch.setattr(Handover, "advance", advance)


RAFT = {
    "vote": Bug("a vote is not kept", _vote_not_kept, ("V1",), 10),
    "own-flush": Bug("the leader's own flush does not count", _raft_own_flush, ("R6",), 20),
    "lease-long": Bug(
        "a lease never ends while the term does not",
        lambda patch: patch.setattr(Leader, "leased", lambda self, now: self.ready),
        ("R2",),
        60,
    ),
    "lease-transfer": Bug(
        "who has told another to stand serves on",
        lambda patch: patch.setattr(Lease, "give_up", lambda self: None),
        ("R2",),
        60,
    ),
    "hasty": Bug("leadership is given away before all have answers", _hands_over_at_once, ("R10",), 60),
    "patience": Bug(
        "a leader counts on others as long as on itself, while time-outs are changed",
        lambda patch: patch.setattr(VotingGround, "hear_patience", lambda *_: None),
        ("R2",),
        20,
        first=40,
    ),
    "same-voter": Bug(
        "another store votes under the old name",
        lambda patch: patch.setattr(voting_core, "voter_of", lambda broker_id, store_id: _named_for(broker_id)),
        ("L3", "R1", "R6", "W1", "InvariantError"),
        60,
    ),
    "pinned": Bug(
        "retention drops the record that names the members",
        lambda patch: patch.setattr(VotingCore, "pinned", property(lambda self: self.commit)),
        ("V2",),
        60,
    ),
}


def _reads_on_when_cut_off(patch: Patch) -> None:
    patch.setattr(Granted, "counts", lambda self, now, applied: applied >= self.position)


for _bugs in (STATIC, RAFT):
    _bugs["read-cut-off"] = Bug("a follower that hears nobody lets read on", _reads_on_when_cut_off, ("F2",), 40)


def _named_for(broker_id: int) -> ReplicaId:
    from logherd.controller.values import BrokerId
    from logherd.group.seat import voter_of

    return voter_of(BrokerId(broker_id), f"b{broker_id}.s1")


def search(bug: Bug, mode: str) -> tuple[int, Result] | None:
    """The first seed that shows it by one of its rules."""
    for seed in range(bug.first, bug.first + bug.budget):
        result = run_seed(seed, mode=mode, keep=1)
        if result.failure is not None and (result.rule in bug.rules or result.failure.split(":")[0] in bug.rules):
            return seed, result
    return None


def main(names: list[str]) -> int:
    escaped = 0
    for mode, bugs in (("static", STATIC), ("raft", RAFT)):
        for name in [name for name in bugs if not names or name in names]:
            with pytest.MonkeyPatch.context() as patch:
                bugs[name].apply(patch)
                found = search(bugs[name], mode)
            escaped += found is None
            text = str(found[1].failure)[:100] if found else "ESCAPED"
            print(f"{mode:6} {name:14} {found[0] if found else '-':>4} {text}", flush=True)
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
