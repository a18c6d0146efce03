"""Cluster-wide questions and orders."""

import pytest

from logherd.client.admin import Admin
from logherd.client.errors import NoRoute, Refused
from logherd.client.peers import parse_address
from logherd.model.topic import TopicConfig
from logherd.net.session import NetSession
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import BrokerData, QueueData, TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from unit.client.fake_broker import BROKER, running


async def test_a_topic_is_created_listed_and_deleted() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        await admin.create_topic(TopicConfig("T", read_queues=2, write_queues=2))
        assert await admin.topics() == ["T", "TBW102"]
        route = await admin.wait_for_route("T", seconds=1)
        assert [queue.queue_id for queue in route.writable] == [0, 1]
        assert await admin.delete_topic("T") is True
        with pytest.raises(NoRoute):
            await admin.route("T")


@pytest.mark.parametrize("code", [RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_ROUTEINFO_BY_TOPIC])
async def test_that_nobody_had_a_topic_to_delete_is_told_and_all_are_told_all_the_same(code: RequestCode) -> None:
    """A broker may not have registered it yet, and a name server may have it still when its broker has not."""
    async with running() as broker, Admin([broker.address]) as admin:
        gone = broker._answers[code]
        broker.topics["T"] = 1
        refused = ResponseCode.TOPIC_NOT_EXIST if code == RequestCode.GET_ROUTEINFO_BY_TOPIC else 3
        broker._answers[code] = lambda _, frame: Frame(refused, frame.opaque, flag=Flag.RESPONSE)
        assert await admin.delete_topic("T") is True
        broker._answers[code] = gone
        deleted: list[int] = []
        for each in (RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV):
            broker._answers[each] = lambda _, frame: (deleted.append(frame.code), Frame(0, frame.opaque, flag=1))[1]
        assert await admin.delete_topic("T") is False
        assert deleted == [RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV]


async def test_whether_a_broker_has_a_topic_is_not_guessed_from_another_refusal() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        broker._answers[351] = lambda _, frame: Frame(1, frame.opaque, flag=Flag.RESPONSE, remark="not now")
        with pytest.raises(Refused, match="not now"):
            await admin.delete_topic("T")


async def test_a_topic_that_somebody_else_deleted_has_no_route() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        broker.topics["T"] = 1
        assert (await admin.route("T")).writable
        del broker.topics["T"]
        with pytest.raises(NoRoute):
            await admin.route("T")


async def test_only_named_brokers_get_a_topic() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        with pytest.raises(NoRoute, match="broker-z"):
            await admin.create_topic(TopicConfig("T"), brokers=["broker-z"])
        assert "T" not in broker.topics
        await admin.create_topic(TopicConfig("T"), brokers=[BROKER])
        assert "T" in broker.topics


async def test_queue_ends_and_group_offsets_are_sorted_by_queue() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        broker.topics["T"] = 3
        broker.store("T", 1, b"x")
        broker.store("T", 1, b"y")
        broker.offsets["g", "T", 1] = 1
        ends = await admin.topic_stats("T")
        assert [(each.queue.queue_id, each.first, each.next) for each in ends] == [(0, 0, 0), (1, 0, 2), (2, 0, 0)]
        offsets = await admin.group_offsets("g", "T")
        found = [(each.queue.queue_id, each.committed, each.lag) for each in offsets]
        assert found == [(0, 0, 0), (1, 1, 1), (2, 0, 0)]


async def test_a_broker_group_without_a_leader_is_not_left_out_of_an_answer_without_a_word() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        broker.topics["T"] = 1

        def half(_: NetSession, frame: Frame) -> Frame:
            led, unled = (
                QueueData(broker_name=name, read_queues=1, write_queues=1, permission=6)
                for name in (BROKER, "broker-b")
            )
            brokers = [
                BrokerData(cluster="c", broker_name=BROKER, addresses={0: broker.address}),
                BrokerData(cluster="c", broker_name="broker-b", addresses={2: "127.0.0.1:1"}),
            ]
            body = encode_body(TopicRoute(queues=[led, unled], brokers=brokers))
            return Frame(0, frame.opaque, flag=Flag.RESPONSE, body=body)

        broker._answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = half
        for ask in (lambda: admin.topic_stats("T"), lambda: admin.group_offsets("g", "T")):
            with pytest.raises(NoRoute, match="no address of broker broker-b is known for topic T"):
                await ask()


async def test_cluster_and_broker_state() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        assert (await admin.clusters()).clusters == {"c": [BROKER]}
        assert await admin.broker_state(broker.address) == {"putTps": "7"}


async def test_a_refusal_carries_code_and_remark() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        broker._answers[28] = lambda _, frame: type(frame)(16, frame.opaque, flag=1, remark="not you")
        with pytest.raises(Refused, match=r"16 \(NO_PERMISSION\): not you"):
            await admin.broker_state(broker.address)


async def test_waiting_for_a_route_ends() -> None:
    async with running() as broker, Admin([broker.address]) as admin:
        with pytest.raises(NoRoute, match="Absent"):
            await admin.wait_for_route("Absent", seconds=0.15)


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("", ""),
        ("host", ""),
        (":1", "; it names no host"),
        ("[]:1", "; it names no host"),
        ("host:", "; a port is a number from 1 to 65535"),
        ("host:0", "; a port is a number from 1 to 65535"),
        ("127.0.0.1:99999", "; a port is a number from 1 to 65535"),
        ("host:x", "; a port is a number from 1 to 65535"),
    ],
)
def test_what_is_no_address_is_refused_with_what_is_right(address: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="host:port") as caught:
        parse_address(address)
    assert str(caught.value) == f"an address is host:port, not {address!r}{wrong}"


def test_addresses_are_split_at_the_last_colon() -> None:
    assert parse_address("bg-leader.ns:10911") == ("bg-leader.ns", 10911)
    assert parse_address("[::1]:80") == ("::1", 80)
