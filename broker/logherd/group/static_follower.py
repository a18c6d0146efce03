"""`static` mode's follower: it presents itself to whoever the table names, even before that process is heard."""

from logherd.group.follower import Follows
from logherd.group.ground import Ground
from logherd.group.messages import Contradicted
from logherd.group.output import Strange
from logherd.group.seat import Process, replica_of
from logherd.group.table import Table, table_number
from logherd.replication.messages import ReplicaId

__all__ = ["StaticFollows"]


class StaticFollows(Follows):
    """Follows in one epoch, as `Follows` does.

    It gives up what is committed here only if the table says that an operator has accepted that loss; otherwise it
    keeps what it has, follows nobody, answers no reads, and says so.
    """

    def __init__(self, ground: Ground, table: Table | None) -> None:
        super().__init__(ground)
        self._table = table
        self._told: ReplicaId | None = None
        if table is not None:
            self.assigned(table)

    def assigned(self, table: Table) -> None:
        """The table of roles, as far as it is known."""
        self._table = table
        if table.leader == self._ground.me.broker_id or table.number < table_number(self._ground.epoch):
            self._show(None, "")
        else:
            self._show(table.leader, table.address)
            self._greet()

    def greet(self) -> None:
        """Another process of the leader is known."""
        self._greet()

    @property
    def _greeted(self) -> ReplicaId | None:
        """The latest process of the table's leader, if one is known."""
        table, ground = self._table, self._ground
        if table is None or table.leader == ground.me.broker_id or table.number < table_number(ground.epoch):
            return self._leader
        process = Process(table.leader, ground.standing.latest(table.leader))
        return replica_of(process) if process.registration else self._leader

    def on_contradicted(self, leader: ReplicaId, contradicted: Contradicted) -> None:
        """The leader lacks what is committed here."""
        self.reading.end()  # accepted or not: no place in this log says anything about the leader's
        table = self._table
        under = table_number(contradicted.committed.epoch)
        if table is not None and table.number == table_number(self._ground.epoch) and under < table.forgiven:
            super().on_contradicted(leader, contradicted)
        elif self._told != leader:
            self._told = leader
            self._ground.report(Strange(leader, f"lacks {contradicted.committed}, and nobody has accepted that loss"))
