"""Networks that are cut and stay so: whoever is well enough is led again, without a hand from outside."""

from dataclasses import asdict, replace
from itertools import product

import pytest

from sim.groups.world import GroupWorld
from sim.leases.shape import draw_shape
from sim.plan import Plan

BEGINNING_US, LEASE_US, GIVEN_WAY_US = 5_000_000, 5_000_000, 35_000_000
FOREVER_US = 1 << 50


def calm_world(seed: int) -> GroupWorld:
    """Three controllers, three brokers and no fault, which have begun."""
    shape = replace(
        draw_shape(seed), kinds=("pause",), groups=1, controllers=3, brokers=3, learners=0, min_in_sync=2, loss=0.0,
        late=0.0, duplication=0.0, changing_leases=False, flush_us=500,
    )  # fmt: skip
    world = GroupWorld(Plan("groups", seed, {**asdict(shape), "kinds": list(shape.kinds)}, ()))
    world.run_until(BEGINNING_US)
    return world


def office_of(world: GroupWorld) -> str:
    return next(name for name, each in world.controllers.items() if each.office is not None)


def acknowledged(world: GroupWorld, wait_us: int) -> int:
    """How many records are acknowledged in the next `wait_us`."""
    (fate,) = world.observer.fates.values()
    before = fate.acknowledged
    world.run_until(world.now_us + wait_us)
    return fate.acknowledged - before


@pytest.mark.parametrize("deaf", [1, 2])
def test_a_controller_that_no_broker_reaches_does_not_lead_for_ever(deaf: int) -> None:
    """The other controllers hear it well, and send all brokers to it. Of three one or two may be like that."""
    world = calm_world(deaf)
    first = office_of(world)
    cut_off = [first, *(name for name in world.controllers if name != first)][:deaf]
    for controller, broker in product(cut_off, world.brokers):
        world.net.part(controller, broker, FOREVER_US)
    acknowledged(world, LEASE_US)
    assert acknowledged(world, LEASE_US) == 0
    assert acknowledged(world, deaf * GIVEN_WAY_US) > 0
    assert office_of(world) not in cut_off


def test_controllers_without_brokers_change_their_leader_now_and_then_only() -> None:
    """The way to them is not broken, they are gone."""
    world = calm_world(1)
    for broker in world.brokers.values():
        broker.retire()
    world.run_until(world.now_us + 600_000_000)
    assert world.marks.hits["unreached"] < 20
