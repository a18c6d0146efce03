"""What one shell needs of whichever machine leads its group: the same inputs and outputs, the same two questions."""

from typing import Protocol

from logherd.group.ground import Ground
from logherd.group.inputs import Input
from logherd.group.output import Closed, Output
from logherd.model.names import Epoch, Position
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["Grounded", "GroupMachine"]


class GroupMachine(Protocol):
    """One replica's part in its group: `GroupCore` (controller mode), `StaticCore`, `VotingCore` (raft mode).

    `now` is milliseconds of a monotonic clock that counts suspension. All messages that have arrived are fed before a
    tick. An input that belongs to another mode is an InvariantError.
    """

    @property
    def identity(self) -> ReplicaId:
        """The name under which the others know this process."""

    @property
    def cluster(self) -> ClusterId:
        """What the envelopes of the group name as their cluster."""

    @property
    def epoch(self) -> Epoch:
        """The highest epoch seen."""

    @property
    def commit(self) -> Position:
        """How far the log is known to be committed."""

    @property
    def leads(self) -> Epoch | None:
        """The epoch of this replica's own leadership, which may be fenced. Who may answer clients asks `serving`."""

    def serving(self, now: int) -> Epoch | None:
        """R1: the epoch in which this replica may answer as the leader at this moment. To be asked when a request is
        taken, and again when its answer leaves."""

    def closed(self, now: int) -> Closed | None:
        """Why a client's write may not be appended at this moment; None if it may."""

    def readable(self, now: int) -> Position | None:
        """Up to where this follower may answer reads itself at this moment; None: the leader must. See reading.py."""

    def step(self, event: Input, now: int) -> Output:
        """Take one input; see output.py for what the caller owes."""


class Grounded:
    """What a machine over a `Ground` says of itself."""

    _ground: Ground

    @property
    def ground(self) -> Ground:
        """The shared state; to be read."""
        return self._ground

    @property
    def identity(self) -> ReplicaId:
        """See GroupMachine."""
        return self._ground.standing.identity

    @property
    def cluster(self) -> ClusterId:
        """See GroupMachine."""
        return self._ground.standing.cluster

    @property
    def epoch(self) -> Epoch:
        """See GroupMachine."""
        return self._ground.epoch

    @property
    def commit(self) -> Position:
        """See GroupMachine."""
        return self._ground.commit
