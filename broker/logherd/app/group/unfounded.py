"""The machine of a replica whose group is not founded yet, as far as it knows: it waits, and promises nothing."""

from logherd.group.inputs import Drain, Input
from logherd.group.output import Closed, Drained, Output
from logherd.model.names import Epoch, Position
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["Unfounded"]


class Unfounded:
    """See GroupMachine. Whatever arrives is dropped: nobody can have asked for it."""

    def __init__(self, cluster: ClusterId, identity: ReplicaId, epoch: Epoch, commit: Position) -> None:
        self.cluster = cluster
        self.identity = identity
        self.epoch = epoch
        self.commit = commit
        self.leads: Epoch | None = None

    def serving(self, now: int) -> Epoch | None:
        """Never."""
        del now
        return None

    def closed(self, now: int) -> Closed | None:
        """Always."""
        del now
        return Closed.NOT_SERVING

    def readable(self, now: int) -> Position | None:
        """Never."""
        del now
        return None

    def step(self, event: Input, now: int) -> Output:
        """Whoever wants to leave may."""
        del now
        return Output(events=(Drained(),)) if isinstance(event, Drain) else Output()
