"""Three sidecars, one slice, and people who empty and delete it: random histories of what each hears, reads, patches,
with pauses between any two of these and answers that get lost. No older epoch ever stands over a newer one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from logherd_operator.keeper.decision import Heard, Keeper, Slice

_LEASE, _MARGIN, _AGAIN = 3.0, 1.1, 10.0


@dataclass
class World:
    """Who leads the brokers, which controller is confirmed, and the slice as the API server has it; None: deleted."""

    random: Random
    now: float = 0.0
    epoch: int = 1
    led: bool = True
    confirmed: int = 0
    slice: Slice | None = field(default_factory=lambda: Slice("1", 0, "", ""))
    version: int = 1
    troubled: bool = True

    @property
    def heard(self) -> Heard:
        return Heard(self.epoch, address(self.epoch) if self.led else "")

    def put(self, epoch: int, where: str, holder: str) -> Slice:
        self.version += 1
        self.slice = Slice(str(self.version), epoch, where, holder)
        return self.slice

    def happen(self) -> None:
        """Something, now and then: another leader, none, another controller, somebody's hand on the slice."""
        drawn = self.random.random()
        if drawn < 0.02:
            self.epoch, self.led = self.epoch + 1, True
        elif drawn < 0.03:
            self.led = False
        elif drawn < 0.06:
            self.confirmed = self.random.randrange(3)
        elif drawn < 0.07 and self.slice is not None:
            self.put(self.slice.epoch, "", self.slice.holder)
        elif drawn < 0.08:
            self.slice = None
        elif drawn < 0.12 and self.slice is None:
            self.put(0, "", "")  # the operator's work

    def lost(self) -> bool:
        return self.troubled and self.random.random() < 0.1


def address(epoch: int) -> str:
    return f"10.0.0.{epoch}"


def sidecar(world: World, number: int) -> Iterator[None]:
    """Rounds as `keeping.step` has them; whatever others do happens where it yields."""
    keeper = Keeper(f"c-{number}", _LEASE, world.now)
    while True:
        asked = world.now
        heard = world.heard if world.confirmed == number and not world.lost() else None
        yield
        keeper.heard(heard, asked)
        if keeper.needs_slice(world.now):
            read, lost = world.slice, world.lost()
            yield
            if lost:
                keeper.unread(world.now)
            elif read is None:
                keeper.missed(world.now)
            else:
                keeper.read(read, world.now)
        change = keeper.change(world.now, _MARGIN)
        yield
        if change is not None:
            stands = world.slice
            done = stands is not None and stands.version == change.version
            if done and stands is not None:
                assert change.epoch >= stands.epoch, "an older epoch over a newer one"
                assert change.address in ("", address(change.epoch)), "not the leader of that epoch"
                stands = world.put(change.epoch, change.address, f"c-{number}")
            yield
            if stands is None or not done or world.lost():
                keeper.forget()
            else:
                keeper.read(stands, world.now)
        yield


@pytest.mark.parametrize("seed", range(100))
def test_no_older_epoch_stands_over_a_newer_one_and_in_the_end_the_leader_is_there(seed: int) -> None:
    world = World(Random(seed))
    sidecars = [sidecar(world, number) for number in range(3)]
    for _ in range(150):
        chosen = world.random.choice(sidecars)  # the others stand still meanwhile
        for _ in range(world.random.randrange(1, 16)):
            world.happen()
            world.now += world.random.random() * 0.5
            next(chosen)
    world.troubled, world.led = False, True
    if world.slice is None:
        world.put(0, "", "")
    end = world.now + 3 * _AGAIN
    while world.now < end:
        for each in sidecars:
            next(each)
        world.now += 0.1
    assert world.slice is not None
    assert (world.slice.epoch, world.slice.address) == (world.epoch, address(world.epoch))
