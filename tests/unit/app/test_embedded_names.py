"""The name service in a broker's own process, which anybody can reach who reaches the broker."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app import names as room
from logherd.app.clock import SystemClock
from logherd.app.guarded.relay import RelayPort
from logherd.app.names import EmbeddedNames, Names
from logherd.model.topic import Permission
from logherd.net.limits import NetLimits
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names.epochs import Expected
from logherd.service.names.registration import Registrar
from logherd.service.names.routes import Registration, TableVersion
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd_guardian.proxy import GREETING, proxy_header
from unit.service.client_fakes import FakeClock
from unit.service.memory_log import MemoryLog

CLOCK = SystemClock()
ME = BrokerIdentity("C", "g", 0, "10.0.0.1:10911")
LED = BrokerIdentity("C", "led", 0, "10.0.0.3:10911")


def another_of_my_id(names: EmbeddedNames) -> None:
    newer = TableVersion(state_version=1 << 40)
    names.routes.register(
        Registration(ME._replace(address="10.6.6.6:1"), {}, newer, session_id=1), CLOCK.monotonic_ms()
    )


def my_name_in_another_cluster(names: EmbeddedNames) -> None:
    names.routes.unregister(ME)
    names.routes.register(
        Registration(ME._replace(cluster="D"), {}, TableVersion(), session_id=1), CLOCK.monotonic_ms()
    )


@pytest.mark.parametrize("taken", [another_of_my_id, my_name_in_another_cluster])
async def test_whoever_takes_the_brokers_name_does_not_end_it(
    taken: Callable[[EmbeddedNames], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is believed, as by RocketMQ's name service; the broker may have it back when the other one is gone."""
    monkeypatch.setattr(room, "_TICK_SECONDS", 0)
    ended: list[TaskEnded] = []
    guard, listening = TaskGuard(on_end=ended.append), socket.create_server(("127.0.0.1", 0))
    names = EmbeddedNames.prepare(
        listening, CLOCK, key_values_path=tmp_path / "names.json", groups=Expected(("g",)), limits=NetLimits()
    )
    names.attach(ME, Metadata.open(MemoryLog(), CLOCK), CLOCK)
    await names.join(guard)
    try:
        taken(names)
        for _ in range(20):
            await asyncio.sleep(0)
        names.set_permission(Permission.READ)
        names.lead(1)
        assert ended == []
        names.routes.session_closed(1, CLOCK.monotonic_ms())
        async with asyncio.timeout(20):
            while "g" not in names.routes.brokers():
                await asyncio.sleep(0)
        assert names.routes.brokers()["g"].addresses == {0: ME.address}
    finally:
        await guard.stop(5)
        await names.stop()


def test_brokers_are_not_taken_for_silent_when_the_name_service_itself_stood_still() -> None:
    clock = FakeClock()
    names = Names(clock, key_values_path=None)

    def pass_by(seconds: int) -> list[str]:
        for _ in range(seconds // 5):
            clock.advance(5_000)
            names.tick()
        return list(names.routes.brokers())

    def register(broker: BrokerIdentity, session: int) -> None:
        names.routes.register(Registration(broker, {}, TableVersion(), session_id=session), clock.monotonic_ms())

    register(ME, 1)
    register(ME._replace(name="h", address="10.0.0.2:10911"), 2)
    clock.advance(300_000)
    names.tick()
    assert list(names.routes.brokers()) == ["g", "h"]
    assert pass_by(15) == ["g", "h"]
    names.routes.register(Registration(LED, {}, TableVersion(), session_id=3, epoch=1), clock.monotonic_ms())
    names.routes.session_closed(3, clock.monotonic_ms())
    assert pass_by(10) == ["g", "h"], "a leader whose connection has ended goes as ever"
    register(ME, 1)
    assert pass_by(5) == ["g"], "the other one did not register again in the time for it"
    assert pass_by(110) == ["g"]
    assert pass_by(10) == []


@asynccontextmanager
async def brought(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedNames, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A name service, and a connection that the guardian of another one has brought."""
    guard, listening = TaskGuard(), socket.create_server(("127.0.0.1", 0))
    names = EmbeddedNames.prepare(
        listening, CLOCK, key_values_path=tmp_path / "names.json", groups=Expected(), limits=NetLimits()
    )
    await names.join(guard)
    relaying = socket.create_server(("127.0.0.1", 0))
    relaying.setblocking(False)  # noqa: FBT003
    at = await RelayPort(names.servers).open(relaying)
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        assert await reader.readexactly(len(GREETING)) == GREETING
        writer.write(proxy_header(("10.1.2.3", 40_000), ("10.0.0.9", 9876), "names"))
        yield names, reader, writer
    finally:
        writer.close()
        await guard.stop(5)
        await names.stop()


async def answers(reader: asyncio.StreamReader) -> list[Frame]:
    """All there are until the connection ends."""
    async with asyncio.timeout(10):
        return list(FrameReader().feed(await reader.read()))


async def test_a_registration_that_was_meant_for_another_name_service_is_refused_and_its_connection_ended(
    tmp_path: Path,
) -> None:
    """As long as it stood, the other one would not hear of the broker, and tell its clients that there is none."""
    request = Registrar(ME, Metadata.open(MemoryLog(), CLOCK), ha_address="").register()
    assert request is not None
    route = Frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 1)
    register = Frame(int(request.code), 2, ext=encode_header(request.header), body=request.body)
    async with brought(tmp_path) as (names, reader, writer):
        writer.write(encode_frame(route) + encode_frame(register) + encode_frame(route))
        asked, refused = await answers(reader)
        assert (asked.code, refused.code) == (0, ResponseCode.SYSTEM_ERROR)
        assert refused.remark == "this is another name service, which clients ask meanwhile; try again"
        assert names.routes.brokers() == {}


async def test_clients_that_were_brought_are_answered_while_they_want(tmp_path: Path) -> None:
    route = Frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 1)
    async with brought(tmp_path) as (_, reader, writer):
        frames = FrameReader()
        for _ in range(2):
            writer.write(encode_frame(route))
            async with asyncio.timeout(10):
                [answer] = frames.feed(await reader.read(65536))
            assert answer.code == 0


async def test_stock_tools_read_the_settings_of_a_name_service(tmp_path: Path) -> None:
    """They fail at an answer without a body, and send back what they read."""
    async with brought(tmp_path) as (_, reader, writer):
        frames = FrameReader()
        answered = []
        for number, code in enumerate((RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG)):
            writer.write(encode_frame(Frame(code, number, body=answered[0].body if answered else b"")))
            async with asyncio.timeout(10):
                answered += frames.feed(await reader.read(65536))
        told, taken = answered
        assert b"orderMessageEnable=false\n" in told.body
        assert b"waitSecondsForService=3\n" in told.body
        assert taken.code == 0
        change = Frame(RequestCode.UPDATE_NAMESRV_CONFIG, 3, body=b"orderMessageEnable=true")
        writer.write(encode_frame(change))
        async with asyncio.timeout(10):
            [refused] = frames.feed(await reader.read(65536))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert refused.remark == "orderMessageEnable is false and is fixed while the process runs"


async def test_how_many_lines_were_left_out_is_told_in_time_and_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    names = EmbeddedNames.prepare(
        socket.create_server(("127.0.0.1", 0)), clock, key_values_path=tmp_path / "names.json", groups=Expected(),
        limits=NetLimits(),
    )  # fmt: skip
    complaints = names._names.dispatcher._complaints
    for _ in range(12):
        complaints.warning("complaint")
    clock.advance(60_000)
    names._names.tick()
    assert caplog.messages.count("complaint") == 11
    for _ in range(12):
        complaints.warning("complaint")
    await names.stop()
    assert caplog.messages.count("complaint") == 22
