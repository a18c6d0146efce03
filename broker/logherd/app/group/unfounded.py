"""The machine of a replica whose group is not founded yet, as far as it knows: it waits, and promises nothing."""

from logherd.group.inputs import Drain, Health, Input
from logherd.group.output import Closed, Drained, Output
from logherd.model.names import Epoch, Position
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["Unfounded"]


class Unfounded:
    """See GroupMachine. Whatever arrives is dropped: nobody can have asked for it. What the shell says is `said` to the
    machine after it: the shell does not repeat it."""

    def __init__(self, cluster: ClusterId, identity: ReplicaId, epoch: Epoch, commit: Position) -> None:
        self.cluster = cluster
        self.identity = identity
        self.epoch = epoch
        self.commit = commit
        self.leads: Epoch | None = None
        self._health: Health | None = None
        self._drains = False

    @property
    def said(self) -> tuple[Input, ...]:
        """How the store is, unless all is well, and that the process is about to stop."""
        health = () if self._health is None else (self._health,)
        return (*health, Drain()) if self._drains else health

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
        if isinstance(event, Health):
            self._health = event
        if not isinstance(event, Drain):
            return Output()
        self._drains = True
        return Output(events=(Drained(),))
