"""Founding and links together: whoever starts when, all end in one group."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from logherd.peers.founding import Found, Founding, Join, Lost
from logherd.peers.hello import Hello
from logherd.peers.identity import Identity
from unit.peers.fakes import CLUSTER, Node, hello_of, replica

NAMES = ("a", "b", "c")


class Founder(Node):
    """A node that carries out its steps in memory."""

    def __init__(self, name: str, incarnation: int = 1) -> None:
        super().__init__(hello_of(name, incarnation=incarnation, instance=incarnation, nodes=NAMES))
        self.founding = Founding(Identity(cluster=CLUSTER.name, replica=self.hello.sender), NAMES)
        self.steps: list[Found | Join] = []
        assert self.founding.start() is None

    def _on_hello(self, hello: Hello) -> None:
        super()._on_hello(hello)
        step = self.founding.heard(hello)
        assert not isinstance(step, Lost)
        if step is not None:
            self.steps.append(step)
            self.founding.kept()
            self.hello = replace(self.hello, founded=self.founding.founded)
            self.links.announce()


@pytest.mark.parametrize("seed", range(8))
async def test_nodes_that_start_at_any_time_found_one_group(seed: int) -> None:
    draw = Random(seed)
    made = [Founder(name) for name in NAMES]
    known = {name: node.address for name, node in zip(NAMES, made, strict=True)}
    try:
        for node in draw.sample(made, 3):
            await node.start({name: at for name, at in known.items() if at != node.address})
            for _ in range(draw.randrange(30)):
                await asyncio.sleep(0)
        for node in made:
            await node.until(lambda node=node: bool(node.steps))
            assert node.steps == [Found(tuple(replica(name) for name in NAMES))]
            await node.until(lambda node=node: len(node.linked) == 2)
    finally:
        for node in made:
            await node.stop()


async def test_a_wiped_node_of_a_founded_group_joins_it_as_a_stranger() -> None:
    made = [Founder(name) for name in NAMES]
    known = {name: node.address for name, node in zip(NAMES, made, strict=True)}
    wiped = Founder("a", incarnation=2)
    try:
        for node in made:
            await node.start({name: at for name, at in known.items() if at != node.address})
        for node in made:
            await node.until(lambda node=node: bool(node.steps))
        await made[0].stop()
        await wiped.start({name: known[name] for name in "bc"})
        await wiped.until(lambda: bool(wiped.steps))
        assert wiped.steps == [Join(tuple(replica(name) for name in NAMES), CLUSTER)]
    finally:
        for node in (wiped, *made):
            await node.stop()
