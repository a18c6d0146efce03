"""A stock Java producer with default settings at an even pace, and what came of every one of its sends."""

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from checkers.client_log import stranded_requests
from compat.driver import Driver

__all__ = [
    "Difference", "JavaSend", "SteadyConsumer", "SteadyProducer", "compare", "longest_gap", "stranded", "unexcused",
]  # fmt: skip

_MICROS = 1_000_000
_WAITED_SECONDS = 2.9
"""A send has three; the client takes a little of it for itself."""
_WAIT_SECONDS = 60.0

Stored = Mapping[tuple[str, int], tuple[int, Sequence[tuple[int, str]]]]


@dataclass(frozen=True, slots=True)
class JavaSend:
    """One call of `send`. Times are seconds since 1970; `fault` is empty if it was stored, at (queue, offset)."""

    value: str
    invoked: float
    returned: float
    fault: str
    queue: int = -1
    offset: int = -1

    @property
    def ok(self) -> bool:
        return not self.fault


class SteadyProducer:
    """Use as a context manager: it sends from entering to leaving."""

    def __init__(
        self,
        driver: Driver,
        name_servers: str,
        topic: str,
        *,
        name: str,
        threads: int = 4,
        per_second: int = 200,
        patience: float = _WAIT_SECONDS,
    ) -> None:
        """`name`, another for each that runs in one driver, is what its messages' bodies begin with; `patience`:
        seconds in which something should be stored.
        """
        self._driver = driver
        self._patience = patience
        self._args = {
            "nameServer": name_servers, "topic": topic, "group": f"{topic}-producers", "name": name,
            "threads": threads, "perSecond": per_second,
        }  # fmt: skip
        self.sends: list[JavaSend] = []

    def __enter__(self) -> "SteadyProducer":
        self._driver.call("steady.start", **self._args)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take("steady.stop")

    def _take(self, call: str) -> None:
        self.sends += [_send(row) for row in self._driver.call(call, name=self._args["name"])]

    def wait_for(self, count: int, *, since: float) -> None:
        """Wait until so many sends that began after `since` were stored. Raises AssertionError with the last faults."""
        deadline = time.monotonic() + self._patience
        while True:
            self._take("steady.take")
            ended = itertools.takewhile(lambda send: send.returned > since, reversed(self.sends))
            late = [send for send in ended if send.invoked > since]
            if sum(send.ok for send in late) >= count:
                return
            faults = Counter(send.fault for send in late)
            assert time.monotonic() < deadline, f"not {count} sends stored: {faults.most_common(5)}"
            time.sleep(0.05)


class SteadyConsumer:
    """A stock Java push consumer with default settings, from entering to leaving, of a topic that is there."""

    def __init__(self, driver: Driver, name_servers: str, topic: str, *, name: str) -> None:
        self._driver = driver
        self._name = name
        self._args = {"nameServer": name_servers, "topic": topic, "group": f"{topic}-consumers", "brief": True}
        self.arrivals: dict[str, float] = {}
        """When each value came first, in seconds since 1970."""

    def __enter__(self) -> "SteadyConsumer":
        self._driver.call("consumer.push", name=self._name, **self._args)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.call("consumer.stop", name=self._name)

    def wait_for(self, values: Iterable[str], seconds: float = 90.0) -> None:
        """Wait until all of them have come. Raises: AssertionError with some that have not."""
        deadline = time.monotonic() + seconds
        left = set(values)
        while True:
            for value, micros in self._driver.call("consumer.arrivals", name=self._name):
                self.arrivals.setdefault(value, micros / _MICROS)
            left -= self.arrivals.keys()
            if not left:
                return
            assert time.monotonic() < deadline, f"{len(left)} were not consumed: {sorted(left)[:5]}"
            time.sleep(0.05)


def _send(row: Sequence[Any]) -> JavaSend:
    value, invoked, returned, fault, *place = row
    return JavaSend(value, invoked / _MICROS, returned / _MICROS, fault, *place)


def longest_gap(sends: Iterable[JavaSend], begin: float, end: float) -> float:
    """Seconds between two successes one after the other, the longest of those that reach into begin .. end."""
    times = sorted(send.returned for send in sends if send.ok)
    return max(
        (later - earlier for earlier, later in itertools.pairwise(times) if later > begin and earlier < end),
        default=end - begin,
    )


def stranded(driver: Driver) -> int:
    """How many requests its clients have left waiting on connections that they knew had ended, by their log so far."""
    log = driver.home / "logs" / "rocketmqlogs" / "remoting.log"
    return stranded_requests(log.read_text(errors="replace"))


def unexcused(failed: Iterable[JavaSend], left: int) -> list[JavaSend]:
    """Of failed sends those that are not the client's own doing: it says that it left so many requests waiting for
    their whole time-out."""
    waited, others = list[JavaSend](), list[JavaSend]()
    for send in failed:
        (waited if send.returned - send.invoked >= _WAITED_SECONDS else others).append(send)
    return others + waited[left:]


@dataclass(frozen=True, slots=True)
class Difference:
    """What was acknowledged beside what is stored. A repeated value is no fault: the client sends again by itself."""

    lost: tuple[JavaSend, ...]
    foreign: tuple[str, ...]
    repeated: int

    @property
    def clean(self) -> bool:
        return not self.lost and not self.foreign


def compare(topic: str, sends: Sequence[JavaSend], stored: Stored) -> Difference:
    """`lost`: answered with a place where something else, or nothing, is. `foreign`: stored and sent by nobody."""
    at = {(queue, offset): value for (_, queue), (_, entries) in stored.items() for offset, value in entries}
    lost = tuple(send for send in sends if send.ok and at.get((send.queue, send.offset)) != send.value)
    known = {send.value for send in sends}
    counts = Counter(at.values())
    foreign = tuple(value for value in counts if value not in known)
    return Difference(lost, foreign, sum(count - 1 for count in counts.values()))
