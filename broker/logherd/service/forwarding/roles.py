"""Who leads the group, as far as this broker knows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Following", "Leadership", "Leading", "Nobody", "Role"]


@dataclass(frozen=True, slots=True)
class Leading:
    """This broker leads and may carry out requests: its barrier is committed and its lease valid."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Following:
    """Another broker leads in `epoch` and is reached at "host:port"."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Nobody:
    """No leader is known, or this broker leads no more and hands over: whatever needs a leader waits."""


Role = Leading | Following | Nobody


class Leadership(Protocol):
    """What the group's machine tells. `on_change` hears each new role, on the loop thread, after `current` shows it."""

    on_change: list[Callable[[Role], None]]

    @property
    def current(self) -> Role: ...

    @property
    def leased(self) -> bool:
        """Whether `Leading` holds only for a time: then `confirm` is called before each request is taken."""

    def confirm(self) -> None:
        """Take notice of the time: a lease that is over ends the role before this returns (R1)."""
