"""Random worlds: whatever leaders, links and clients do, what clients hear is true."""

from collections import Counter

import pytest

from unit.service.forwarding.world import World


@pytest.mark.parametrize("seed", range(150))
def test_h10_every_request_has_one_true_answer_and_nothing_is_carried_out_twice(seed: int) -> None:
    world = World(seed)
    for _ in range(1_000):
        world.step()
    world.end()
    world.judge()


def test_the_worlds_are_worth_something() -> None:
    """All endings occur, requests are sent again, and most get through."""
    codes: Counter[int] = Counter()
    again = 0
    for seed in range(20):
        world = World(seed)
        for _ in range(1_000):
            world.step()
        world.end()
        codes.update(world.heard.values())
        again += sum(count > 1 for count in world.transmitted.values())
    assert codes[0] > 1_000
    assert min(codes[1], codes[14], codes[215]) > 50
    assert again > 50
