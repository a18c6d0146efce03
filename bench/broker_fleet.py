"""Thousands of brokers as a controller sees them: registrations, heartbeats at their times, answers, and nothing else.

Many brokers share a connection; the members of a group are on different ones. A heartbeat's bytes are made once for
each broker, with its number as the opaque, so that the load costs the machine little.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from struct import Struct
from typing import cast

from logherd.controller.commands import Register
from logherd.controller.reports import Report
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.net.connection import Connection, connect
from logherd.service.controllers.asking import Asking, Joined, heartbeat, joined, registering
from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header

__all__ = ["Broker", "Fleet", "FleetSize"]

_LENGTHS = Struct(">II")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CODE = re.compile(rb'"code":(\d+)')
_MASTER = re.compile(rb'"masterAddress":"b(\d+)\.')
_NOTICE = b'"code":%d,' % RequestCode.NOTIFY_BROKER_ROLE_CHANGED
_LEASE = b'"logherdLeaseMs"'
_STEP_SECONDS = 0.005
_REGISTER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """So many groups of so many brokers, each sending a heartbeat every `interval_ms`, over `connections`."""

    groups: int = 1_000
    brokers: int = 10
    connections: int = 100
    interval_ms: int = 1_000


@dataclass(slots=True)
class Broker:
    """`granted` and `answered` are times (s) of the latest lease and answer; 0 before the first."""

    number: int
    group: int
    frame: bytes = b""
    alive: bool = True
    sent: float = 0.0
    answered: float = 0.0
    granted: float = 0.0


@dataclass(slots=True)
class Tally:
    """What has come back since the last `clear`."""

    answers: int = 0
    leases: int = 0
    refused: int = 0
    notices: int = 0
    latencies: list[float] = field(default_factory=list)

    def clear(self) -> None:
        self.answers = self.leases = self.refused = self.notices = 0
        self.latencies.clear()


class Fleet:
    """All brokers of all groups, at one controller, which must be the leader. Belongs to its loop."""

    def __init__(self, size: FleetSize, host: str, port: int) -> None:
        self._size = size
        self._address = (host, port)
        self._lanes: list[_Lane] = []
        self._task: asyncio.Task[None] | None = None
        count = size.groups * size.brokers
        self.brokers = [Broker(number, number // size.brokers) for number in range(count)]
        self.tally = Tally()
        self.on_lease: Callable[[Broker], None] = lambda broker: None

    async def register(self) -> float:
        """Register every broker, some at a time on each connection; the seconds that it took."""
        begun = time.monotonic()
        links = [await connect(*self._address) for _ in range(self._size.connections)]
        async with asyncio.TaskGroup() as group:
            for number, link in enumerate(links):
                group.create_task(self._register_some(link, self.brokers[number :: self._size.connections]))
        for link in links:
            await link.close()
        return time.monotonic() - begun

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Begin to send heartbeats, each broker at its own time within the interval."""
        loop = asyncio.get_running_loop()
        for _ in range(self._size.connections):
            _, lane = await loop.create_connection(lambda: _Lane(self), *self._address)
            self._lanes.append(lane)
        self._task = group.create_task(self._beat(), name="heartbeats")

    def stop(self) -> None:
        """Send nothing more."""
        if self._task is not None:
            self._task.cancel()
        for lane in self._lanes:
            lane.close()

    def masters(self) -> list[Broker]:
        """Who was granted a lease with its latest heartbeat."""
        return [broker for broker in self.brokers if broker.granted and broker.granted == broker.answered]

    async def _register_some(self, link: Connection, brokers: list[Broker]) -> None:
        for broker in brokers:
            key, broker_id = self._place(broker)
            wish = Register(
                group=key, broker_id=broker_id, store_id=f"store-{broker.number}", incarnation=f"run-{broker.number}",
                address=_address(broker), rules=Rules(replicas=self._size.brokers, min_in_sync=1),
            )  # fmt: skip
            answer = joined(await link.call(_frame(registering(wish)), seconds=_REGISTER_SECONDS))
            if not isinstance(answer, Joined):
                raise TypeError(f"broker {broker.number} was not registered: {answer}")
            report = Report(
                group=key, broker_id=broker_id, registration=Registration(answer.registration), address=_address(broker)
            )
            broker.frame = encode_frame(_frame(heartbeat(report), opaque=broker.number))

    def _place(self, broker: Broker) -> tuple[GroupKey, BrokerId]:
        return GroupKey("bench", f"group-{broker.group}"), BrokerId(1 + broker.number % self._size.brokers)

    async def _beat(self) -> None:
        """Send whatever is due, every 5 ms; all of one connection in one write."""
        interval = self._size.interval_ms / 1000
        order = list(self.brokers)
        Random(1).shuffle(order)
        begun, at, count = time.monotonic(), 0, len(order)
        while True:
            due = int((time.monotonic() - begun) / interval * count)
            while at < due:
                self.send(order[at % count])
                at += 1
            for lane in self._lanes:
                lane.flush()
            await asyncio.sleep(_STEP_SECONDS)

    def send(self, broker: Broker) -> None:
        """Queue one heartbeat, if the broker lives."""
        if broker.alive:
            broker.sent = time.monotonic()
            self._lanes[broker.number % len(self._lanes)].waiting.append(broker.frame)

    def answered(self, number: int, code: int, *, lease: bool) -> None:
        """A heartbeat's answer."""
        broker, tally, now = self.brokers[number], self.tally, time.monotonic()
        broker.answered = now
        tally.answers += 1
        tally.refused += code != 0
        tally.latencies.append(now - broker.sent)
        if lease:
            tally.leases += 1
            broker.granted = now
            self.on_lease(broker)

    def noticed(self, master: int | None, lane: "_Lane") -> None:
        """1008 on a connection: if it names a master that speaks there, that one asks at once."""
        self.tally.notices += 1
        if master is not None and self._lanes[master % len(self._lanes)] is lane:
            self.send(self.brokers[master])
            lane.flush()


class _Lane(asyncio.Protocol):
    """One connection. Answers are not decoded but searched for what is counted."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._transport: asyncio.WriteTransport | None = None
        self._partial = b""
        self.waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def flush(self) -> None:
        if self.waiting and self._transport is not None:
            self._transport.write(b"".join(self.waiting))
            self.waiting.clear()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        data = self._partial + data
        at, end = 0, len(data)
        while end - at >= _LENGTHS.size:
            length, marker = _LENGTHS.unpack_from(data, at)
            stop = at + 4 + length
            if stop > end:
                break
            self._take(data[at + 8 : at + 8 + (marker & 0xFFFFFF)])
            at = stop
        self._partial = data[at:]

    def _take(self, header: bytes) -> None:
        if _NOTICE in header:
            master = _MASTER.search(header)
            self._fleet.noticed(int(master[1]) if master else None, self)
            return
        opaque, code = _OPAQUE.search(header), _CODE.search(header)
        if opaque is not None and code is not None:
            self._fleet.answered(int(opaque[1]), int(code[1]), lease=_LEASE in header)


def _address(broker: Broker) -> str:
    return f"b{broker.number}.bench:10911"


def _frame(asking: Asking, opaque: int = 0) -> Frame:
    return Frame(int(asking.code), opaque, ext=encode_header(asking.header), body=asking.body)
