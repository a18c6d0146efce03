"""The controllers' replicated state as a Raft member applies it."""

from collections.abc import Callable, Collection

from logherd.app.quorum.outcomes import ReadAt, ReadOutcome
from logherd.controller.commands import Command, decode_command
from logherd.controller.machine import Machine
from logherd.controller.values import GroupKey
from logherd.controller.verdicts import Verdict
from logherd.raft.record import Record

__all__ = ["DecidedGroups", "Decisions"]


class DecidedGroups:
    """The broker groups as this controller's name service knows them from its state, which may be behind.

    A controller that starts has the state of its last image, in which the newest groups may be missing.
    """

    def __init__(self, machine: Callable[[], Machine]) -> None:
        self._machine = machine
        self._whole = False
        self._asked = False

    def look(self, read: Callable[[Callable[[ReadOutcome], None]], None]) -> None:
        """Find out whether the state has everything that was decided before this start. To be called again and again;
        `read` tells when the state holds what is committed now, and is called no more once it did."""
        if not self._whole and not self._asked:
            self._asked = True
            read(self._told)

    def names(self) -> Collection[str]:
        """Groups that have had a leader and still have brokers; none while some may not be known."""
        if not self._whole:
            return ()
        return tuple(group.key.name for group in self._machine() if group.epoch > 0 and group.replicas)

    def epoch(self, cluster: str, name: str) -> int:
        """The epoch of the last election; 0 for an unknown group, and for one that was cleaned: nobody leads it any
        more, and there may be one of its name in a mode in which controllers decide nothing."""
        group = self._machine().group(GroupKey(cluster, name))
        return 0 if group is None or not group.replicas else int(group.epoch)

    def _told(self, outcome: ReadOutcome) -> None:
        self._asked = False
        self._whole = isinstance(outcome, ReadAt)


class Decisions:
    """A `StateMachine` whose records are commands. The hooks hear of each one, on every controller."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.hooks: list[Callable[[Command, Verdict], None]] = []
        self.known_groups = DecidedGroups(lambda: self.machine)

    def apply(self, record: Record) -> Verdict:
        """Take the next command. Raises: CommandError if this program cannot read it; the member must stop then."""
        command = decode_command(record.body)
        verdict = self.machine.apply(command)
        for hook in self.hooks:
            hook(command, verdict)
        return verdict

    def save(self) -> bytes:
        """The image of the state."""
        return self.machine.save()

    def load(self, data: bytes) -> None:
        """Become what an image says. Raises: ImageError."""
        self.machine = Machine.load(data) if data else Machine()
