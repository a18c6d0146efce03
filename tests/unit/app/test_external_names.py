"""Registration over real sockets: who leads is told at once, who follows withdraws, a lost connection is renewed."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app import external_names
from logherd.app.clock import SystemClock
from logherd.app.external_names import ExternalNames
from logherd.app.names import Names
from logherd.model.topic import Permission, TopicConfig
from logherd.net.limits import NetLimits
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata, TopicChange
from logherd.service.names.registration import Registrar
from logherd.service.ports import Reply, Request
from logherd.settings.options import Endpoint
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from unit.service.memory_log import MemoryLog

CLOCK = SystemClock()


class Service:
    """A name service on a port of its own."""

    def __init__(self) -> None:
        self.names = Names(CLOCK, key_values_path=None)
        self.server = Server(self.names.port(), NetLimits())
        self.endpoint = Endpoint(host="127.0.0.1", port=0)

    async def start(self) -> None:
        host, port = await self.server.listen(self.endpoint.host, self.endpoint.port)
        self.endpoint = Endpoint(host=host, port=port)

    def leader(self) -> str | None:
        entry = self.names.routes.brokers().get("g")
        return None if entry is None else entry.addresses.get(0)

    def addresses(self) -> dict[int, str]:
        entry = self.names.routes.brokers().get("g")
        return {} if entry is None else dict(entry.addresses)

    async def leads(self, wanted: Callable[[str | None], bool]) -> None:
        async with asyncio.timeout(20):
            while not wanted(self.leader()):
                await asyncio.sleep(0)


def replica(
    broker_id: int, service: Service, guard: TaskGuard, *, reads: bool = False, routed: str = "", alone: bool = False
) -> tuple[ExternalNames, Metadata, TaskGuard]:
    data = Metadata.open(MemoryLog(), CLOCK)
    data.topics.put(TopicConfig("T"))
    identity = BrokerIdentity("C", "g", broker_id, f"10.0.0.{broker_id}:10911")
    registrar = Registrar(identity, data, ha_address="", routed=routed, alone=alone)
    names = ExternalNames([service.endpoint], registrar, follower=identity if reads else None)
    data.on_topic_change.append(names.topic_changed)
    return names, data, guard


@asynccontextmanager
async def running(
    service: Service, *ids: int, reads: bool = False, routed: str = ""
) -> AsyncIterator[list[tuple[ExternalNames, Metadata]]]:
    await service.start()
    guards = [TaskGuard() for _ in ids]
    parts = [
        replica(broker_id, service, guard, reads=reads, routed=routed)
        for broker_id, guard in zip(ids, guards, strict=True)
    ]
    try:
        for names, _, guard in parts:
            await names.join(guard)
        yield [(names, data) for names, data, _ in parts]
    finally:
        for names, _, guard in parts:
            await guard.stop(5)
            await names.stop()
        await service.server.stop(0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_names, "RETRY_SECONDS", 0.01)


async def test_the_leader_is_in_routes_at_once_and_an_old_one_cannot_come_back() -> None:
    service = Service()
    async with running(service, 1, 2) as ((first, topics), (second, _)):
        first.lead(3)
        await service.leads(lambda address: address == "10.0.0.1:10911")
        second.lead(4)
        await service.leads(lambda address: address == "10.0.0.2:10911")
        topics.topics.put(TopicConfig("of the old leader"))
        refused = await first._try(service.endpoint, _registration(first))
        assert "epoch 3 of g is refused: epoch 4 is known, led by 10.0.0.2:10911" in refused
        first.follow()
        assert service.leader() == "10.0.0.2:10911"
        assert service.names.routes.topics() == ["T"]


async def test_a_new_topic_and_another_permission_are_in_routes_at_once() -> None:
    service = Service()
    async with running(service, 1) as [(names, data)]:
        names.lead(3)
        await service.leads(lambda address: address is not None)
        data.topics.put(TopicConfig("U"))
        await service.leads(lambda _: "U" in service.names.routes.topics())
        names._registrar.set_permission(Permission.READ)
        names.permission_changed(Permission.READ)
        await service.leads(lambda _: (at := service.names.routes.route("U")) is not None
                            and at.queues["g"].permission == Permission.READ)  # fmt: skip


async def test_more_topics_than_a_frame_holds_are_a_registration_that_failed() -> None:
    service = Service()
    async with running(service, 1) as [(broker, _)]:
        broker.lead(3)
        request = _registration(broker)._replace(body=bytes(17 << 20))
        assert "the limit is 16777216" in await broker._try(service.endpoint, request)
        await service.leads(lambda address: address == "10.0.0.1:10911")


async def test_a_follower_registers_nothing_and_a_former_leader_withdraws() -> None:
    service = Service()
    async with running(service, 1) as ((names, data),):
        data.topics.put(TopicConfig("U"))
        names.lead(3)
        await service.leads(lambda address: address is not None)
        names.follow()
        live = next(iter(service.names.routes._live.values()))
        await service.leads(lambda _: live.until_ms is not None)
        assert service.leader() == "10.0.0.1:10911"


@pytest.mark.parametrize("alone", [True, False])
async def test_a_broker_that_stops_takes_back_what_it_registered(alone: bool) -> None:
    """One that is alone has no successor, whose routes could stand for it a while longer."""
    service = Service()
    await service.start()
    names, _, guard = replica(1, service, TaskGuard(), alone=alone)
    if not alone:
        names.lead(3)
    await names.join(guard)
    try:
        await service.leads(lambda _: bool(service.addresses()))
        await names.leave()
        assert [live.until_ms is not None for live in service.names.routes._live.values()] == ([] if alone else [True])
    finally:
        await guard.stop(5)
        await names.stop()
        await service.server.stop(0)


async def test_a_leader_registers_again_when_its_connection_is_lost() -> None:
    service = Service()
    async with running(service, 1) as ((names, _),):
        names.lead(3)
        await service.leads(lambda address: address is not None)
        live = next(iter(service.names.routes._live.values()))
        await service.server.stop(0)
        await service.leads(lambda _: live.until_ms is not None)
        service.server = Server(service.names.port(), NetLimits())
        await service.start()
        await service.leads(lambda _: next(iter(service.names.routes._live.values())).until_ms is None)


class Curt:
    """A name service, or a proxy before one, that answers each connection's first request and ends it."""

    def __init__(self) -> None:
        self.heard = 0

    def on_open(self, session: NetSession) -> None:
        pass

    def on_close(self, session: NetSession) -> None:
        pass

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        self.heard += len(frames)
        session.reply(Request(frames[0], None, 0), Reply())
        session.close()


@pytest.mark.parametrize("leads", [True, False])
async def test_a_name_service_that_ends_each_connection_hears_of_this_broker_with_pauses(
    monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    monkeypatch.setattr(external_names, "RETRY_SECONDS", 0.1)
    curt, guard = Curt(), TaskGuard()
    service = Service()
    service.server = Server(curt)
    await service.start()
    names, _, _ = replica(1, service, guard, reads=not leads)
    if leads:
        names.lead(3)
    begun = time.monotonic()
    await names.join(guard)
    try:
        async with asyncio.timeout(30):
            while curt.heard < 5:
                await asyncio.sleep(0)
        assert time.monotonic() - begun > 0.3
    finally:
        await guard.stop(5)
        await names.stop()
        await service.server.stop(0)


class Heard(Curt):
    """A name service that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            self.codes.append(frame.code)
            session.reply(Request(frame, None, 0), Reply())

    async def by(self, done: Callable[[list[int]], bool]) -> None:
        async with asyncio.timeout(20):
            while not done(self.codes):
                await asyncio.sleep(0)


class Deaf(Curt):
    """A name service that answers nothing on its first connection."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[NetSession] = []

    def on_open(self, session: NetSession) -> None:
        self.opened.append(session)

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            if session is not self.opened[0]:
                self.heard += 1
                session.reply(Request(frame, None, 0), Reply())


async def test_a_name_service_that_does_not_answer_is_connected_to_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_names, "ANSWER_SECONDS", 0.05)
    deaf, guard, service = Deaf(), TaskGuard(), Service()
    service.server = Server(deaf)
    await service.start()
    names, _, _ = replica(1, service, guard)
    names.lead(3)
    await names.join(guard)
    try:
        async with asyncio.timeout(20):
            while not deaf.heard:
                await asyncio.sleep(0)
        assert len(deaf.opened) == 2
    finally:
        await guard.stop(5)
        await names.stop()
        await service.server.stop(0)


async def test_a_stop_does_not_wait_for_a_name_service_that_reads_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        service = Service()
        service.endpoint = Endpoint(host=host, port=port)
        names, _, _ = replica(1, service, TaskGuard())
        names.lead(3)
        request = _registration(names)._replace(body=bytes(15 << 20))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await names._try(service.endpoint, request)
        async with asyncio.timeout(5):
            await names.stop()


async def test_routes_name_the_leader_itself_while_its_followed_address_does_not_lead_to_it() -> None:
    service = Service()
    async with running(service, 1, 2, reads=True, routed="leader:10911") as ((first, _), (second, _)):
        first.lead(3)
        await service.leads(lambda _: service.addresses() == {0: "leader:10911", 2: "10.0.0.2:10911"})
        first.name(own=True)
        await service.leads(lambda _: service.addresses() == {0: "10.0.0.1:10911", 2: "10.0.0.2:10911"})
        assert service.names.routes.topics() == ["T"]
        second.lead(4)
        first.follow()
        await service.leads(lambda address: address == "leader:10911")
        assert service.addresses() == {0: "leader:10911"}
        second.name(own=True)
        await service.leads(lambda address: address == "10.0.0.2:10911")
        second.name(own=False)
        await service.leads(lambda address: address == "leader:10911")


@pytest.mark.parametrize("stops", [True, False])
async def test_a_former_leader_leaves_the_address_that_follows_the_leader_alone(stops: bool) -> None:
    heard, guard, service = Heard(), TaskGuard(), Service()
    service.server = Server(heard)
    await service.start()
    names, _, _ = replica(1, service, guard, reads=True, routed="leader:10911")
    names.lead(3)
    await names.join(guard)
    try:
        await heard.by(lambda codes: RequestCode.REGISTER_BROKER in codes)
        if stops:
            await names.leave()
        else:
            names._attend_at = 0
            names._registrar.follow()
            for registered in (2, 3):  # as a follower; the first may be of the pass in which it led
                names.topic_changed(TopicChange("T", None, 0))
                await heard.by(lambda codes, n=registered: codes.count(RequestCode.REGISTER_BROKER) >= n)
        assert RequestCode.UNREGISTER_BROKER not in heard.codes
    finally:
        await guard.stop(5)
        await names.stop()
        await service.server.stop(0)


async def test_a_follower_that_answers_pulls_is_in_routes_under_its_own_id() -> None:
    service = Service()
    async with running(service, 1, 2, reads=True) as ((first, _), (second, _)):
        first.lead(3)
        await service.leads(lambda address: address == "10.0.0.1:10911")
        await service.leads(lambda _: service.addresses() == {0: "10.0.0.1:10911", 2: "10.0.0.2:10911"})
        assert service.names.routes.topics() == ["T"]
        second.lead(4)
        first.follow()
        # Who led a moment ago is not a follower in routes yet: clients that know it must find it for a while.
        await service.leads(lambda address: address == "10.0.0.2:10911")
        assert service.addresses() == {0: "10.0.0.2:10911"}


async def test_a_former_leader_attends_after_a_while_and_leaves_when_it_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_names, "ATTEND_SECONDS", 0)
    service = Service()
    async with running(service, 1, 2, reads=True) as ((first, _), (second, _)):
        first.lead(3)
        await service.leads(lambda address: address == "10.0.0.1:10911")
        second.lead(4)
        first.follow()
        await service.leads(lambda _: service.addresses() == {0: "10.0.0.2:10911", 1: "10.0.0.1:10911"})
        await first.leave()
        assert service.addresses() == {0: "10.0.0.2:10911"}


async def test_who_ceases_to_lead_does_not_stop_to_write_down_all_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    names, _, _ = replica(1, Service(), TaskGuard())
    names.lead(3)
    monkeypatch.setattr(names._registrar, "register", lambda: pytest.fail("a body of all topics"))
    names.follow()
    assert names._attend_at > asyncio.get_running_loop().time()


def _registration(names: ExternalNames) -> external_names.OutgoingRequest:
    request = names._registrar.register()
    assert request is not None
    return request
