"""Which leadership of a broker name is the newest, so that an old leader cannot take its routes back.

The epoch is known from what leaders say when they register and, in a controller's process, from what was decided there.
It outlives the leader's entry: a broker that slept through its own replacement is refused however late it comes.
Brokers that know no epochs, RocketMQ's and those that are alone in their group, are refused only while a leader with an
epoch holds their name.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from logherd.kit.errors import LogHerdError

__all__ = ["Epochs", "Expected", "KnownGroups", "RegistrationError", "Superseded"]

NAMES_MAX: Final = 100_000
"""Most broker names whose epoch is remembered here; what the controllers decided is not counted."""


class RegistrationError(LogHerdError):
    """The broker may not register like this; the message says why. Nothing was changed."""


class Superseded(RegistrationError):
    """A leader whose epoch is over; `leader` is the address that routes name now, if any."""

    def __init__(self, name: str, *, offered: int | None, epoch: int, leader: str | None) -> None:
        told = f"epoch {offered}" if offered is not None else "a registration without epoch"
        led = f", led by {leader}" if leader else ""
        super().__init__(f"{told} of {name} is refused: epoch {epoch} is known{led}")
        self.offered = offered or 0
        self.epoch = epoch
        self.leader = leader


class KnownGroups(Protocol):
    """The broker groups that are known from elsewhere than their registrations."""

    def names(self) -> Collection[str]:
        """Those that have had a leader, whose registration is waited for after a start."""

    def epoch(self, cluster: str, name: str) -> int:
        """The latest epoch that was decided; 0 for an unknown group."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Groups of which only the names are known."""

    group_names: tuple[str, ...] = ()

    def names(self) -> Collection[str]:
        return self.group_names

    def epoch(self, _cluster: str, _name: str) -> int:
        return 0


class Epochs:
    """The highest epoch of each broker name. Invariant: it never falls while it is remembered."""

    def __init__(self, groups: KnownGroups) -> None:
        self._groups = groups
        self._told: dict[str, int] = {}

    def of(self, cluster: str, name: str) -> int:
        """0 if none is known."""
        return max(self._told.get(name, 0), self._groups.epoch(cluster, name))

    def tell(self, name: str, epoch: int) -> None:
        """A leader registered in this epoch. If there are too many names, the one heard of longest ago is forgotten."""
        epoch = max(self._told.pop(name, 0), epoch)
        if len(self._told) >= NAMES_MAX:
            del self._told[next(iter(self._told))]
        self._told[name] = epoch

    def refuse_superseded(
        self, cluster: str, name: str, offered: int | None, *, leader: str | None, leader_epoch: int | None
    ) -> None:
        """`leader` and `leader_epoch` are what routes name now. Raises: Superseded."""
        known = self.of(cluster, name)
        over = leader_epoch is not None if offered is None else offered < known
        if over:
            raise Superseded(name, offered=offered, epoch=known, leader=leader)
