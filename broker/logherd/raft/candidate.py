"""Standing for election: first the question whether it could be won (pre-vote), then the vote itself."""

from collections.abc import Mapping

from logherd.kit.errors import ensure
from logherd.model.names import Epoch
from logherd.raft.follower import election_timeout
from logherd.raft.ground import Ground, Turn, TurnTo
from logherd.raft.inputs import Read
from logherd.raft.messages import VoteAnswer, VoteRequest
from logherd.raft.output import Refusal, Role
from logherd.replication.messages import Envelope, ReplicaId

__all__ = ["Candidate", "PreCandidate"]


class PreCandidate:
    """Asks in its own term whether an election would be won; changes nothing anywhere.

    Whoever has heard a leader a moment later than this member does not answer yet, and a message may be lost: so those
    who are silent are asked again with every heartbeat's time, instead of after another whole time-out.

    Source: Raft dissertation 9.6; raft-log rule 5.3.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._asked = Epoch(ground.term + 1)
        self._deadline = election_timeout(ground)
        self._ask_again_at = 0
        self._votes: dict[ReplicaId, bool] = {ground.identity: True}
        self.leader: ReplicaId | None = None

    @property
    def role(self) -> Role:
        """For reports."""
        return Role.PRE_CANDIDATE

    def start(self) -> Turn | None:
        """Ask everybody; a sole voter has its answer."""
        self._ask()
        return self._judge()

    def _ask(self) -> None:
        ground, current = self._ground, self._ground.members.current
        self._ask_again_at = ground.clock.now + ground.options.ship.heartbeat_ms
        for peer in current.members:
            if peer not in self._votes and current.is_voter(peer):
                ground.send(peer, VoteRequest(ground.last, pre=True), term=self._asked)

    def on_tick(self) -> Turn | None:
        """Nobody won: become a follower again, whose random time-out is the back-off."""
        if self._ground.clock.now >= self._deadline:
            return Turn(TurnTo.FOLLOWER, "pre-vote was not answered")
        if self._ground.clock.now >= self._ask_again_at:
            self._ask()
        return None

    def on_flushed(self) -> Turn | None:
        """Nothing here waits for the disk."""
        return None

    def on_answer(self, envelope: Envelope, answer: VoteAnswer) -> Turn | None:
        """Count an answer to exactly this question."""
        if not answer.pre or (answer.granted and envelope.epoch != self._asked):
            return None
        self._votes.setdefault(envelope.sender, answer.granted)
        return self._judge()

    def on_read(self, read: Read) -> None:
        """There is no leader to ask."""
        self._ground.refuse(read.request, Refusal.NOT_LEADER)

    def close(self) -> None:
        """Nothing is left behind."""

    def _judge(self) -> Turn | None:
        current = self._ground.members.current
        if current.won(self._votes):
            if self._ground.unable:
                return Turn(TurnTo.FOLLOWER, "the store does not let it lead")
            return Turn(TurnTo.CANDIDATE, "pre-vote won", votes=_for(self._votes))
        if current.lost(self._votes):
            return Turn(TurnTo.FOLLOWER, "pre-vote lost")
        return None


class Candidate:
    """Asks for votes in a new term. Its own vote counts once it is durable, as every other.

    Source: Raft paper 5.2, 5.4.1.
    """

    def __init__(self, ground: Ground, *, transfer: bool) -> None:
        self._ground = ground
        self._transfer = transfer
        self._ballot = ground.promise(Epoch(ground.term + 1), ground.identity)
        self._deadline = election_timeout(ground)
        self._votes: dict[ReplicaId, bool] = {}
        self._promised = False
        self.leader: ReplicaId | None = None

    @property
    def role(self) -> Role:
        """For reports."""
        return Role.CANDIDATE

    def start(self) -> Turn | None:
        """Ask everybody, once the term and the own vote are durable."""
        ground = self._ground
        for peer in ground.members.current.members:
            if peer != ground.identity and ground.members.current.is_voter(peer):
                ground.hold(peer, VoteRequest(ground.last, transfer=self._transfer))
        return None

    def on_tick(self) -> Turn | None:
        """Split vote or silence: ask again whether it is worth a term. It is not for a member whose own vote is still
        not durable: each of its terms would call the elections of the others off."""
        if self._ground.clock.now < self._deadline:
            return None
        if self._ground.unable:
            return Turn(TurnTo.FOLLOWER, "the store does not let it lead")
        return Turn(TurnTo.PRE_CANDIDATE, "election was not decided")

    def on_flushed(self) -> Turn | None:
        """The own vote counts once it cannot be forgotten."""
        if not self._promised and self._ground.durable.flushed_token >= self._ballot:
            self._promised = True
            self._votes[self._ground.identity] = True
            return self._judge()
        return None

    def on_answer(self, envelope: Envelope, answer: VoteAnswer) -> Turn | None:
        """Count an answer of this term."""
        if answer.pre:
            return None
        ensure(envelope.epoch == self._ground.term, "an answer of this term", envelope)
        self._votes.setdefault(envelope.sender, answer.granted)
        if not answer.granted:
            self._hurry()
        return self._judge()

    def on_read(self, read: Read) -> None:
        """There is no leader to ask."""
        self._ground.refuse(read.request, Refusal.NOT_LEADER)

    def close(self) -> None:
        """Nothing is left behind."""

    def _hurry(self) -> None:
        """Somebody answers, and gave the vote to a rival: with a third one dead nobody may win this term.

        Waiting out a whole time-out would double the outage. A part of it, drawn at random, keeps the rivals apart, and
        the pre-vote keeps a second attempt from disturbing whoever has won meanwhile.
        """
        ground = self._ground
        self._deadline = min(self._deadline, ground.clock.now + ground.jitter.below(ground.options.election_ms // 2))

    def _judge(self) -> Turn | None:
        current = self._ground.members.current
        if self._promised and current.won(self._votes):
            return Turn(TurnTo.LEADER, "election won", votes=_for(self._votes))
        if current.lost(self._votes):
            return Turn(TurnTo.FOLLOWER, "election lost")
        return None


def _for(votes: Mapping[ReplicaId, bool]) -> tuple[ReplicaId, ...]:
    return tuple(sorted(voter for voter, granted in votes.items() if granted))
