"""Who gets this member's vote. The same in every role; the term has been settled before."""

from logherd.raft.ground import Ground
from logherd.raft.messages import VoteAnswer, VoteRequest
from logherd.replication.messages import Envelope

__all__ = ["answer_pre_vote", "answer_vote", "hears_leader"]


def hears_leader(ground: Ground) -> bool:
    """Whether a leader was heard so lately that it may hold a lease this member is part of."""
    heard = ground.clock.leader_heard_at
    return heard is not None and ground.clock.now - heard < ground.options.election_ms


def _note_asker(ground: Ground, request: VoteRequest) -> None:
    """Who was named as a voter in what damage has taken from this log has all that is left of it, and that record. Who
    was a voter before, and does not know yet that it is none any more, has less, and counts for nobody here."""
    if request.last > ground.last:
        ground.clock.asked = True


def answer_pre_vote(ground: Ground, envelope: Envelope, request: VoteRequest) -> None:
    """Say whether the candidate would get this vote. Promises nothing and changes nothing.

    A refusal carries the own term, so that a candidate left behind learns of it.
    """
    _note_asker(ground, request)
    granted = envelope.epoch > ground.term and request.last >= ground.last
    granted = granted and not ground.quarantined and not ground.doubtful
    ground.send(envelope.sender, VoteAnswer(granted, pre=True), term=envelope.epoch if granted else ground.term)


def answer_vote(ground: Ground, envelope: Envelope, request: VoteRequest) -> bool:
    """Vote in the own term, once, for a log that holds at least what this one does; True if the vote was given.

    The voter's own configuration is not asked: it may be older than the candidate's. The vote leaves once durable.
    Once the leader of the term was heard nobody else can win it, unless this vote is one that was given and forgotten.
    Source: Raft paper 5.2, 5.4.1.
    """
    _note_asker(ground, request)
    free = ground.hard.vote == envelope.sender or (ground.hard.vote is None and not ground.led)
    owes = ground.doubtful or (ground.quarantined and not request.transfer)
    if not free or owes or request.last < ground.last:
        ground.send(envelope.sender, VoteAnswer(granted=False))
        return False
    if ground.hard.vote is None:
        ground.promise(ground.term, envelope.sender)
    ground.hold(envelope.sender, VoteAnswer(granted=True))
    return True
