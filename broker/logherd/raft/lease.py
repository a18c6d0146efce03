"""How long a leader may believe that nobody else leads: check-quorum, read rounds and the read lease."""

from collections.abc import Collection

from logherd.raft.ground import Ground
from logherd.raft.members import Configuration
from logherd.raft.options import lease_of
from logherd.replication.messages import ReplicaId
from logherd.replication.rounds import Rounds

__all__ = ["Lease"]

_BEATS = 5
"""Heartbeats within the shortest time-out of a member for which the own heartbeats are too rare."""


class Lease:
    """All three rest on when a round was *sent* that a quorum has answered.

    A member that answered has reset its own election timer later than that, on a clock of about the same rate, and
    votes for nobody before its shortest time-out has passed (also after a restart). Source: raft-log rule 5.6. While
    time-outs are being changed they differ: each answer is worth what the time-out of that member is.
    """

    def __init__(self, ground: Ground, rounds: Rounds, doubted: Collection[ReplicaId]) -> None:
        """`doubted`: whose answers count for nothing."""
        self._ground = ground
        self._rounds = rounds
        self._doubted = doubted
        self._begun_at = ground.clock.now
        self._trusted_from = ground.clock.now
        self._given_up = False
        self._known: tuple[Configuration, int, int] | None = None
        """(members, answers taken, `_sent_at` by them): asked several times in each step, and new in few of them."""

    def quorum_round(self) -> int:
        """The newest round that a quorum has answered."""
        return self._ground.members.current.agreed(self._round_of)

    def quorum_heard_at(self) -> int:
        """When the newest round was sent that a quorum has answered; the begin of the leadership before the first."""
        return max(self._begun_at, self._sent_at())

    def heard_with(self, configuration: Configuration) -> bool:
        """Whether a quorum of these members was heard so lately that nothing ends if they decide from now on."""
        heard_at = configuration.agreed(self._heard_at)
        return heard_at >= 0 and self._ground.clock.now - heard_at < self._ground.options.lease_ms // 2

    def valid(self) -> bool:
        """Whether a read may be served without asking."""
        return self.valid_at(self._ground.clock.now)

    def valid_at(self, now: int) -> bool:
        """The same at a moment after the latest step."""
        return now < self.until()

    def until(self) -> int:
        """Its end by what has been heard so far; 0 if there is none."""
        ground, sent_at = self._ground, self._sent_at()
        if self._given_up or sent_at < self._trusted_from or self._rounds.last == 0:
            return 0
        if ground.clock.hasty:
            return ground.members.current.agreed(self._awaited_by)
        return sent_at + ground.options.lease_ms

    def beat_due(self) -> bool:
        """Whether whoever waits less than this member for a leader should hear of it again."""
        ground = self._ground
        hasty = [waits for peer, waits in ground.clock.hasty.items() if ground.members.current.is_voter(peer)]
        return bool(hasty) and ground.clock.now - self._rounds.begun_at >= min(hasty) // _BEATS

    def distrust(self) -> None:
        """A pause was noticed: only rounds sent from now on count, and the quorum has a full time-out to be heard."""
        self._trusted_from = self._begun_at = self._ground.clock.now

    def give_up(self) -> None:
        """Somebody has been told to stand for election: no lease for the rest of this term."""
        self._given_up = True

    def _sent_at(self) -> int:
        current, answers, known = self._ground.members.current, self._rounds.answers, self._known
        if self._doubted:
            return current.agreed(self._heard_at)
        if known is not None and known[0] is current and known[1] == answers:
            return known[2]
        sent_at = current.agreed(self._heard_at)
        if len(current.voters) > 1 and not current.joint:  # else this member's own word, which is of now, may decide
            self._known = (current, answers, sent_at)
        return sent_at

    def _round_of(self, member: ReplicaId) -> int:
        if member == self._ground.identity:
            return self._rounds.last
        return 0 if member in self._doubted else self._rounds.round_of(member)

    def _awaited_by(self, member: ReplicaId) -> int:
        """Until when this member elects nobody else."""
        heard_at, options = self._heard_at(member), self._ground.options
        if heard_at < self._trusted_from:
            return 0
        return heard_at + lease_of(self._ground.clock.hasty.get(member, options.election_ms))

    def _heard_at(self, member: ReplicaId) -> int:
        if member == self._ground.identity:
            return self._ground.clock.now
        heard = None if member in self._doubted else self._rounds.heard_at(member)
        return -1 if heard is None else heard
