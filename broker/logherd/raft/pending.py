"""What is owed an answer: a leader's uncommitted records, reads that wait for a round, and those that were granted."""

from collections import deque
from dataclasses import dataclass, field

from logherd.kit.errors import InvariantError, ensure
from logherd.model.names import Position
from logherd.raft.output import Answer, Decided, ReadReady, Unknown
from logherd.replication.messages import ReplicaId

__all__ = ["READS_MAX", "GrantedReads", "PendingReads", "Proposals", "WaitingRead"]

READS_MAX = 10_000
"""Reads that may wait at one member, for a leader's or a round's answer and until they are served."""


@dataclass(slots=True)
class Proposals:
    """Appended and not committed, oldest first; bounded in records and in bytes by whoever adds."""

    bytes: int = 0
    _waiting: deque[tuple[Position, int, int | None]] = field(default_factory=deque)

    @property
    def count(self) -> int:
        """How many records."""
        return len(self._waiting)

    def add(self, end: Position, size: int, request: int | None) -> None:
        """A record of `size` bytes that ends at `end`; without a request nobody waits for it."""
        waiting = self._waiting
        if waiting and end <= waiting[-1][0]:
            raise InvariantError(f"records are appended in order: {end}")
        waiting.append((end, size, request))
        self.bytes += size

    def decide(self, commit: Position) -> list[Answer]:
        """Everything up to `commit` is committed."""
        answers: list[Answer] = []
        waiting = self._waiting
        while waiting and waiting[0][0] <= commit:
            end, size, request = waiting.popleft()
            self.bytes -= size
            if request is not None:
                answers.append(Decided(request, end))
        return answers

    def abandon(self) -> list[Answer]:
        """Leadership is lost: whether these are ever committed is not known here."""
        answers: list[Answer] = [Unknown(request) for _, _, request in self._waiting if request is not None]
        self._waiting.clear()
        self.bytes = 0
        return answers


@dataclass(frozen=True, slots=True)
class WaitingRead:
    """A read that is as new as `position` once the round `round` (or a later one) has been answered by a quorum.

    `number` is the shell's request if the read was asked here, or a follower's number if `asker` is set.
    """

    round: int
    position: Position
    number: int
    asker: ReplicaId | None


@dataclass(slots=True)
class PendingReads:
    """Reads in the order of the rounds that they need."""

    _waiting: deque[WaitingRead] = field(default_factory=deque)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def needed(self) -> int:
        """The highest round that somebody waits for, 0 if nobody does."""
        return self._waiting[-1].round if self._waiting else 0

    def add(self, read: WaitingRead) -> None:
        """Wait for a round that begins after the read did."""
        ensure(read.round >= self.needed, "rounds rise", read)
        self._waiting.append(read)

    def confirm(self, answered: int) -> list[WaitingRead]:
        """A quorum has answered the round `answered`: these may be served."""
        done: list[WaitingRead] = []
        while self._waiting and self._waiting[0].round <= answered:
            done.append(self._waiting.popleft())
        return done

    def abandon(self) -> list[WaitingRead]:
        """Leadership is lost."""
        dropped = list(self._waiting)
        self._waiting.clear()
        return dropped


@dataclass(slots=True)
class GrantedReads:
    """Reads of which it is known how new the state must be, and that this is not applied here yet."""

    _waiting: list[tuple[Position, int, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, position: Position, request: int, deadline: int) -> None:
        """Wait until `position` is applied, which is never if this member can take no records."""
        self._waiting.append((position, request, deadline))

    def reach(self, applied: Position) -> list[ReadReady]:
        """The state is at `applied`: these may be served."""
        if not self._waiting:
            return []
        ready = [ReadReady(request, position) for position, request, _ in self._waiting if position <= applied]
        self._waiting = [entry for entry in self._waiting if entry[0] > applied]
        return ready

    def expire(self, now: int) -> list[int]:
        """Requests that have waited long enough; deadlines rise."""
        late = 0
        while late < len(self._waiting) and self._waiting[late][2] <= now:
            late += 1
        expired, self._waiting = self._waiting[:late], self._waiting[late:]
        return [request for _, request, _ in expired]

    def abandon(self) -> list[int]:
        """The role that granted them ends: their requests."""
        dropped, self._waiting = self._waiting, []
        return [request for _, request, _ in dropped]
