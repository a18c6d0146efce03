"""What the observer remembers of a group whose controllers have gone on from an older state, until its next election.

Who was in sync by the record may lack what was acknowledged since. Nothing is promised while nobody can show that: the
run ends without a verdict, as `Forgiven`. Once a broker has registered whose log is of a later leadership than the
latest on record, nothing is lost that no operator gives up, and no epoch is led twice.
"""

from logherd.controller.commands import Clean, Command, Configure, Elect, Grounds, Register, SetLearner
from logherd.controller.values import Group

__all__ = ["Doubt", "Forgiven"]


class Forgiven(Exception):
    """From here on the product promises nothing about this group. The text says why."""


class Doubt:
    """`standing`: whether decisions are lost, and nobody was elected since. `accepted`: elections in which an operator
    accepts loss; also these are in an epoch that nobody has begun."""

    def __init__(self) -> None:
        self.standing = False
        self.accepted: set[Elect] = set()
        self._told_us = -1
        self._excused = False
        self._since_us = 0

    def told(self, now_us: int) -> None:
        """Somebody may have lost something, or changes place: if that is forgotten, nothing can be promised."""
        self._told_us = now_us

    @property
    def more_lost(self) -> bool:
        """Whether somebody has lost something since the controllers have, and said so."""
        return self._told_us > self._since_us

    def note(self, command: object, now_us: int) -> None:
        """A command is done: whether it tells of such a thing."""
        if isinstance(command, (SetLearner, Configure, Clean)) or (
            isinstance(command, Register) and not command.trusted
        ):
            self.told(now_us)

    def begin(self, *, lost: bool, since_us: int, now_us: int) -> None:
        """The state of that moment is what the controllers know of this group from now on."""
        self._since_us = now_us
        self.standing = self.standing or lost
        self._excused = self._told_us >= since_us

    def settle(self, before: Group | None, command: Command) -> None:
        """Somebody is elected. Raises: Forgiven."""
        if not self.standing:
            return
        self.standing = False
        if not isinstance(command, Elect) or command in self.accepted:
            return
        if self._excused:
            raise Forgiven("that somebody was not to be trusted is forgotten, too")
        if command.grounds is Grounds.FIRST:
            if self.more_lost:
                raise Forgiven("of a group that is not known anybody may lose what he has")
        elif not _shown(before):
            raise Forgiven("nobody could show that decisions are lost")


def _shown(group: Group | None) -> bool:
    """Whether a log has been registered of a later leadership than the latest on record."""
    tenure = group.tenure if group is not None else None
    return group is not None and tenure is not None and any(each.end.epoch > tenure.epoch for each in group.replicas)
