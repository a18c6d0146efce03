"""Quorum recovery: an operator's decision after a majority is gone for good. The one place that can lose a commit."""

from logherd.model.names import Epoch
from logherd.raft.ground import Ground
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.members import Configuration
from logherd.raft.output import Decided, QuorumRecovered, Refusal
from logherd.raft.record import Kind

__all__ = ["recover_quorum"]


def recover_quorum(ground: Ground, order: RecoverQuorum) -> bool:
    """Carry out the order on this survivor, or refuse it; True if the member must start its life anew as a follower.

    The survivor with the longest log appends a reset record in the new term; every other one gives it the vote of that
    term. So only it can lead the new term, and its first commit carries the new configuration. Old members, which
    still carry the old reset number, are refused by every envelope.
    """
    named = dict(order.survivors)
    best = max(order.survivors, key=lambda survivor: (survivor[1], survivor[0]), default=None)
    fresh = order.reset > ground.hard.cluster.reset and order.term > ground.term
    if best is None or not fresh or named.get(ground.identity) != ground.last:
        ground.refuse(order.request, Refusal.INVALID)
        return False
    if best[0] == ground.identity and not ground.notable:
        ground.refuse(order.request, Refusal.DISK_FULL)
        return False
    ground.begin_reset(order.reset, Epoch(order.term), best[0])
    configuration = Configuration(tuple(peer for peer, _ in order.survivors))
    if best[0] == ground.identity:
        end = ground.append(Kind.RESET, configuration.encode())
        ground.adopt(configuration, end)
    ground.out.events.append(QuorumRecovered(order.reset, Epoch(order.term), configuration))
    ground.out.answers.append(Decided(order.request, ground.log.end))
    return True
