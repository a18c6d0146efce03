"""Counters of messages by topic and group, and their sums over the last minute, hour and day.

Counting is a few additions on an object found with one dictionary look-up, because it happens for every send and pull.
Windows have boundaries: every 10 s for the minute, 10 min for the hour, 1 h for the day; a window's sum is what the
counter was at the newest boundary less what it was at the oldest. Broker rates come from samples once a second, for the
last 10, 60 and 600 s.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/stats/StatsItem.java
Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/StoreStatsService.java
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["BrokerStats", "DayTotals", "PullCalls", "StatsView", "Window"]

_SECOND_MS = 1_000
_DAY_MS = 86_400_000
_RATE_SPANS_S: Final = (10, 60, 600)
_PERIODS_MS: Final = (10 * _SECOND_MS, 600 * _SECOND_MS, 3_600 * _SECOND_MS)
_SAMPLES: Final = (7, 7, 25)


class Window(NamedTuple):
    """Sum of a counter over a window, per second, and per call that counted."""

    sum: int = 0
    per_second: float = 0.0
    per_call: float = 0.0


class StatsView(NamedTuple):
    minute: Window
    hour: Window
    day: Window


class _Sample(NamedTuple):
    at_ms: int
    value: int
    calls: int
    size: int


class _Counter:
    """A growing number of messages, calls and bytes, with what it was at past boundaries.

    A sample is taken only when the counter moves for the first time after a boundary; until the next sample the counter
    stood still. So ten thousand idle topics cost nothing while time passes.
    """

    __slots__ = ("calls", "created_ms", "epoch", "samples", "size", "value")

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.value = 0
        self.calls = 0
        self.size = 0
        self.epoch = epoch
        self.created_ms = now_ms
        start = _Sample(now_ms, 0, 0, 0)
        self.samples = ([start], [start], [start])

    def roll(self, epoch: int, boundaries: Iterable[int]) -> None:
        """Remember what the counter was at the newest boundary of each window."""
        self.epoch = epoch
        for samples, boundary_ms, kept in zip(self.samples, boundaries, _SAMPLES, strict=True):
            if samples[-1].at_ms < boundary_ms:
                samples.append(_Sample(boundary_ms, self.value, self.calls, self.size))
                del samples[:-kept]

    def at(self, period: int, boundary_ms: int) -> _Sample:
        """What the counter was at a boundary."""
        for sample in self.samples[period]:
            if sample.at_ms >= boundary_ms:
                return sample
        return _Sample(boundary_ms, self.value, self.calls, self.size)


class DayTotals(NamedTuple):
    """Messages counted since start: up to the last two midnights (UTC) and up to now."""

    yesterday_morning: int
    today_morning: int
    now: int


class PullCalls(NamedTuple):
    """Pulls since start that found messages at once, and that did not."""

    found: int
    missed: int


class _Rates(NamedTuple):
    at_ms: int
    put: int
    found: int
    missed: int
    transferred: int


_VIEWS: Final = {
    "TOPIC_PUT_NUMS": ("put", False), "TOPIC_PUT_SIZE": ("put", True),
    "GROUP_GET_NUMS": ("get", False), "GROUP_GET_SIZE": ("get", True),
}  # fmt: skip


class BrokerStats:
    """All counters of one broker. Owned by the loop thread; nothing here blocks or is durable.

    Counters of a topic or group live until `forget_topic` or `forget_group`: the metadata bounds their number.
    """

    def __init__(self, *, now_ms: int, wall_ms: int) -> None:
        self._now_ms = now_ms
        self._put: dict[str, _Counter] = {}
        self._get: dict[tuple[str, str], _Counter] = {}
        self._calls_found = 0
        self._calls_missed = 0
        self._epoch = 0
        self._totals = (_Counter(0, now_ms), _Counter(0, now_ms))
        self._rates: deque[_Rates] = deque([_Rates(now_ms, 0, 0, 0, 0)], maxlen=_RATE_SPANS_S[-1] + 1)
        self._boundaries = tuple(deque([now_ms], maxlen=length) for length in _SAMPLES)
        self._day = wall_ms // _DAY_MS
        self._mornings = [(0, 0), (0, 0)]

    # -- counting, on the hot path

    def count_put(self, topic: str, messages: int, size: int, requests: int = 1) -> None:
        """`messages` of together `size` bytes were appended to a topic by this many requests."""
        counter = self._put.get(topic)
        if counter is None:
            counter = self._put[topic] = _Counter(self._epoch, self._now_ms)
        total = self._totals[0]
        if counter.epoch != self._epoch or total.epoch != self._epoch:
            self._roll(counter)
            self._roll(total)
        counter.value += messages
        counter.size += size
        counter.calls += requests
        total.value += messages
        total.size += size
        total.calls += requests

    def count_get(self, group: str, topic: str, messages: int, size: int) -> None:
        """One pull of a group took `messages` of together `size` bytes; 0 if it found none."""
        if messages:
            counter = self._get.get((topic, group))
            if counter is None:
                counter = self._get[topic, group] = _Counter(self._epoch, self._now_ms)
            self._count(counter, messages, size)
        self.count_read(messages, size)

    def count_read(self, messages: int, size: int) -> None:
        """The same for no group in particular: a follower that answers pulls does not hear when a group is deleted."""
        if not messages:
            self._calls_missed += 1
            return
        self._calls_found += 1
        self._count(self._totals[1], messages, size)

    def _count(self, counter: _Counter, messages: int, size: int) -> None:
        self._roll(counter)
        counter.value += messages
        counter.size += size
        counter.calls += 1

    def _roll(self, counter: _Counter) -> None:
        if counter.epoch != self._epoch:
            counter.roll(self._epoch, [boundaries[-1] for boundaries in self._boundaries])

    # -- time

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Set the boundaries that are due. Call it about once a second; late calls lose precision, not counts."""
        self._now_ms = now_ms
        put, get = self._totals
        if now_ms - self._rates[-1].at_ms >= _SECOND_MS:
            self._rates.append(_Rates(now_ms, put.value, self._calls_found, self._calls_missed, get.value))
        for period, length_ms in enumerate(_PERIODS_MS):
            if now_ms - self._boundaries[period][-1] >= length_ms:
                self._boundaries[period].append(now_ms)
                self._epoch += 1
        day = wall_ms // _DAY_MS
        if day > self._day:
            self._day = day
            self._mornings = [self._mornings[1], (put.value, get.value)]

    # -- questions

    def view(self, name: str, key: str, *, cluster: str) -> StatsView | None:
        """The windows of one named statistic; None if it has never counted. `cluster` is the key of broker totals."""
        if name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"):
            return self._view(self._totals[name == "BROKER_GET_NUMS"]) if key == cluster else None
        kind, bytes_ = _VIEWS.get(name, ("", False))
        if kind == "put":
            counter = self._put.get(key)
        elif kind == "get":
            topic, _, group = key.partition("@")
            counter = self._get.get((topic, group))
        else:
            return None
        return None if counter is None else self._view(counter, bytes_=bytes_)

    def put_rate(self, topic: str) -> float:
        """Messages per second that were sent to a topic over the last minute."""
        counter = self._put.get(topic)
        return self._window(counter, 0).per_second if counter else 0.0

    def consume_rate(self, group: str, topic: str) -> float:
        """Messages per second that a group took from a topic over the last minute."""
        counter = self._get.get((topic, group))
        return self._window(counter, 0).per_second if counter else 0.0

    def put_totals(self) -> DayTotals:
        return DayTotals(self._mornings[0][0], self._mornings[1][0], self._totals[0].value)

    def get_totals(self) -> DayTotals:
        return DayTotals(self._mornings[0][1], self._mornings[1][1], self._totals[1].value)

    @property
    def put_calls(self) -> int:
        return self._totals[0].calls

    @property
    def put_bytes(self) -> int:
        return self._totals[0].size

    @property
    def get_bytes(self) -> int:
        return self._totals[1].size

    @property
    def pulls(self) -> PullCalls:
        return PullCalls(self._calls_found, self._calls_missed)

    def rates(self, field: str) -> tuple[float, float, float]:
        """Per second over the last 10, 60 and 600 s. `field` is put, found, missed or transferred.

        Until a span has passed its rate is over the time since start, as in RocketMQ.
        """
        last = self._rates[-1]
        found = []
        for span in _RATE_SPANS_S:
            first = self._rates[max(0, len(self._rates) - 1 - span)]
            elapsed_ms = last.at_ms - first.at_ms
            found.append((getattr(last, field) - getattr(first, field)) * 1000 / elapsed_ms if elapsed_ms else 0.0)
        return found[0], found[1], found[2]

    # -- forgetting

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a deleted topic."""
        self._put.pop(topic, None)
        for key in [key for key in self._get if key[0] == topic]:
            del self._get[key]

    def forget_group(self, group: str) -> None:
        """Drop the counters of a deleted group."""
        for key in [key for key in self._get if key[1] == group]:
            del self._get[key]

    # -- inside

    def _view(self, counter: _Counter, *, bytes_: bool = False) -> StatsView:
        return StatsView(*(self._window(counter, period, bytes_=bytes_) for period in range(len(_SAMPLES))))

    def _window(self, counter: _Counter, period: int, *, bytes_: bool = False) -> Window:
        boundaries = self._boundaries[period]
        first_ms, last_ms = max(boundaries[0], counter.created_ms), boundaries[-1]
        if last_ms <= first_ms:
            return Window()
        first, last = counter.at(period, first_ms), counter.at(period, last_ms)
        total = last.size - first.size if bytes_ else last.value - first.value
        calls = last.calls - first.calls
        return Window(total, total * 1000 / (last_ms - first_ms), total / calls if calls else 0.0)
