"""Asking name services and brokers by address: who is asked next, and what is left open."""

import asyncio
from typing import cast

import pytest

from logherd.client import peers as peers_module
from logherd.client import routes as routes_module
from logherd.client.errors import NoRoute, Refused, Unreachable
from logherd.client.peers import Peers
from logherd.client.routes import DEFAULT_TOPIC, NameService, Route, Routes
from logherd.net.connection import Connection
from logherd.net.errors import ConnectFailed
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import BrokerData, QueueData, TopicList, TopicRoute
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame


class OneDead(Peers):
    """The first name service cannot be reached, the second answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def ask(self, address: str, request: Frame, *, seconds: float = 3.0) -> Frame:
        self.asked.append(address)
        await asyncio.sleep(0)
        if address == "dead:1":
            raise ConnectFailed("nobody is there", address)
        return request


async def test_questions_at_the_same_time_all_reach_the_name_service_that_lives() -> None:
    peers = OneDead()
    names = NameService(peers, ["dead:1", "live:2"])
    questions = [Frame(105, 0) for _ in range(4)]
    answers = await asyncio.gather(*(names.ask(each) for each in questions), return_exceptions=True)
    assert answers == questions
    peers.asked.clear()
    await names.ask(questions[0])
    assert peers.asked == ["live:2"]


async def test_a_connection_that_is_made_while_the_client_closes_is_not_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connecting, let, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Late:
        async def close(self) -> None:
            closed.set()

    async def connect(*_: object, **__: object) -> Connection:
        connecting.set()
        await let.wait()
        return cast("Connection", Late())

    monkeypatch.setattr(peers_module, "connect", connect)
    peers = Peers()
    getting = asyncio.create_task(peers.get("127.0.0.1:1"))
    await connecting.wait()
    await peers.close()
    let.set()
    with pytest.raises(ConnectFailed, match="the client is closed"):
        await getting
    assert closed.is_set()


class OneUntold(Peers):
    """No broker has told the first name service of any topic; a hung one answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()

    async def ask(self, address: str, request: Frame, *, seconds: float = 3.0) -> Frame:
        if address == "hung:2":
            await asyncio.Event().wait()
        if request.ext["topic"] not in self.known or address == "untold:1":
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, "no topic route info", address)
        return Frame(0, 0, body=encode_body(TopicRoute()))


async def test_a_topic_that_one_name_service_does_not_know_is_asked_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes_module, "NEXT_SECONDS", 0.02)
    peers = OneUntold()
    names = NameService(peers, ["untold:1", "hung:2", "told:3"])
    assert await names.route("t") is None
    peers.known.add("t")
    assert await names.route("t") is not None
    alone = NameService(peers, ["untold:1"])
    assert await alone.route("t") is None


class Names(NameService):
    """Gives a route by its number of writers, or nothing while it is away."""

    def __init__(self) -> None:
        super().__init__(Peers(), ["names:1"])
        self.asked, self.away, self.hangs = 0, False, False
        self.unknown: set[str] = set()

    async def route(self, topic: str) -> TopicRoute | None:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if topic in self.unknown:
            return None
        if self.away:
            raise Unreachable("no name server answers")
        return TopicRoute(brokers=[BrokerData(cluster="c", broker_name="b", addresses={0: f"{topic}:{self.asked}"})])


def address(route: Route) -> str:
    return route.addresses["b"]


async def test_a_route_that_is_doubted_is_asked_again_and_kept_while_nobody_answers() -> None:
    names = Names()
    routes = Routes(names)
    routes.doubt("t")
    assert [address(await routes.get("t")) for _ in range(2)] == ["t:1", "t:1"]
    routes.doubt("t")
    assert address(await routes.get("t")) == "t:2"
    names.away = True
    routes.doubt("t")
    assert (address(await routes.get("t")), names.asked) == ("t:2", 3)
    routes.forget("t")
    with pytest.raises(Unreachable):
        await routes.get("t")


class OneHung(OneDead):
    """The first name service takes questions and answers none, as one whose host was lost."""

    async def ask(self, address: str, request: Frame, *, seconds: float = 3.0) -> Frame:
        if address == "dead:1":
            self.asked.append(address)
            await asyncio.Event().wait()
        return await super().ask(address, request, seconds=seconds)


async def test_a_name_service_that_hangs_does_not_take_the_time_in_which_the_next_one_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes_module, "NEXT_SECONDS", 0.02)
    peers = OneHung()
    names = NameService(peers, ["dead:1", "live:2"])
    async with asyncio.timeout(2):
        await names.ask(Frame(105, 0))
    assert peers.asked == ["dead:1", "live:2"]
    await names.ask(Frame(105, 0))
    assert peers.asked[2:] == ["live:2"]


async def test_whoever_gives_up_on_a_name_service_that_hangs_asks_another_one_first_the_next_time() -> None:
    peers = OneHung()
    names = NameService(peers, ["dead:1", "live:2"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await names.ask(Frame(105, 0))
    await names.ask(Frame(105, 0))
    assert peers.asked == ["dead:1", "live:2"]


async def test_a_known_route_is_kept_while_the_name_service_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "KNOWN_SECONDS", 0.02)
    names = Names()
    routes = Routes(names)
    await routes.get("t")
    names.hangs = True
    async with asyncio.timeout(2):
        assert address(await routes.get("t", fresh=True)) == "t:1"
        routes.doubt("t")
        assert address(await routes.get("t")) == "t:1"


async def test_a_topic_that_was_there_is_where_it_was_while_the_name_service_knows_nothing_of_it() -> None:
    """Its leader is gone for longer than routes name one. The topic is not made anew on another group meanwhile."""
    names = Names()
    routes = Routes(names)
    assert address(await routes.get("t", may_create=True)) == "t:1"
    names.unknown.add("t")
    for fresh in (True, False):
        routes.doubt("t")
        assert address(await routes.get("t", may_create=True, fresh=fresh)) == "t:1"
    names.unknown.clear()
    assert address(await routes.get("t", fresh=True)) == "t:4"
    routes.forget("t")
    names.unknown |= {"t", DEFAULT_TOPIC}
    with pytest.raises(NoRoute, match="topic t"):
        await routes.get("t", may_create=True)


async def test_queues_of_a_group_without_a_leader_are_read_and_not_written() -> None:
    class Led(Names):
        async def route(self, topic: str) -> TopicRoute | None:
            queues = [QueueData(broker_name=name, read_queues=1, write_queues=1, permission=6) for name in "ab"]
            brokers = [
                BrokerData(cluster="c", broker_name="a", addresses={2: "follower:1"}),
                BrokerData(cluster="c", broker_name="b", addresses={0: "leader:1"}),
            ]
            return TopicRoute(queues=queues, brokers=brokers)

    route = await Routes(Led()).get("t")
    assert [queue.broker_name for queue in route.writable] == ["b"]
    assert [queue.broker_name for queue in route.readable] == ["a", "b"]


async def test_all_topics_are_listed_however_many_one_answer_holds() -> None:
    class Many(Peers):
        async def ask(self, address: str, request: Frame, *, seconds: float = 3.0) -> Frame:
            return Frame(0, 0, body=encode_body(TopicList(topics=[f"topic-{n:050}" for n in range(100_000)])))

    assert len(await NameService(Many(), ["names:1"]).topics()) == 100_000
