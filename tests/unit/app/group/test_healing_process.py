"""A broker process with a damaged store: it heals, over the peers' port, and what it needs for that is little."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app import process
from logherd.app.broker import Broker
from logherd.app.group import healing, healing_process, replica_file
from logherd.app.group.engine import GroupEngine
from logherd.app.group.healing_process import Healed, Healing, must_heal
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.group.roster import Roster
from logherd.app.guarded.lent import Lent
from logherd.group.output import Promise
from logherd.model.names import Epoch
from logherd.peers.pieces import Asked, Given, PieceServer, PieceSource, encode_piece
from logherd.service.controllers.asking import Enrolled
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.store import MessageStore, StoreDamaged, StoreFull, StoreInUse, damage_note
from logherd.store.damage_note import note_damage
from logherd.store.mending import survey
from logherd.store.pieces import Kept, PieceAsk, PieceState, read_piece
from unit.app.group.test_from_alone import FILES, GROUP, REPLICA, options_of
from unit.store.helpers import SimClock, append, bodies, flush

HERE = Endpoint(host="127.0.0.1", port=0)


def filled(root: Path) -> Path:
    """The closed store of a replica."""
    store = MessageStore.open(root / "data", REPLICA, FILES, clock=SimClock())
    for number in range(50):
        append(store, body=b"%05d" % number * 40)
    flush(store)
    store.close()
    ReplicaFile.open(FILES, str(root / "data"), GROUP, 2, log_empty=True).keep(Promise(Epoch(3)))
    return root


def content(root: Path) -> list[bytes]:
    store = MessageStore.open(root / "data", REPLICA, FILES, clock=SimClock())
    try:
        return bodies(store)
    finally:
        store.close()


def spoil(root: Path, at: int = 1000) -> StoreDamaged:
    path = root / "data" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x11
    path.write_bytes(data)
    return StoreDamaged(str(path), at - 100, "spoilt", str(root / "data"))


@asynccontextmanager
async def giving(root: Path) -> AsyncIterator[int]:
    """A peer that has all of it; its port."""
    found = survey(FILES, str(root / "data"))

    async def give(asked: Asked) -> tuple[bytes, bytes] | None:
        assert (asked.cluster, asked.broker) == (str(GROUP), "2")
        kept = Kept(found.log_start, found.committed)
        piece = read_piece(FILES, str(root / "data"), asked.ask, kept, bytes_max=1000)
        return encode_piece(Given(state=piece.state, end=piece.end)), piece.data

    server = await asyncio.start_server(PieceServer(give, seconds=5, connections_max=4).serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def options(root: Path, port: int) -> BrokerOptions:
    found = options_of(root, peers={"1": f"127.0.0.1:{port}", "2": "b:1"}, peerListen=str(HERE))
    return replace(found, admin_listen=HERE)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(healing, "_ROUND_SECONDS", 0)
    for name in ("damaged", "whole"):
        (tmp_path / name).mkdir()
    return filled(tmp_path / "damaged"), filled(tmp_path / "whole")


async def healed(begin: Callable[[Callable[[], None]], Awaitable[object]]) -> None:
    ended = asyncio.Event()
    made = await begin(ended.set)
    assert isinstance(made, Healing)
    try:
        async with asyncio.timeout(30):
            await ended.wait()
        with pytest.raises(Healed, match="whole again"):
            made.check()
    finally:
        await made.abandon()


async def test_it_heals_from_a_peer_alone_with_its_store_and_ends(pair: tuple[Path, Path]) -> None:
    damaged, whole = pair
    note_damage(FILES, str(damaged / "data"), spoil(damaged))
    async with giving(whole) as port:
        settings = options(damaged, port)
        assert must_heal(settings)

        async def begin(ended: Callable[[], None]) -> Healing:
            made = await Healing.start(settings, on_failure=ended)
            with pytest.raises(StoreInUse):
                await Healing.start(settings, on_failure=ended)
            return made

        await healed(begin)
        assert not must_heal(settings)
    assert content(damaged) == content(whole)


async def test_damage_that_a_full_disk_lets_nobody_note_is_healed_all_the_same(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is mended is written where it belongs, which takes no space."""
    damaged, whole = pair
    error = spoil(damaged)

    async def refuses(*_: object, **__: object) -> Broker:
        raise error

    def full(*_: object) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Broker, "start", refuses)
    monkeypatch.setattr(damage_note, "replace_file", full)
    async with giving(whole) as port:
        settings = options(damaged, port)
        await healed(lambda ended: process._start(settings, Lent(), ended))
    assert content(damaged) == content(whole)


async def test_damage_that_is_met_once_the_store_is_open_is_healed_by_this_process_too(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, whole = pair
    begin = GroupEngine.begin

    async def meets(engine: GroupEngine, guard: TaskGuard) -> None:
        await begin(engine, guard)
        raise spoil(damaged)

    monkeypatch.setattr(GroupEngine, "begin", meets)
    async with giving(whole) as port:
        settings = replace(options(damaged, port), listen=HERE)
        await healed(lambda ended: process._start(settings, Lent(), ended))
    assert content(damaged) == content(whole)


def address_of(healing: Healing) -> tuple[str, int]:
    """Where other replicas reach it."""
    listener = healing._pieces._listener
    assert listener is not None
    host, port = listener.sockets[0].getsockname()[:2]
    return host, port


async def test_who_heals_gives_another_one_what_is_whole_here(pair: tuple[Path, Path]) -> None:
    damaged, other = pair
    whole = content(other)
    note_damage(FILES, str(damaged / "data"), spoil(damaged))
    note_damage(FILES, str(other / "data"), spoil(other, 5000))
    waits = await Healing.start(options(other, 1), on_failure=lambda: None)
    try:
        settings = options(damaged, address_of(waits)[1])
        await healed(lambda ended: Healing.start(settings, on_failure=ended))
        status = waits.status()[1]
        assert isinstance(status, dict)
        assert (status["role"], status["ready"], status["healing"]["damagedRanges"]) == ("healing", False, 1)
        assert status["fault"].startswith("its log is damaged and is being mended")
        assert status["healing"]["nobodyHas"] is False
        waits._healer.progress.nobody_has, waits._healer.progress.at = True, 4711
        status = waits.status()[1]
        assert isinstance(status, dict)
        assert "at position 4711, and no broker of its group has that whole" in str(status["fault"])
        waits._healer.progress.unkept = "its disk does not keep what is written"
        status = waits.status()[1]
        assert isinstance(status, dict)
        assert status["fault"] == status["healing"]["unkept"] == "its disk does not keep what is written"
    finally:
        await waits.abandon()
    assert content(damaged) == whole


async def test_who_heals_gives_what_it_does_not_know_to_be_committed_to_who_does(pair: tuple[Path, Path]) -> None:
    """As where the power went at both: nobody leads, from whom it could hear that."""
    damaged, other = pair
    committed = survey(FILES, str(other / "data")).committed
    for root in pair:
        store = MessageStore.open(root / "data", REPLICA, FILES, clock=SimClock())
        for number in range(5):
            append(store, body=b"%05d" % number * 40)
        batch = store.take_batch()
        assert batch is not None
        batch.write_and_flush()
        store.flushed(batch)
        if root is damaged:
            store.advance(store.end_position)
        store.close()
    note_damage(FILES, str(damaged / "data"), spoil(damaged, committed + 100))
    note_damage(FILES, str(other / "data"), spoil(other, 5000))
    waits = await Healing.start(options(other, 1), on_failure=lambda: None)
    try:
        settings = options(damaged, address_of(waits)[1])
        await healed(lambda ended: Healing.start(settings, on_failure=ended))
        found = waits._healer.found
        assert found is not None
        assert found.committed == committed
    finally:
        await waits.abandon()
    assert len(content(damaged)) == 55


async def test_it_goes_by_whom_an_earlier_process_has_met_and_by_what_controllers_say_now(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, _ = pair
    settings, asked, epoch = options(damaged, 1), [], 3
    assert Healing(settings, lambda: None)._muster().known is None
    Roster(FILES, str(damaged / "data")).follow({1, 2})

    async def ask(addresses: object, group: object) -> Enrolled:
        asked.append((addresses, group))
        return Enrolled(frozenset({1, 2}), Epoch(epoch))

    monkeypatch.setattr(healing_process, "ask_enrolled", ask)
    muster, answers = Healing(settings, lambda: None)._muster(), {"1": Given(state=PieceState.DAMAGED, knows=(1, 2))}
    assert muster.known == (1, 2)
    assert await muster.complete(answers, 1000, all_places=False)
    epoch = 2  # it has seen a later one
    assert not await muster.complete(answers, 1000, all_places=False, anew=True)
    assert asked == [(settings.replication.controllers, GROUP)] * 2
    (damaged / "data" / "replica.json").unlink()
    assert Healing(settings, lambda: None)._muster().known is None
    voting = replace(settings, replication=replace(settings.replication, mode="raft"))
    ReplicaFile.open(FILES, str(damaged / "data"), GROUP, 2, log_empty=True, mode="raft").keep(Promise(Epoch(3)))
    muster = Healing(voting, lambda: None)._muster()
    assert await muster.complete(answers, 1000, all_places=False)
    assert muster.epoch == 3
    assert len(asked) == 2


@pytest.mark.parametrize("broken", ["reserve_spare", "read_roster"])
def test_a_healing_needs_neither_the_replicas_file_nor_its_roster(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """As without a descriptor, or on a disk that takes nothing."""
    damaged, _ = pair
    Roster(FILES, str(damaged / "data")).follow({1, 2})
    made = Healing(options(damaged, 1), lambda: None)

    def fails(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(replica_file if broken == "reserve_spare" else healing_process, broken, fails)
        assert made._muster().known is None
    assert made._muster().known == (1, 2)


async def test_who_heals_says_whom_it_knows_and_where_its_log_ends(pair: tuple[Path, Path]) -> None:
    """The others would take what it does not know to be committed, and has, for lost until it is healed."""
    damaged, _ = pair
    store = MessageStore.open(damaged / "data", REPLICA, FILES, clock=SimClock())
    append(store, body=b"flushed, and not known to be committed")
    batch = store.take_batch()
    assert batch is not None
    batch.write_and_flush()
    store.flushed(batch)
    end = store.end_position
    store.close()
    note_damage(FILES, str(damaged / "data"), spoil(damaged))
    Roster(FILES, str(damaged / "data")).follow({1, 2, 5})
    committed = survey(FILES, str(damaged / "data")).committed
    assert committed
    made = await Healing.start(options(damaged, 1), on_failure=lambda: None)
    try:
        source = PieceSource("2", address_of(made), frame_bytes_max=1 << 20, seconds=10)
        async with asyncio.timeout(30):
            while made._healer.found is None:
                await asyncio.sleep(0)
        given, _ = await source.ask(Asked(cluster=str(GROUP), broker="1", ask=PieceAsk(start=0, end=10)))
        assert (given.knows, given.log_end) == ((1, 2, 5), None)
        ask = PieceAsk(start=committed, end=committed + 10)
        given, _ = await source.ask(Asked(cluster=str(GROUP), broker="1", ask=ask))
        source.close()
        assert (given.state, given.log_end) == (PieceState.NOT_YET, end)
    finally:
        await made.abandon()


async def test_a_burst_of_silent_connections_takes_little_and_keeps_no_replica_out(pair: tuple[Path, Path]) -> None:
    damaged, other = pair
    whole = content(other)
    note_damage(FILES, str(damaged / "data"), spoil(damaged))
    note_damage(FILES, str(other / "data"), spoil(other, 5000))
    waits = await Healing.start(options(other, 1), on_failure=lambda: None)
    silent = list[asyncio.StreamWriter]()
    try:
        address = address_of(waits)
        for _ in range(100):
            silent.append((await asyncio.open_connection(*address))[1])
        await healed(lambda ended: Healing.start(options(damaged, address[1]), on_failure=ended))
        assert len(waits._pieces._open) <= 64
    finally:
        for each in silent:
            each.close()
        await waits.abandon()
    assert content(damaged) == whole
