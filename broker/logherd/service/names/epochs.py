"""Which leadership of a broker name is the newest, so that an old leader cannot take its routes back.

The epoch is known from what leaders say when they register and, in a controller's process, from what was decided there.
It outlives the leader's entry: a broker that slept through its own replacement is refused. What was decided is known
for good, and so is an epoch of static mode, where nothing but its group stops a leader that was replaced. Any other one
is forgotten when nobody has stood for it for a while: its former leaders have no lease any more, and who told it may
have been no leader at all, or of a group that was taken down and begins anew under the same name.

Brokers that know no epochs, RocketMQ's and those that are alone in their group, are refused only while a leader with an
epoch holds their name.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from logherd.group.table import table_number
from logherd.kit.errors import LogHerdError
from logherd.model.names import Epoch

__all__ = ["MEMORY_MS", "Epochs", "Expected", "KnownGroups", "RegistrationError", "Superseded"]

NAMES_MAX: Final = 100_000
"""Most broker names whose epoch is remembered here; what the controllers decided is not counted."""
MEMORY_MS: Final = 300_000
"""How long after its leader's last registration: each registers every 30 s, and is out of routes after 120 s."""


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


class _Told(NamedTuple):
    epoch: int
    at_ms: int


class Epochs:
    """The highest epoch of each broker name. Invariant: it never falls while it is remembered."""

    def __init__(self, groups: KnownGroups) -> None:
        self._groups = groups
        self._told: dict[tuple[str, str], _Told] = {}

    def of(self, cluster: str, name: str, now_ms: int) -> int:
        """0 if none is known."""
        decided = self._groups.epoch(cluster, name)
        told = self._told.get((cluster, name))
        if told is None or (self._ends(told, decided) and now_ms - told.at_ms > MEMORY_MS):
            return decided
        return max(told.epoch, decided)

    def tell(self, cluster: str, name: str, epoch: int, now_ms: int) -> None:
        """A leader registered in this epoch. If there are too many names, the one heard of longest ago is forgotten."""
        epoch = max(self.of(cluster, name, now_ms), epoch)
        self._told.pop((cluster, name), None)
        if len(self._told) >= NAMES_MAX:
            del self._told[next(iter(self._told))]
        self._told[cluster, name] = _Told(epoch, now_ms)

    def refuse_superseded(
        self, cluster: str, name: str, offered: int | None, now_ms: int, *, leader: str | None, leader_epoch: int | None
    ) -> None:
        """`leader` and `leader_epoch` are what routes name now. Raises: Superseded."""
        known = max(self.of(cluster, name, now_ms), leader_epoch or 0)
        over = leader_epoch is not None if offered is None else offered < known
        if over:
            raise Superseded(name, offered=offered, epoch=known, leader=leader)

    @staticmethod
    def _ends(told: _Told, decided: int) -> bool:
        """Whether it is of a mode in which a leadership ends with its lease: only one by roles has none."""
        return decided > 0 or table_number(Epoch(told.epoch)) == 0
