"""Raft mode after a majority was lost for good: an operator makes the survivors the group, and accepts what that loses.

The one order that can lose what was acknowledged. So it names whom it gives up and where each survivor's log ends, it
is given to each of them, and it is refused while anybody leads or could be elected.
"""

from logherd.app.group.by_votes import ByVotes
from logherd.group.inputs import Rebuild
from logherd.group.seat import process_of
from logherd.group.voting_core import VotingCore
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.record import Kind
from logherd.replication.epochs import Point
from logherd.replication.messages import ReplicaId
from logherd.service import replica_orders as shapes

__all__ = ["rebuild", "votes_page"]

_NOT_FOUNDED = "the group is not founded yet: nothing can have been acknowledged, so there is nothing to rebuild"


def votes_page(mode: ByVotes) -> tuple[int, object]:
    """Who votes, as far as this replica knows, and the end of its log."""
    core = mode.core
    return (409, {"error": _NOT_FOUNDED}) if core is None else (200, _page(mode, core))


def rebuild(mode: ByVotes, order: shapes.Rebuild) -> tuple[int, object]:
    """Carry the order out here, or say why not; nothing has changed then. It is durable before this replica votes."""
    core = mode.core
    if core is None:
        return 409, {"error": _NOT_FOUNDED}
    named = tuple(
        (ReplicaId(each.identity), Point(Epoch(each.epoch), Position(each.position))) for each in order.survivors
    )
    ground, survivors = core.raft.ground, {identity for identity, _ in named}
    if ground.identity in survivors and _carried_out(core, order, best=max(named, key=lambda each: (each[1], each[0]))):
        return 200, _page(mode, core)  # the first answer was lost
    why = _why_not(core, order, survivors)
    if not why:
        mode.rebuild(Rebuild(order.reset, Epoch(order.epoch), named))
        if ground.hard.cluster.reset != order.reset:
            why = "a leader was heard, or the log has changed, since this was looked at: look again"
    return (409, {"error": why}) if why else (200, _page(mode, core))


def _carried_out(core: VotingCore, order: shapes.Rebuild, best: tuple[ReplicaId, Point]) -> bool:
    """Whether that was done before. A crash may have left only the promise, at whoever has to note the order."""
    ground = core.raft.ground
    noted = best[0] != ground.identity or set(_voters(core)) == {each.identity for each in order.survivors}
    return ground.hard.cluster.reset == order.reset and ground.term >= order.epoch and noted


def _why_not(core: VotingCore, order: shapes.Rebuild, survivors: set[ReplicaId]) -> str:
    ground, given = core.raft.ground, _given(core)
    voters = _all_of(given)
    given_up = sorted({_number(each) for each in voters if each not in survivors})
    if core.hears_leader:
        return "a leader is heard here: a group that works is not rebuilt"
    if unfit := _unfit(given, [each.identity for each in order.survivors]):
        return unfit
    if given.won({each: each in survivors for each in voters}):
        return "the survivors are a majority, and elect a leader by themselves"
    if sorted(order.give_up) != given_up:
        return f"this gives up broker {', '.join(map(str, given_up))}, and not {[*order.give_up]}: name them"
    if not order.loss:
        return "messages that only the given up brokers have are lost, although they were acknowledged: accept that"
    if not ground.log.epochs.last_epoch:
        return "this replica's log is empty: it can only copy another one's"
    if order.reset <= ground.hard.cluster.reset or order.epoch <= ground.term:
        return f"this replica knows reset {ground.hard.cluster.reset} and epoch {ground.term}: look again"
    return ""


def _unfit(given: Configuration, survivors: list[str]) -> str:
    """Who cannot be a survivor of this group, as when an address leads to another broker than was meant."""
    for each in survivors:
        if survivors.count(each) > 1:
            return f"{each} is named twice among the survivors"
        if each not in given.members:
            return f"{each} is no member here; members are {', '.join(sorted(given.members))}"
    return ""


def _page(mode: ByVotes, core: VotingCore) -> shapes.VotesPage:
    ground = core.raft.ground
    return shapes.VotesPage(
        broker_id=mode.seat.broker_id, identity=ground.identity, reset=ground.hard.cluster.reset, epoch=ground.term,
        leader=mode.leader if core.hears_leader else None, voters=_voters(core), last_epoch=ground.last.epoch,
        last_position=ground.last.position,
    )  # fmt: skip


def _given(core: VotingCore) -> Configuration:
    """Of whom an order speaks: who belongs to the group; but for an earlier order that has reached too few survivors to
    come about, and is given again."""
    ground = core.raft.ground
    commit = ground.progress.commit
    begun = any(each.kind is Kind.RESET for each in ground.log.records(commit, ground.log.end))
    return ground.members.at(commit) if begun else ground.members.current


def _voters(core: VotingCore) -> tuple[ReplicaId, ...]:
    return _all_of(core.raft.ground.members.current)


def _all_of(configuration: Configuration) -> tuple[ReplicaId, ...]:
    return tuple(dict.fromkeys((*configuration.voters, *configuration.outgoing)))


def _number(voter: ReplicaId) -> int:
    process = process_of(voter)
    return 0 if process is None else process.broker_id
