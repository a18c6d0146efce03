"""A slave is given bytes only once the length of its own files is known, not that of another slave's."""

import asyncio
from typing import cast

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import bind
from logherd.app.classic import port as port_module
from logherd.app.classic.inquiry import SlaveInquiry
from logherd.app.classic.port import ClassicPort
from logherd.app.clock import SystemClock
from logherd.classic.frames import encode_report
from logherd.client.peers import Peers
from logherd.service.identity import BrokerIdentity
from logherd.settings.options import Endpoint
from logherd.telemetry.sparing import SparingLog
from unit.app.classic.test_following import LateClock, until
from unit.classic.logs import MemoryLog


class Registered:
    """As many slaves as are registered at the name service, all of them fit."""

    waits_for = "nobody knows it"

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    async def ask(self, connected: int) -> str | None:
        self.asked.append(connected)
        return None if self.count >= connected else ""


class Complaints:
    """Stands in for the port's SparingLog."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def warning(self, message: str, **fields: object) -> None:
        self.told.append((message, fields["reason"]))

    def info(self, message: str, **fields: object) -> None:
        pass

    def tell(self, *, ending: bool = False) -> None:
        pass


def test_a_slave_that_is_not_registered_yet_waits_though_another_one_is_known() -> None:
    """It may have its master's address from its settings, and so come before the name service has heard of it."""

    async def run() -> None:
        registered, guard = Registered(1), TaskGuard()
        port = ClassicPort(lambda: MemoryLog().fill(3), registered, now_ms=SystemClock().monotonic_ms)
        listening = bind(Endpoint(host="127.0.0.1", port=0), "here")
        await port.open(listening, guard)
        address, wires = listening.getsockname(), []
        for number in (1, 2):
            _, wire = await asyncio.open_connection(*address)
            wire.write(encode_report(0))
            wires.append(wire)
            await until(lambda number=number: registered.asked[-1:] == [number])
        await until(lambda: sorted(view.admitted for view in port.views()) == [False, True])
        registered.count = 2
        await until(lambda: all(view.admitted for view in port.views()))
        for wire in wires:
            wire.close()
        port.close()
        await guard.stop(5)

    asyncio.run(run())


def test_it_is_told_once_why_a_slave_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "_TICK_SECONDS", 0)

    async def run() -> None:
        clock, complaints, guard, registered = LateClock(), Complaints(), TaskGuard(), Registered(0)
        port = ClassicPort(lambda: MemoryLog().fill(3), registered, now_ms=clock.monotonic_ms)
        port.complaints = cast("SparingLog", complaints)
        listening = bind(Endpoint(host="127.0.0.1", port=0), "here")
        await port.open(listening, guard)
        _, wire = await asyncio.open_connection(*listening.getsockname())
        wire.write(encode_report(0))
        await until(lambda: len(registered.asked) > 2)
        assert complaints.told == []
        clock.late_ms = 6_000
        await until(lambda: bool(complaints.told))
        count = len(registered.asked)
        await until(lambda: len(registered.asked) > count + 2)
        assert complaints.told == [("slave waits", "nobody knows it")]
        wire.close()
        port.close()
        await guard.stop(5)

    asyncio.run(run())


def test_a_slave_that_does_not_answer_is_named() -> None:
    class Slaves(SlaveInquiry):
        async def _slaves(self) -> list[str]:
            return ["127.0.0.1:1"]

    async def run() -> None:
        peers, identity = Peers(), BrokerIdentity(cluster="C", name="g", address="127.0.0.1:2", broker_id=0)
        inquiry = Slaves(peers, identity, list, 1 << 20)
        assert await inquiry.ask(1) == ""
        assert inquiry.waits_for.startswith("slave 127.0.0.1:1 does not tell the length of its files: ")
        await peers.close()

    asyncio.run(run())


def test_a_connection_that_says_nothing_holds_up_no_slave() -> None:
    async def run() -> None:
        registered, guard = Registered(1), TaskGuard()
        port = ClassicPort(lambda: MemoryLog().fill(3), registered, now_ms=SystemClock().monotonic_ms)
        listening = bind(Endpoint(host="127.0.0.1", port=0), "here")
        await port.open(listening, guard)
        _, probe = await asyncio.open_connection(*listening.getsockname())
        await until(lambda: len(port.views()) == 1)
        _, wire = await asyncio.open_connection(*listening.getsockname())
        wire.write(encode_report(0))
        await until(lambda: [view.admitted for view in port.views() if view.sent is not None] == [True])
        assert registered.asked == [1]
        for each in (probe, wire):
            each.close()
        port.close()
        await guard.stop(5)

    asyncio.run(run())
