"""A load on a Raft member from inside its own process: a window of proposals, none of which any client waits for."""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bench.node_protocol import OPERATION, PUT

from logherd.app.quorum.outcomes import Applied, Outcome
from logherd.client.report import Latency

__all__ = ["InsideLoad", "Proposer", "Wanted"]

_KEYS = 1000


class Proposer(Protocol):
    """The member's own way in."""

    def propose(self, body: bytes, then: Callable[[Outcome[Any]], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Proposals under way at a time, bytes of each value, and how long in ms."""

    window: int
    size: int
    warmupMs: int  # noqa: N815 -- as it is asked
    measureMs: int  # noqa: N815


class InsideLoad:
    """Each decided proposal is followed by the next one, until the time is over; then `then` gets the figures."""

    def __init__(self, node: Proposer, wanted: Wanted, then: Callable[[dict[str, Any]], None]) -> None:
        self._propose = node.propose
        self._then = then
        keys = (b"key-%04d" % number for number in range(_KEYS))
        self._bodies = [OPERATION.pack(PUT, len(key)) + key + bytes(wanted.size) for key in keys]
        self._begin = time.monotonic() + wanted.warmupMs / 1000
        self._end = self._begin + wanted.measureMs / 1000
        self._under_way = 0
        self._asked = 0
        self._failures = 0
        self._seconds = array("d")
        for _ in range(wanted.window):
            self._next()

    def _next(self) -> None:
        self._under_way += 1
        self._asked += 1
        proposed_at = time.monotonic()

        def decided(outcome: Outcome[Any]) -> None:
            now = time.monotonic()
            self._under_way -= 1
            if not isinstance(outcome, Applied):
                self._failures += 1
            elif self._begin <= now < self._end:
                self._seconds.append(now - proposed_at)
            if now < self._end:
                self._next()
            elif not self._under_way:
                self._then(self._figures())

        self._propose(self._bodies[self._asked % _KEYS], decided)

    def _figures(self) -> dict[str, Any]:
        latency = Latency.of(self._seconds)
        return {
            "rate": len(self._seconds) / (self._end - self._begin), "p50us": 1000 * latency.p50,
            "p99us": 1000 * latency.p99, "p999us": 1000 * latency.p999, "maxus": 1000 * latency.maximum,
            "failures": self._failures,
        }  # fmt: skip
