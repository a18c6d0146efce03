"""One life of a guardian's child, as its machine sees it."""

import signal
from collections.abc import Sequence
from itertools import combinations

from logherd_guardian.events import Action, Asked, Event, Kill, Report, Say, Spawn, Spawned, Superseded, Take, Tick
from logherd_guardian.machine import Duties, Machine
from logherd_guardian.page import Identity, Page

__all__ = ["STOP_MS", "TERM", "TICK", "WHO", "Life", "known"]

WHO = Identity(cluster="c", group="g", broker_id=1, store_id="s")
STOP_MS = 5_000
TERM = Asked(signal.SIGTERM, stop=True)
TICK = 200


class Life:
    """A machine, its clock, and what it said to do (without what it said to people)."""

    def __init__(self, *, reports: bool = True, passes: bool = False) -> None:
        self.now = 1_000_000
        self.machine = Machine(Duties(stop_ms=STOP_MS, reports=reports, passes=passes), self.now)
        self.said: list[str] = []
        self.spawned = 0

    def __call__(self, event: Event, after: int = 0) -> list[Action]:
        self.now += after
        actions = self.machine.step(event, self.now)
        behind = [isinstance(later, Kill | Report) for each, later in combinations(actions, 2) if isinstance(each, Say)]
        assert not any(behind), "what is said may wait for a disk, and the group for what is done"
        self.said += [action.text for action in actions if isinstance(action, Say)]
        return [action for action in actions if not isinstance(action, Say)]

    def spawn(self) -> str:
        """Tick until the child is wanted, and give it."""
        actions: Sequence[Action] = ()
        for _ in range(1_000):
            actions = self(Tick(), TICK)
            if Spawn() in actions:
                break
        assert Spawn() in actions
        self.spawned += 1
        name = f"{self.spawned:032x}"
        assert self(Spawned(name)) == []
        return name

    def serve(self, **page: object) -> str:
        """A child that is registered and serves."""
        name = self.spawn()
        assert self(Tick(known(**page))) == [Superseded(), Take(on=False)]
        return name

    def wait(self, page: Page | None, milliseconds: int) -> list[Action]:
        return [action for _ in range(0, milliseconds, TICK) for action in self(Tick(page), TICK)]


def known(**fields: object) -> Page:
    return Page(**{"identity": WHO, "registered": True, "ready": True, **fields})  # type: ignore[arg-type]
