"""The relay port: what comes through it is an ordinary connection with the client's address, or soon none."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from logherd.app.binding import CannotListen
from logherd.app.guarded.relay import RelayPort, _Reception, open_relay
from logherd.net.limits import AdmissionLimits, NetLimits
from logherd.net.server import Server
from logherd.settings.options import Endpoint, GuardianOptions
from logherd_guardian.proxy import GREETING, proxy_header
from unit.net.fakes import FakeTransport, Lines, Recorder, request

CLIENT = ("10.1.2.3", 40_000)
HERE = ("127.0.0.1", 10_911)
LONG = 3600.0


class House:
    """Two servers and the port in front of them."""

    def __init__(self, limits: NetLimits, waiting_max: int, seconds: float) -> None:
        self.remoting = Recorder(answer_at_once=True)
        self.names = Recorder(answer_at_once=True)
        self.servers = {
            "remoting": Server(self.remoting, limits, log=Lines()),
            "names": Server(self.names, limits, log=Lines()),
        }
        self.port = RelayPort(self.servers, waiting_max=waiting_max, seconds=seconds)
        self.address = Endpoint(host="", port=0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port)

    async def greeted(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        async with asyncio.timeout(10):
            assert await reader.readexactly(len(GREETING)) == GREETING
        return reader, writer


@asynccontextmanager
async def house(
    limits: NetLimits | None = None, *, waiting_max: int = 8, seconds: float = LONG
) -> AsyncIterator[House]:  # fmt: skip
    made = House(limits or NetLimits(), waiting_max, seconds)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)  # noqa: FBT003
    made.address = await made.port.open(listening)
    try:
        yield made
    finally:
        for server in made.servers.values():
            await server.stop(2)


async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What still comes, once the other side has closed."""
    async with asyncio.timeout(10):
        try:
            data = await reader.read()
        except ConnectionError:
            data = b""
    writer.close()
    return data


async def answered(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(10):
        return bool(await reader.read(65536))


@pytest.mark.parametrize("name", ["remoting", "names"])
async def test_a_client_is_served_by_whom_it_connected_to_under_its_own_address(name: str) -> None:
    async with house() as made:
        reader, writer = await made.greeted()
        writer.write(proxy_header(CLIENT, HERE, name) + request(1))
        assert await answered(reader)
        session = (made.remoting if name == "remoting" else made.names).opened[0]
        assert (session.remote_ip, session.remote_port) == CLIENT
        assert session.remote_host[:4] == bytes([10, 1, 2, 3])
        assert (made.servers["remoting"].connections, made.servers["names"].connections) == (
            (1, 0) if name == "remoting" else (0, 1)
        )
        writer.write(request(2))
        assert await answered(reader)
        writer.close()


async def test_the_header_may_come_in_pieces_and_the_request_later() -> None:
    async with house() as made:
        reader, writer = await made.greeted()
        for byte in proxy_header(("2001:db8::1", 7), ("::1", 1), "remoting"):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(request(1))
        assert await answered(reader)
        assert made.remoting.opened[0].remote_ip == "2001:db8::1"
        writer.close()


async def test_a_guardian_that_cannot_tell_stands_for_its_client() -> None:
    async with house() as made:
        reader, writer = await made.greeted()
        writer.write(proxy_header(("", 1), ("", 2), "remoting") + request(1))
        assert await answered(reader)
        own = writer.get_extra_info("sockname")
        assert (made.remoting.opened[0].remote_ip, made.remoting.opened[0].remote_port) == own[:2]
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        request(1),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIX\n",
        proxy_header(CLIENT, HERE, "admin"),
        proxy_header(CLIENT, HERE, "remoting") [:14] + b"\xff\xff" + bytes(100_000),
    ],
    ids=["a frame", "http", "another signature", "a socket that nobody serves", "an endless header"],
)  # fmt: skip
async def test_hostile_bytes_end_the_connection_and_reach_no_server(sent: bytes) -> None:
    async with house() as made:
        reader, writer = await made.greeted()
        writer.write(sent)
        assert await ended(reader, writer) == b""
        assert made.remoting.opened == made.names.opened == []


async def test_whoever_says_nothing_is_ended_in_time() -> None:
    async with house(seconds=0.05) as made:
        reader, writer = await made.greeted()
        writer.write(proxy_header(CLIENT, HERE, "remoting")[:-1])
        assert await ended(reader, writer) == b""
        assert made.remoting.opened == []


async def test_only_so_many_may_wait_and_who_is_served_waits_no_more() -> None:
    async with house(waiting_max=2) as made:
        first, second = await made.greeted(), await made.greeted()
        refused = await made.connect()
        assert await ended(*refused) == b""
        first[1].write(proxy_header(CLIENT, HERE, "remoting") + request(1))
        assert await answered(first[0])
        third = await made.greeted()
        second[1].close()
        for each in (first, third):
            each[1].close()


async def test_the_limit_for_one_address_counts_the_clients_own() -> None:
    limits = NetLimits(admission=AdmissionLimits(connections_per_address_max=1))
    async with house(limits) as made:
        first, again, other = [await made.greeted() for _ in range(3)]
        first[1].write(proxy_header(CLIENT, HERE, "remoting") + request(1))
        assert await answered(first[0])
        again[1].write(proxy_header(CLIENT, HERE, "remoting") + request(1))
        assert await ended(*again) == b""
        other[1].write(proxy_header(("10.1.2.4", 1), HERE, "remoting") + request(1))
        assert await answered(other[0])
        for each in (first, other):
            each[1].close()


async def test_when_a_server_stops_nobody_is_greeted_any_more() -> None:
    async with house() as made:
        waiting = await made.greeted()
        await made.servers["remoting"].stop(2)
        assert await ended(*waiting) == b""
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await made.connect()


async def test_who_had_come_before_the_port_closed_and_is_noticed_after_is_not_greeted() -> None:
    async with house() as made:
        late = _Reception(made.port)
        made.port.close()
        wire = FakeTransport()
        late.connection_made(wire)
        assert (wire.writes, wire.aborted) == ([], True)


async def test_how_many_refusals_were_not_told_is_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async with house() as made:
        for _ in range(12):
            made.port.complaints.warning("refused")
    assert caplog.messages.count("refused") == 11


async def test_the_settings_decide_whether_there_is_a_port() -> None:
    def options(relay: Endpoint | None) -> GuardianOptions:
        return GuardianOptions(relay_listen=relay, peers=(), state_file=None, stop_ms=1000)

    servers = {"remoting": Server(Recorder(), log=Lines())}
    assert await open_relay(options(None), servers) == {}
    bound = await open_relay(options(Endpoint(host="127.0.0.1", port=0)), servers)
    host, _, port = bound["relay"].rpartition(":")
    taken = Endpoint(host=host, port=int(port))
    with pytest.raises(CannotListen, match=f"guardian.relayListen {taken}: Address already in use"):
        await open_relay(options(taken), servers)
    await servers["remoting"].stop(1)
