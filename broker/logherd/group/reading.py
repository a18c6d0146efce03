"""When a follower may answer a read itself: what it shows is committed, and was all there was a moment ago.

It asks whoever leads its epoch, and that one answers with what it shows itself, if at that moment it may serve. So a
follower that is cut off, that follows a leader whose lease is over, or that lacks what others have been told, does not
know more than it can prove, and answers nothing. What it answers is at most READ_MS old: whatever was told to anybody
before that is in it; and nothing is in it that the leader does not show yet. The number of a question is the time of
asking, by the clock of who asks; that is what counts, so no two clocks are compared, and no answer, however late, makes
the state look newer than it is.

Source: raft-log rule 5.6; controller-ha R8.
"""

from dataclasses import dataclass

from logherd.group.ground import Ground
from logherd.model.names import Position
from logherd.replication.messages import ReadAsk, ReadGrant, ReplicaId

__all__ = ["ASK_AGAIN_MS", "READ_MS", "Granted", "Reading"]

READ_MS = 500
"""For so long after it was asked for the leader's word counts."""

ASK_AGAIN_MS = READ_MS // 4
"""While there are reads, the leader is asked this often, so that its word does not run out between two of them."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The leader's word: it shows what is committed up to `position`, and showed no more when it was asked."""

    position: Position
    asked_at: int

    def counts(self, now: int, applied: Position) -> bool:
        """Whether a state that has `applied` may be read from."""
        return now - self.asked_at < READ_MS and applied >= self.position


class Reading:
    """A follower's leave to read, within one epoch of one leader; a later epoch begins without.

    Invariant: nothing above `Ground.told` is readable, nor above what the leader shows.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._asked_at: int | None = None
        self._granted: Granted | None = None
        self._over = False

    def end(self) -> None:
        """This log is not the leader's: nothing of it is to be read any more."""
        self._over = True

    def want(self, leader: ReplicaId | None) -> None:
        """Somebody reads: ask, unless that was done a moment ago."""
        ground = self._ground
        if leader is None or self._over or (self._asked_at is not None and ground.now - self._asked_at < ASK_AGAIN_MS):
            return
        self._asked_at = ground.now
        ground.send(leader, ReadAsk(ground.now))

    def on_grant(self, grant: ReadGrant) -> None:
        """The leader's answer; a later one may have come before it. Refused, an earlier one is void, too."""
        known = self._granted
        if grant.position is None:
            self._granted = None
        elif grant.number <= self._ground.now and (known is None or known.asked_at < grant.number):
            self._granted = Granted(grant.position, grant.number)

    def readable(self, now: int) -> Position | None:
        """Up to where reads may be answered here, by a store that shows all of it."""
        granted = self._granted
        if granted is None or self._over or not granted.counts(now, self._ground.told):
            return None
        return granted.position
