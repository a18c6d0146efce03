"""A `Leadership` that is set from outside: of a broker without a group, which always leads, and of tests."""

from collections.abc import Callable

from logherd.service.forwarding.roles import Role

__all__ = ["SettableLeadership"]


class SettableLeadership:
    """Holds a role and tells of each change."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self.on_change: list[Callable[[Role], None]] = []

    @property
    def current(self) -> Role:
        return self._role

    @property
    def leased(self) -> bool:
        """It holds until it is set otherwise."""
        return False

    def confirm(self) -> None:
        """Nothing runs out."""

    def set(self, role: Role) -> None:
        """Take another role; everybody who listens has heard of it when this returns."""
        if role != self._role:
            self._role = role
            for listener in self.on_change:
                listener(role)
