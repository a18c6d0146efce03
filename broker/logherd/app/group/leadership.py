"""A replica's role as forwarding and the services see it."""

from collections.abc import Callable

from logherd.service.forwarding.roles import Following, Leading, Nobody, Role

__all__ = ["GroupLeadership"]


class GroupLeadership:
    """The `Leadership` of a broker with a group. Invariant: `Leading` is told only while the lease runs."""

    def __init__(self, expire: Callable[[], None]) -> None:
        """`expire` looks at the clock and, if the lease is over, sets another role before it returns."""
        self._role: Role = Nobody()
        self._expire = expire
        self.on_change: list[Callable[[Role], None]] = []

    @property
    def current(self) -> Role:
        """The role at this moment."""
        return self._role

    @property
    def leased(self) -> bool:
        """Always: whoever leads a group has a lease, or a majority that was heard lately."""
        return True

    def confirm(self) -> None:
        """To be called before a request is taken: who has slept finds out here, not at the next tick (R1)."""
        if isinstance(self._role, Leading):
            self._expire()

    def set(self, role: Role) -> None:
        """Take another role; everybody who listens has heard of it when this returns. A leader changes to another
        leader by way of nobody, so that what the former one had begun is let go first."""
        if role == self._role:
            return
        if isinstance(self._role, Leading) and isinstance(role, Leading | Following):
            self.set(Nobody())
        self._role = role
        for listener in self.on_change:
            listener(role)
