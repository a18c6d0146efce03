"""The load from inside a Raft leader keeps its window full and counts what it should."""

import asyncio
from collections.abc import Callable
from typing import Any

from bench.inside_load import InsideLoad, Wanted
from bench.node_protocol import OPERATION, PUT

from logherd.app.quorum.outcomes import Applied, Outcome, Uncertain
from logherd.model.names import Position


class Member:
    """Decides what it is told to, the oldest first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, Callable[[Outcome[Any]], None]]] = []
        self.most = 0

    def propose(self, body: bytes, then: Callable[[Outcome[Any]], None]) -> None:
        self.waiting.append((body, then))
        self.most = max(self.most, len(self.waiting))

    def decide(self, outcome: Outcome[Any]) -> bytes:
        body, then = self.waiting.pop(0)
        then(outcome)
        return body


async def test_a_window_stays_full_until_the_time_is_over_and_every_outcome_is_counted() -> None:
    member, told = Member(), list[dict[str, Any]]()
    InsideLoad(member, Wanted(window=3, size=10, warmupMs=0, measureMs=150), told.append)
    done = Applied(Position(1), (0, b""))
    bodies = [member.decide(done) for _ in range(20)]
    assert {body[: OPERATION.size] for body in bodies} == {OPERATION.pack(PUT, 8)}
    assert len(set(bodies)) == 20, "keys differ"
    assert (len(member.waiting), member.most, told) == (3, 3, [])
    member.decide(Uncertain())
    async with asyncio.timeout(10):
        while not told:
            member.decide(done)
            await asyncio.sleep(0)
    (figures,) = told
    assert (member.waiting, figures["failures"]) == ([], 1)
    assert figures["rate"] > 20 / 0.15
    assert 0 < figures["p50us"] <= figures["p99us"] <= figures["p999us"] <= figures["maxus"]


async def test_what_comes_while_it_warms_up_is_not_measured() -> None:
    member, told = Member(), list[dict[str, Any]]()
    InsideLoad(member, Wanted(window=1, size=1, warmupMs=60_000, measureMs=1), told.append)
    for _ in range(100):
        member.decide(Applied(Position(1), (0, b"")))
    assert (len(member.waiting), told) == (1, [])
