"""Following over real sockets, from a master that the test writes; and the port for slaves, with a slave like that."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import bind
from logherd.app.classic import following as following_module
from logherd.app.classic import port as port_module
from logherd.app.classic.following import Following
from logherd.app.classic.foreign_log import ForeignLog
from logherd.app.classic.inquiry import SlaveInquiry
from logherd.app.classic.port import ClassicPort
from logherd.app.classic.side_files import SideFiles
from logherd.app.clock import SystemClock
from logherd.classic.frames import TransferReader, encode_head, encode_report
from logherd.classic.slave_feed import CommittedLog, SlaveOptions
from logherd.client.peers import Peers
from logherd.model.record import encode_blank
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.identity import BrokerIdentity
from logherd.settings.load import load_broker_options
from logherd.settings.options import Endpoint
from logherd.store import QueueLog
from logherd.store.files_os import OsFiles
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import KVTable, MemberGroup, MemberGroupAnswer
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from unit.app.classic.test_promotion import config
from unit.classic.logs import MemoryLog
from unit.store.bare import bare_record

SEGMENT = 8 << 20
CLOCK = SystemClock()


class FakeMaster:
    """Answers as a RocketMQ broker, and sends its log from where it is told."""

    def __init__(self) -> None:
        self.log = b""
        self.count = 0
        self.begin = 0
        """What lies before was deleted: it is neither told of nor sent."""
        self.settings = {
            "brokerName": "g", "brokerClusterName": "DefaultCluster", "brokerRole": "ASYNC_MASTER",
            "mappedFileSizeCommitLog": str(SEGMENT),
        }  # fmt: skip
        self.extent: dict[str, str] | None = None
        self.files = config("T")
        self.asked = 0
        """How often for its topics."""
        self.reports: list[int] = []
        self.address = ""
        self.wires: set[asyncio.StreamWriter] = set()

    def grow(self, count: int, *, body: bytes = b"b" * 100) -> None:
        for _ in range(count):
            self.log += bare_record(len(self.log), queue_offset=self.count, body=body)
            self.count += 1

    def on_open(self, session: NetSession) -> None:
        pass

    def on_close(self, session: NetSession) -> None:
        pass

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        files = self.files
        here = {"commitLogMinOffset": str(self.begin), "commitLogMaxOffset": str(len(self.log))}
        bodies = {
            26: "".join(f"{name}={value}\n" for name, value in self.settings.items()).encode(),
            28: encode_body(KVTable(table=self.extent or here)),
            21: files["topics.json"].encode(), 201: files["subscriptionGroup.json"].encode(),
            43: files["consumerOffset.json"].encode(), 45: files["delayOffset.json"].encode(),
        }  # fmt: skip
        for frame in frames:
            self.asked += frame.code == 21
            session.send_answer(frame, Frame(0, frame.opaque, flag=Flag.RESPONSE, body=bodies[frame.code]))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.wires.add(writer)
        sent = -1
        try:
            while data := await reader.read(8):
                self.reports.append(int.from_bytes(data))
                sent = max(sent, self.reports[-1])
                while self.begin <= sent < len(self.log):
                    part = self.log[sent : sent + 500]
                    writer.write(encode_head(sent, len(part)) + part)
                    sent += len(part)
        finally:
            self.wires.discard(writer)
            writer.close()

    async def drop(self) -> None:
        for wire in tuple(self.wires):
            wire.close()
            await wire.wait_closed()


@asynccontextmanager
async def running_master(made: FakeMaster | None = None) -> AsyncIterator[FakeMaster]:
    master = made or FakeMaster()
    server = Server(master)
    host, port = await server.listen("127.0.0.1", 0)
    transfer = await asyncio.start_server(master.serve, "127.0.0.1", 0)
    master.address = f"{host}:{port}"
    master.settings["haListenPort"] = str(transfer.sockets[0].getsockname()[1])
    try:
        yield master
    finally:
        transfer.close()
        await master.drop()
        await transfer.wait_closed()
        await server.stop(0)


@asynccontextmanager
async def running_follower(
    directory: Path, master: FakeMaster, *, clock: SystemClock = CLOCK
) -> AsyncIterator[Following]:
    path = directory / "broker.yaml"
    path.write_text(
        f"brokerGroup: g\ndataDir: {directory / 'store'}\nstore: {{segmentSize: 8MiB, reservedPercent: 0}}\n"
        f"replication: {{classicHa: {{master: '{master.address}', metadataInterval: 100ms}}}}\n"
    )
    failures: list[BaseException] = []
    follower = Following(load_broker_options(path), clock, on_failure=failures.append)
    follower.start()
    try:
        yield follower
    finally:
        await follower.close(orderly=True, seconds=5)
    assert failures == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def has_all(follower: Following, master: FakeMaster) -> bool:
    return follower.log is not None and follower.log.store.committed_position == len(master.log)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(following_module, "_REFUSED_SECONDS", 0.01)


def test_a_follower_goes_on_after_lost_connections_and_after_its_own_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_master() as master:
            master.grow(30)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))
                await until(lambda: master.reports[-1] == len(master.log))
                master.grow(30)
                await master.drop()
                await until(lambda: has_all(follower, master))
                await until(lambda: follower.follows and follower.progress.metadata_ms > 0)
            master.grow(30)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))
                assert follower.log is not None
                assert follower.log.store.committed_bytes(0, 1 << 20) == master.log
        pulled = SideFiles(OsFiles(), tmp_path / "store").pulled()
        assert pulled is not None
        assert pulled.files == config("T")

    asyncio.run(run())


def test_a_master_whose_log_is_another_is_not_followed_and_nothing_is_appended(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_master() as master:
            master.grow(30)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))
        async with running_master() as other:
            other.grow(25)
            other.grow(10, body=b"c" * 100)
            async with running_follower(tmp_path, other) as follower:
                await until(lambda: follower.progress.state == "refused")
                assert "differs at position" in follower.progress.reason
                assert not follower.follows
                assert follower.log is not None
                assert follower.log.store.end_position == len(master.log)
                other.log = other.log[: len(bare_record(0)) * 25]
                await until(lambda: "lost its end in a crash" in follower.progress.reason and
                            "log ends at" in follower.progress.reason)  # fmt: skip

    asyncio.run(run())


def test_a_log_goes_on_though_the_master_has_deleted_the_file_before(tmp_path: Path) -> None:
    """Who is asked for what was deleted is silent for ever."""

    async def run() -> None:
        async with running_master() as master:
            master.grow(8, body=b"b" * 1_000_000)
            left = SEGMENT - len(master.log)
            master.log += encode_blank(left).ljust(left, b"\0")
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))
            master.begin = SEGMENT
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: "nothing is left to compare" in follower.progress.reason)
                master.begin = 0
                master.grow(3)
                await until(lambda: has_all(follower, master))
            master.begin = SEGMENT
            master.grow(3)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))

    asyncio.run(run())


class LateClock(SystemClock):
    """Its monotonic time may jump, as where a process was stopped."""

    late_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.late_ms


def test_a_disk_that_takes_long_does_not_make_a_follower_deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush that outlasts the patience with a silent master: nothing was read meanwhile, and then the flush ends."""
    clock, committed = LateClock(), ForeignLog._committed

    def slow(log: ForeignLog, touched: list[QueueLog], position: int) -> None:
        clock.late_ms = 25_000
        committed(log, touched, position)

    monkeypatch.setattr(ForeignLog, "_committed", slow)
    monkeypatch.setattr(following_module, "_STEP_SECONDS", 0.01)

    async def run() -> None:
        async with running_master() as master:
            master.grow(30)
            async with running_follower(tmp_path, master, clock=clock) as follower:
                await until(lambda: has_all(follower, master))
                assert clock.late_ms
                master.grow(30)
                await until(lambda: has_all(follower, master) and follower.follows)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("brokerName", "h", "is a broker of DefaultCluster/h, not of DefaultCluster/g"),
        ("brokerRole", "SLAVE", "is a slave itself"),
        ("enableControllerMode", "true", "does not speak the classic HA protocol"),
        ("mappedFileSizeCommitLog", "1073741824", "store.segmentSize is 8388608, set it to that"),
        ("haListenPort", None, "does not tell haListenPort"),
        ("haListenPort", "70000", "haListenPort=70000"),
        ("mappedFileSizeCommitLog", "none", "invalid literal"),
    ],
)
def test_a_master_that_cannot_be_followed_is_refused_by_name(
    tmp_path: Path, name: str, value: str | None, told: str
) -> None:
    async def run() -> None:
        async with running_master() as master:
            if value is None:
                del master.settings[name]
            else:
                master.settings[name] = value
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: told in follower.progress.reason)
                assert follower.log is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        ("0", "1" + 30 * "0", "has its log from 0 to 1"),
        ("16777216", "8388608", "has its log from 16777216 to 8388608"),
        ("100", "8388608", "begins at 100, where none of its files can"),
        ("-1", "-8", "has its log from 0 to -8"),
        ("x", "8388608", "invalid literal"),
    ],
)
def test_positions_that_no_log_has_are_not_gone_by(tmp_path: Path, begin: str, end: str, told: str) -> None:
    async def run() -> None:
        async with running_master() as master:
            master.extent = {"commitLogMinOffset": begin, "commitLogMaxOffset": end}
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: told in follower.progress.reason or follower.log is not None)
                assert follower.log is None

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "[]"])
def test_metadata_that_is_none_leaves_what_was_taken_and_the_log_goes_on(tmp_path: Path, text: str) -> None:
    async def run() -> None:
        async with running_master() as master:
            master.grow(3)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: follower.progress.metadata_ms > 0)
                master.files = {**config("T"), "topics.json": text}
                asked = master.asked
                await until(lambda: master.asked > asked + 2)
                assert SideFiles(OsFiles(), tmp_path / "store").pulled() is not None
                master.grow(3)
                await master.drop()
                await until(lambda: has_all(follower, master))
                pulled = SideFiles(OsFiles(), tmp_path / "store").pulled()
                assert pulled is not None
                assert pulled.files == config("T")

    asyncio.run(run())


class Verdict:
    """What the inquiry of a port says; may be changed."""

    waits_for = ""

    def __init__(self, said: str | None) -> None:
        self.said = said

    async def ask(self, connected: int) -> str | None:
        del connected
        return self.said


def test_a_name_service_that_is_down_keeps_no_slave_from_being_admitted() -> None:
    class Names(FakeMaster):
        """Also the name service that knows it as a slave."""

        def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
            for frame in frames:
                if frame.code != RequestCode.GET_BROKER_MEMBER_GROUP:
                    super().on_frames(session, [frame])
                    continue
                group = MemberGroup(cluster="DefaultCluster", broker_name="g", addresses={1: self.address})
                body = encode_body(MemberGroupAnswer(group=group))
                session.send_answer(frame, Frame(0, frame.opaque, flag=Flag.RESPONSE, body=body))

    async def run() -> None:
        names = Names()
        names.settings["haListenPort"] = "10912"
        server = Server(names)
        host, port = await server.listen("127.0.0.1", 0)
        names.address = f"{host}:{port}"
        peers = Peers()
        identity = BrokerIdentity(cluster="DefaultCluster", name="g", address="127.0.0.1:1", broker_id=0)
        inquiry = SlaveInquiry(peers, identity, lambda: ["127.0.0.1:1", names.address], SEGMENT)
        assert await inquiry.ask(1) is None
        assert (await inquiry.ask(2), "knows 1 of" in inquiry.waits_for) == ("", True)
        await peers.close()
        await server.stop(0)

    asyncio.run(run())


class Zeros:
    """A log that is larger than what the kernel takes."""

    min_position = 0
    committed_position = durable_position = 32 << 20

    def committed_bytes(self, position: int, bytes_max: int) -> bytes:
        return bytes(min(bytes_max, self.committed_position - position))


@asynccontextmanager
async def connected(
    log: CommittedLog,
    verdict: Verdict,
    *,
    leads: Callable[[], bool] = lambda: True,
    clock: SystemClock = CLOCK,
    options: SlaveOptions | None = None,
) -> AsyncIterator[tuple[ClassicPort, asyncio.StreamReader]]:
    """A port, and a slave with an empty log that has reported."""
    guard = TaskGuard()
    port = ClassicPort(lambda: log, verdict, now_ms=clock.monotonic_ms, leads=leads, options=options)
    listening = bind(Endpoint(host="127.0.0.1", port=0), "here")
    await port.open(listening, guard)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(encode_report(0))
    try:
        yield port, reader
    finally:
        writer.close()
        port.close()
        await guard.stop(5)


def test_a_slave_on_the_port_gets_the_log_and_what_is_committed_later() -> None:
    async def run() -> None:
        log = MemoryLog().fill(20)
        async with connected(log, Verdict(None)) as (port, reader):
            transfer, data = TransferReader(), b""
            while len(data) < len(log.data):
                data += b"".join(piece.data for piece in transfer.feed(await reader.read(1 << 16)))
            assert data == log.data
            log.fill(5)
            port.committed()
            while len(data) < len(log.data):
                data += b"".join(piece.data for piece in transfer.feed(await reader.read(1 << 16)))
            assert data == log.data
            assert [(view.admitted, view.sent) for view in port.views()] == [(True, log.end)]

    asyncio.run(run())


def test_a_slave_is_taken_only_by_who_leads_and_sent_away_by_who_leads_no_more() -> None:
    async def run() -> None:
        leads = [False]
        async with connected(MemoryLog().fill(3), Verdict(None), leads=lambda: leads[0]) as (port, reader):
            with suppress(ConnectionResetError):
                assert await reader.read(1) == b""
            assert port.views() == []
        leads[0] = True
        async with connected(MemoryLog().fill(3), Verdict(None), leads=lambda: leads[0]) as (port, reader):
            assert await reader.read(1)
            leads[0] = False
            port.committed()
            with suppress(ConnectionResetError):
                while await reader.read(1 << 16):
                    pass
            assert port.views() == []

    asyncio.run(run())


def test_a_slave_waits_until_it_is_known_and_leaves_if_it_is_unfit() -> None:
    async def run() -> None:
        verdict = Verdict("")
        async with connected(MemoryLog().fill(3), verdict) as (port, reader):
            await until(lambda: [view.sent for view in port.views()] == [0])
            assert not port.views()[0].admitted
            verdict.said = "its files have another length"
            assert await reader.read(1) == b""
            await until(lambda: port.views() == [])

    asyncio.run(run())


def test_a_slave_that_hangs_keeps_its_place_no_longer_than_it_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel takes no more, and so never what is left to be sent before the end."""
    clock = LateClock()
    monkeypatch.setattr(port_module, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(port_module, "_PARTING_SECONDS", 0.01)

    async def run() -> None:
        options = SlaveOptions(chunk_bytes=1 << 20, window_bytes=32 << 20)
        async with connected(Zeros(), Verdict(None), clock=clock, options=options) as (port, _):  # who reads a little
            await until(lambda: any((view.sent or 0) > 0 for view in port.views()))
            clock.late_ms = 25_000
            await until(lambda: not port.views())

    asyncio.run(run())


class Endless(Zeros):
    """There is always more."""

    committed_position = durable_position = 1 << 40


def test_a_slave_that_acknowledges_what_it_does_not_read_is_given_no_more_meanwhile() -> None:
    async def run() -> None:
        options = SlaveOptions(window_bytes=1 << 20)
        async with connected(Endless(), Verdict(None), options=options) as (port, reader):
            await until(lambda: any(view.sent for view in port.views()))
            (slave,) = port.slaves
            for _ in range(64):
                slave.data_received(encode_report(port.views()[0].sent or 0))
            assert slave._transport is not None
            assert slave._transport.get_write_buffer_size() <= 2 << 20
            given = port.views()[0].sent or 0
            left = given + (1 << 20)
            while left > 0:  # once it reads it is given all that it has acknowledged, and a window
                got = await reader.read(1 << 20)
                assert got
                left -= len(got)
            assert (port.views()[0].sent or 0) > given

    asyncio.run(run())
