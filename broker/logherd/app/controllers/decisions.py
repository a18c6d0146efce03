"""The controllers' replicated state as a Raft member applies it."""

from collections.abc import Callable

from logherd.controller.commands import Command, decode_command
from logherd.controller.machine import Machine
from logherd.controller.verdicts import Verdict
from logherd.raft.record import Record

__all__ = ["Decisions"]


class Decisions:
    """A `StateMachine` whose records are commands. The hooks hear of each one, on every controller."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.hooks: list[Callable[[Command, Verdict], None]] = []

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
