"""Heartbeat rounds: who answered which, and when that round was sent. The basis of leases and of "is it alive"."""

from collections import deque
from dataclasses import dataclass, field

from logherd.replication.messages import ReplicaId

__all__ = ["Rounds"]

_KEPT = 4_096
"""Rounds remembered; an answer to an older one is worth nothing. With many reads a round begins as soon as the nearest
majority has answered the one before, and who is far away must be heard all the same: this is a second of them."""


@dataclass(slots=True)
class Rounds:
    """The leader's rounds. All times are when a round was *sent*: an answer proves nothing about a later moment."""

    last: int = 0
    answers: int = 0
    """How often anything that is told of peers has changed."""
    _sent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _answered: dict[ReplicaId, tuple[int, int]] = field(default_factory=dict)

    def begin(self, now: int) -> int:
        """Start a round at `now` (milliseconds) and give its number."""
        self.last += 1
        self._sent.append((self.last, now))
        return self.last

    @property
    def begun_at(self) -> int:
        """When the newest round was sent, 0 if none was."""
        return self._sent[-1][1] if self._sent else 0

    def answer(self, peer: ReplicaId, number: int) -> bool:
        """Take an answer; True if it is the newest of this peer."""
        if not self._sent or number > self.last or number < self._sent[0][0] or number <= self.round_of(peer):
            return False
        self.answers += 1
        self._answered[peer] = (number, self._sent[number - self._sent[0][0]][1])
        return True

    def round_of(self, peer: ReplicaId) -> int:
        """The newest round that `peer` answered, 0 if none."""
        return self._answered[peer][0] if peer in self._answered else 0

    def heard_at(self, peer: ReplicaId) -> int | None:
        """When the newest round that `peer` answered was sent."""
        answered = self._answered
        return answered[peer][1] if peer in answered else None

    def forget(self, peer: ReplicaId) -> None:
        """The peer is no longer ours."""
        self.answers += 1
        self._answered.pop(peer, None)
