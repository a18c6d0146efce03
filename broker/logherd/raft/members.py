"""Who belongs to the group, which majorities count, and how one set of members becomes another.

A configuration holds from the moment it is appended, committed or not, and is taken back if its record is cut. Between
two sets of voters the group is *joint*: every decision needs a majority of both.

Source: Raft dissertation 4.1 to 4.3; raft-log rule 5.7.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from logherd.kit.errors import broken, ensure
from logherd.model.names import Position
from logherd.replication.messages import ReplicaId

__all__ = ["Configuration", "Goal", "MembersLog", "next_configuration"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Members in an order of their own, without doubles.

    Invariants: (1) nobody is both voter and learner; (2) `outgoing` is empty unless joint. An empty configuration
    belongs to a replica that has not been told of any yet: it neither votes nor counts.
    """

    voters: tuple[ReplicaId, ...] = ()
    outgoing: tuple[ReplicaId, ...] = ()
    learners: tuple[ReplicaId, ...] = ()

    def __post_init__(self) -> None:
        for group in (self.voters, self.outgoing, self.learners):
            ensure(len(group) == len(frozenset(group)), "members are named once", group)
        mixed = [peer for peer in self.learners if peer in self.voters]
        ensure(not mixed, "configuration 1: voter or learner", mixed)

    @property
    def joint(self) -> bool:
        """Whether two majorities are needed."""
        return bool(self.outgoing)

    @property
    def members(self) -> tuple[ReplicaId, ...]:
        """Everybody who is sent the log, in a fixed order."""
        return tuple(dict.fromkeys((*self.voters, *self.outgoing, *self.learners)))

    def is_voter(self, peer: ReplicaId) -> bool:
        """Whether the peer's vote counts in either half."""
        return peer in self.voters or peer in self.outgoing

    def agreed(self, value: Callable[[ReplicaId], int]) -> int:
        """The largest number that a majority of each half has reached."""
        if not self.voters:
            broken("an empty configuration decides nothing")
        reached = _majority_of(self.voters, value)
        return min(reached, _majority_of(self.outgoing, value)) if self.outgoing else reached

    def won(self, votes: Mapping[ReplicaId, bool]) -> bool:
        """Whether a majority of each half has said yes."""
        return bool(self.voters) and self.agreed(lambda peer: int(votes.get(peer, False))) == 1

    def lost(self, votes: Mapping[ReplicaId, bool]) -> bool:
        """Whether yes can no longer win."""
        return not self.voters or self.agreed(lambda peer: int(votes.get(peer, True))) == 0

    def encode(self) -> bytes:
        """Compact JSON, the same bytes for the same value."""
        fields = {"voters": self.voters, "outgoing": self.outgoing, "learners": self.learners}
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> "Configuration":
        """The inverse of encode(); the bytes come from a log whose checksums hold."""
        fields = json.loads(data)
        voters, outgoing, learners = (
            tuple(ReplicaId(str(peer)) for peer in fields[name]) for name in ("voters", "outgoing", "learners")
        )
        return Configuration(voters, outgoing, learners)


def _majority_of(half: tuple[ReplicaId, ...], value: Callable[[ReplicaId], int]) -> int:
    return sorted(map(value, half), reverse=True)[len(half) // 2]


@dataclass(frozen=True, slots=True)
class Goal:
    """The members an operator wants. `single` asks for the one-step change, legal if one voter differs."""

    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...] = ()
    single: bool = False

    def reached(self, current: Configuration) -> bool:
        """Whether nothing is left to do."""
        same_voters = frozenset(current.voters) == frozenset(self.voters)
        return same_voters and frozenset(current.learners) == frozenset(self.learners) and not current.joint


def next_configuration(
    current: Configuration, goal: Goal | None, caught_up: Callable[[ReplicaId], bool]
) -> Configuration | None:
    """The one configuration to append now, or None: there is nothing to do, or learners are still behind.

    Works from any half-done point, so that a new leader can finish what its predecessor began; a joint group is left
    whether or not somebody still knows the goal.
    """
    if current.joint:
        return replace(current, outgoing=())
    if goal is None or goal.reached(current):
        return None
    newcomers = tuple(peer for peer in goal.voters if peer not in current.voters)
    strangers = tuple(peer for peer in newcomers if peer not in current.learners)
    if strangers:
        # Whoever was to come in an earlier change and is not wanted any more need not be sent anything meanwhile.
        wanted = (peer for peer in current.learners if peer in goal.voters or peer in goal.learners)
        return replace(current, learners=(*wanted, *strangers))
    if not all(caught_up(peer) for peer in newcomers):
        return None
    if not newcomers and len(goal.voters) == len(current.voters):
        return Configuration(current.voters, (), goal.learners)
    leaving = [peer for peer in current.voters if peer not in goal.voters]
    if goal.single and len(newcomers) + len(leaving) == 1:
        return Configuration(goal.voters, (), goal.learners)
    return Configuration(goal.voters, current.voters, goal.learners)


class MembersLog:
    """The configurations of one log, newest last: what holds, and since which record."""

    def __init__(self, base: Configuration, at: Position) -> None:
        self._known: list[tuple[Position, Configuration]] = [(at, base)]
        self.current = base
        """The newest one appended: it holds, committed or not."""
        self.since = at
        """The end of the record that made it hold."""

    @property
    def count(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def add(self, end: Position, configuration: Configuration) -> None:
        """A configuration record was appended."""
        ensure(end > self.since, "configurations are appended in order", end, self.since)
        self._known.append((end, configuration))
        self.since, self.current = end, configuration

    def cut(self, at: Position) -> bool:
        """The log was cut: whatever was appended above holds no longer. True if the current one changed."""
        before = len(self._known)
        while len(self._known) > 1 and self._known[-1][0] > at:
            self._known.pop()
        self.since, self.current = self._known[-1]
        return len(self._known) < before

    def at(self, position: Position) -> Configuration:
        """What held at `position`."""
        return [configuration for since, configuration in self._known if since <= position][-1]

    def committed_since(self, commit: Position) -> Position:
        """The end of the newest record of a configuration that is committed."""
        return max((since for since, _ in self._known if since <= commit), default=self._known[0][0])

    def counts(self, peer: ReplicaId, commit: Position) -> bool:
        """Whether the peer is a voter of a configuration that may still hold, given what is known to be committed.

        A configuration that leaves it out may be cut again, and until it is committed this member's longer log may be
        the only one that can be elected. Source: Raft dissertation 4.2.2.
        """
        return any(known.is_voter(peer) for known in self.open(commit))

    def open(self, commit: Position) -> list[Configuration]:
        """Every configuration that may still hold, given what is known to be committed."""
        last_committed = self.committed_since(commit)
        return [known for since, known in self._known if since >= last_committed]

    def forget(self, below: Position) -> None:
        """Nobody will ask again what held below this committed place."""
        while len(self._known) > 1 and self._known[1][0] <= below:
            self._known.pop(0)

    def rebase(self, base: Configuration, at: Position) -> None:
        """An image replaced the log up to `at`; what its kept records say is added again."""
        self._known = [(at, base)]
        self.since, self.current = at, base
