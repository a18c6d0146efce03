"""The slaves' port: whom it takes, and what it says of the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import bind
from logherd.app.classic.port import ClassicPort
from logherd.app.clock import SystemClock
from logherd.classic.frames import encode_report
from logherd.settings.options import Endpoint
from unit.app.classic.test_following import until
from unit.app.classic.test_slaves_known import Registered
from unit.classic.logs import MemoryLog


class Never:
    """A name service that does not answer."""

    waits_for = ""

    async def ask(self, connected: int) -> str | None:
        del connected
        await asyncio.Event().wait()
        return None


class Slaves:
    """Connections to a port; `guard` has its tasks."""

    def __init__(self, port: ClassicPort, guard: TaskGuard, address: tuple[str, int]) -> None:
        self.port = port
        self.guard = guard
        self.address = address
        self.wires: list[asyncio.StreamWriter] = []

    async def dial(self, said: bytes = b"") -> asyncio.StreamReader:
        reader, wire = await asyncio.open_connection(*self.address)
        self.wires.append(wire)
        wire.write(said)
        return reader

    @property
    def reported(self) -> int:
        return sum(view.sent is not None for view in self.port.views())


@asynccontextmanager
async def opened(inquiry: Registered | Never) -> AsyncIterator[Slaves]:
    guard, log = TaskGuard(), MemoryLog().fill(3)
    port = ClassicPort(lambda: log, inquiry, now_ms=SystemClock().monotonic_ms)
    listening = bind(Endpoint(host="127.0.0.1", port=0), "here")
    await port.open(listening, guard)
    slaves = Slaves(port, guard, listening.getsockname())
    try:
        yield slaves
    finally:
        for wire in slaves.wires:
            wire.close()
        port.close()
        await guard.stop(5)


async def end_of(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        async with asyncio.timeout(10):
            while await reader.read(1 << 16):
                pass


async def test_connections_that_say_nothing_keep_no_slave_out() -> None:
    async with opened(Registered(1)) as slaves:
        silent = [await slaves.dial() for _ in range(30)]
        for each in silent[:22]:
            await end_of(each)
        assert len(slaves.port.views()) == 8
        slave = await slaves.dial(encode_report(0))
        assert await slave.read(1)
        await end_of(silent[22])
        for _ in range(30):
            await slaves.dial()
        assert await slave.read(1), "nor does any take its place"
        assert (len(slaves.port.views()), slaves.reported) == (8, 1)


async def test_where_slaves_have_all_places_another_one_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(Registered(8)) as slaves:
        known = [await slaves.dial(encode_report(0)) for _ in range(8)]
        for each in known:
            assert await each.read(1)
        await end_of(await slaves.dial(encode_report(0)))
        assert slaves.reported == 8
        assert caplog.records[-1].__dict__["fields"]["reason"] == "too many are connected"


async def test_what_is_no_slave_holds_up_none() -> None:
    """A scan of ports says what would be a position far behind the log."""
    async with opened(registered := Registered(0)) as slaves:
        scan = await slaves.dial(b"SSH-2.0-Go\r\n")
        await end_of(scan)
        registered.count = 1
        slave = await slaves.dial(encode_report(0))
        assert await slave.read(1)


async def test_nobody_asks_any_more_about_a_slave_that_has_left() -> None:
    async with opened(Never()) as slaves:
        ticks = len(slaves.guard)
        for _ in range(20):
            await slaves.dial(encode_report(0))
            await until(lambda: slaves.reported == 1)
            slaves.wires.pop().close()
            await until(lambda: not slaves.port.views())
        await until(lambda: len(slaves.guard) == ticks)


async def test_slaves_that_come_and_go_fill_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with opened(Registered(1)) as slaves:
        for _ in range(40):
            await end_of(await slaves.dial(b"\xff" * 8))
            await slaves.dial(encode_report(0))
            await until(lambda: slaves.reported == 1)
            slaves.wires.pop().close()
            await until(lambda: not slaves.port.views())
    lines = [record.getMessage() for record in caplog.records]
    assert {line: lines.count(line) for line in lines} == {
        "slave refused": 11, "slave connected": 11, "slave left": 11
    }  # fmt: skip


def test_the_end_tells_how_many_refused_slaves_were_not_named(caplog: pytest.LogCaptureFixture) -> None:
    port = ClassicPort(MemoryLog, Registered(1), now_ms=lambda: 0)
    for number in range(25):
        port.complaints.warning("slave refused", remote=f"h:{number}", reason="too many are connected")
    port.close()
    port.close()
    told = [record.__dict__["fields"] for record in caplog.records]
    assert told[10:] == [{"reason": "too many are connected", "left_out": 15, "seconds": 0}]
