"""Sending: where a message goes, what is repeated, and what a caller learns when it fails."""

import asyncio
import zlib

import pytest

from logherd.client import link, peers
from logherd.client import routes as routes_module
from logherd.client.consumer import Consumer
from logherd.client.errors import NoRoute, Refused, SendFailed, Unreachable, Unsendable
from logherd.client.producer import Outgoing, Producer, ProducerOptions
from logherd.client.unique import UniqueKeys
from logherd.kit.javahash import java_hash
from logherd.model.properties import parse_properties
from logherd.net.errors import ConnectionLost, RequestTimeout
from logherd.net.session import NetSession
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.pull import PullFlag, PullMessageHeader
from unit.client.fake_broker import BROKER, running


async def test_a_message_is_sent_with_its_properties() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        sent = await producer.send("T", Outgoing(b"hello", tag="A", keys=["k1", "k2"], properties={"p": "v"}))
        assert (sent.queue.broker_name, sent.queue.queue_id, sent.queue_offset, sent.code) == (BROKER, 0, 0, 0)
        properties = parse_properties(broker.sends[0].properties or "")
        assert properties == {"p": "v", "KEYS": "k1 k2", "TAGS": "A", "UNIQ_KEY": sent.unique_key, "WAIT": "true"}
        assert broker.bodies == [b"hello"]


async def test_messages_go_round_the_queues() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 4
        queues = [(await producer.send("T", Outgoing(b"x"))).queue.queue_id for _ in range(8)]
        assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_messages_of_one_key_go_to_the_queue_that_java_would_choose() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 4
        for key in ("order-1", "order-2", "polygenelubricants"):
            queues = {(await producer.send("T", Outgoing(b"x"), key=key)).queue.queue_id for _ in range(3)}
            assert queues == {abs(java_hash(key)) % 4}


async def test_an_unknown_topic_is_sent_to_where_it_will_be_created() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        sent = await producer.send("New", Outgoing(b"x"))
        assert sent.queue.queue_id < 4
        assert (broker.sends[0].default_topic, broker.sends[0].default_topic_queues) == ("TBW102", 4)


async def test_a_name_service_that_has_just_started_is_asked_again_and_costs_no_attempt() -> None:
    async with running() as broker, Producer([broker.address], options=ProducerOptions(attempts_max=1)) as producer:
        broker.topics["T"] = 1
        broker.just_started = 2
        assert (await producer.send("T", Outgoing(b"x"))).code == 0
        assert broker.just_started == 0


async def test_where_one_name_service_has_just_started_another_one_is_asked() -> None:
    options = ProducerOptions(seconds=1)
    async with running() as young, running() as broker:
        young.just_started = 1_000_000
        broker.topics["T"] = 1
        async with Producer([young.address, broker.address], options=options) as producer:
            assert (await producer.send("T", Outgoing(b"x"))).code == 0


async def test_a_topic_that_has_left_routes_is_sent_to_where_it_was() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        await producer.send("T", Outgoing(b"x"))
        del broker.topics["T"], broker.topics["TBW102"]
        producer._link.routes.doubt("T")
        assert (await producer.send("T", Outgoing(b"y"))).code == 0


async def test_without_auto_create_an_unknown_topic_has_no_route() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        del broker.topics["TBW102"]
        with pytest.raises(NoRoute, match="New"):
            await producer.send("New", Outgoing(b"x"))


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_codes_that_mean_not_now_are_tried_again_with_the_same_key(code: int) -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 2
        broker.faults = [code, code]
        sent = await producer.send("T", Outgoing(b"x"))
        keys = [parse_properties(header.properties or "")["UNIQ_KEY"] for header in broker.sends]
        assert keys == [sent.unique_key] * 3


@pytest.mark.parametrize(("code", "unknown"), [(14, False), (1, True)])
async def test_three_refusals_fail_and_only_a_system_error_leaves_it_unknown(code: int, unknown: bool) -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 2
        broker.faults = [code] * 3
        with pytest.raises(SendFailed) as caught:
            await producer.send("T", Outgoing(b"x"))
        assert (caught.value.attempts, caught.value.unknown) == (3, unknown)
        assert isinstance(caught.value.__cause__, Refused)


async def test_what_only_a_name_service_refused_was_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "JUST_STARTED_SECONDS", 0.0)
    async with running() as broker, Producer([broker.address]) as producer:
        broker.just_started = 1_000_000
        with pytest.raises(SendFailed, match="it was not stored") as caught:
            await producer.send("T", Outgoing(b"x"))
        assert (caught.value.unknown, broker.sends) == (False, [])


@pytest.mark.parametrize("code", [13, 29, 3, 215])
async def test_other_codes_fail_at_once(code: int) -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 2
        broker.faults = [code]
        with pytest.raises(SendFailed, match="refused by the test") as caught:
            await producer.send("T", Outgoing(b"x"))
        assert (caught.value.attempts, caught.value.unknown, len(broker.sends)) == (1, False, 1)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_weaker_acknowledgement_is_passed_on(code: int) -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        broker.faults = [code]
        assert (await producer.send("T", Outgoing(b"x"))).code == code
        assert len(broker.sends) == 1


async def test_a_cut_connection_is_replaced_and_the_message_sent_again() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        broker.faults = ["cut"]
        sent = await producer.send("T", Outgoing(b"x"))
        assert sent.queue_offset == 1  # the first attempt was stored too: the double has the same key
        assert len(broker.log["T", 0]) == 2


async def test_a_send_whose_connection_is_always_cut_is_unknown() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        broker.faults = ["cut"] * 3
        with pytest.raises(SendFailed, match="may have been stored") as caught:
            await producer.send("T", Outgoing(b"x"))
        assert caught.value.unknown
        assert isinstance(caught.value.__cause__, ConnectionLost)


async def test_a_send_that_is_never_answered_ends_within_its_time_as_unknown() -> None:
    options = ProducerOptions(seconds=0.2)
    async with running() as broker, Producer([broker.address], options=options) as producer:
        broker.topics["T"] = 1
        broker.faults = ["silent"]
        with pytest.raises(SendFailed) as caught:
            await producer.send("T", Outgoing(b"x"))
        assert caught.value.unknown
        assert isinstance(caught.value.__cause__, RequestTimeout)


async def test_the_time_of_a_send_bounds_the_way_to_the_broker_too() -> None:
    """A name service that has only just started, and says so for seconds."""
    options = ProducerOptions(seconds=0.2)
    async with running() as broker, Producer([broker.address], options=options) as producer:
        broker.topics["T"] = 1
        broker.just_started = 1_000_000
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(Unreachable, match=r"within 0\.2 s"):
            await producer.send("T", Outgoing(b"x"))
        assert loop.time() - begun < 2
        assert broker.sends == []


async def test_an_attempt_for_which_no_time_was_left_is_not_counted() -> None:
    options = ProducerOptions(seconds=0.2)
    async with running() as broker, Producer([broker.address], options=options) as producer:
        broker.topics["T"] = 1
        broker.faults = ["silent"]
        with pytest.raises(SendFailed, match="in 1 attempt, ") as caught:
            await producer.send("T", Outgoing(b"x"))
        assert (caught.value.attempts, len(broker.sends)) == (1, 1)


async def test_after_a_send_that_a_hung_leader_took_all_the_time_of_the_next_one_asks_who_leads() -> None:
    options = ProducerOptions(seconds=0.2)
    async with running() as broker, running() as successor, Producer([broker.address], options=options) as producer:
        broker.topics["T"] = successor.topics["T"] = 1
        await producer.send("T", Outgoing(b"1"))
        broker.faults = ["silent"] * 2
        broker.leader = successor.address
        with pytest.raises(SendFailed, match="in 1 attempt, "):
            await producer.send("T", Outgoing(b"2"))
        await producer.send("T", Outgoing(b"3"))
        assert successor.bodies == [b"3"]


async def test_a_connection_that_does_not_answer_in_time_is_used_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lead to a host that is gone, while others answer at the same address."""
    monkeypatch.setattr(peers, "RETIRED_SECONDS", 0.01)
    options = ProducerOptions(seconds=0.2)
    async with running() as broker, Producer([broker.address], options=options) as producer:
        broker.topics["T"] = 1
        first = await producer._link.peers.get(broker.address)
        broker.faults = ["silent"]
        with pytest.raises(SendFailed):
            await producer.send("T", Outgoing(b"1"))
        await producer.send("T", Outgoing(b"2"))
        assert await producer._link.peers.get(broker.address) is not first
        async with asyncio.timeout(5):
            while not first.closed:
                await asyncio.sleep(0)


async def test_what_is_open_on_such_a_connection_may_still_be_answered() -> None:
    options = ProducerOptions(seconds=0.2)
    async with running() as broker:
        broker.topics["T"] = 1
        producer = Producer([broker.address], options=options)
        first = await producer._link.peers.get(broker.address)
        pull = PullMessageHeader(
            consumer_group="g", topic="T", queue_id=0, queue_offset=0, messages_max=1, sys_flag=PullFlag.SUSPEND,
            commit_offset=0, suspend_timeout_ms=5000, subscription_version=0,
        )  # fmt: skip
        waits = asyncio.create_task(first.call(Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(pull)), seconds=5))
        broker.faults = ["silent"]
        with pytest.raises(SendFailed):
            await producer.send("T", Outgoing(b"1"))
        broker.wake()
        assert (await waits).body
        await producer.close()
        assert first.closed


async def test_a_message_that_fits_no_frame_is_told_as_one_that_cannot_be_sent() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        with pytest.raises(Unsendable, match="the limit is 16777216"):
            await producer.send("T", Outgoing(bytes(17 << 20)))
        assert (await producer.send("T", Outgoing(b"x"))).queue_offset == 0


async def test_an_answer_that_does_not_say_where_the_message_is_leaves_it_unknown() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        answer = broker._answers[RequestCode.SEND_MESSAGE_V2]

        def without_offset(session: NetSession, frame: Frame) -> Frame | None:
            stored = answer(session, frame)
            assert stored is not None
            del stored.ext["queueOffset"]
            return stored

        broker._answers[RequestCode.SEND_MESSAGE_V2] = without_offset
        with pytest.raises(SendFailed, match="queueOffset is missing") as caught:
            await producer.send("T", Outgoing(b"x"))
        assert (caught.value.unknown, len(broker.sends)) == (True, 1)


async def test_a_batch_is_one_request() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        sent = await producer.send_batch("T", [Outgoing(b"a", tag="A"), Outgoing(b"b"), Outgoing(b"c")])
        assert sent.queue_offset == 0
        assert len(broker.log["T", 0]) == 3
        assert [header.batch for header in broker.sends] == [True]


@pytest.mark.parametrize("size", [60_000, 100_000, 3_000_000])
async def test_a_body_that_shrinks_to_nearly_nothing_can_be_read_again(size: int) -> None:
    async with running() as broker, Producer([broker.address]) as producer, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 1
        await producer.send("T", Outgoing(bytes(size)))
        await consumer.assign("T")
        (received,) = await consumer.poll(seconds=5)
        assert received.message.body == bytes(size)
        assert consumer.faults == {}


async def test_a_large_body_is_compressed() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        body = b"compress me " * 1000
        await producer.send("T", Outgoing(body))
        assert zlib.decompress(broker.bodies[0]) == body
        assert broker.sends[0].sys_flag == 0x301


async def test_oneway_messages_arrive() -> None:
    async with running() as broker, Producer([broker.address]) as producer:
        broker.topics["T"] = 1
        for n in range(3):
            await producer.send_oneway("T", Outgoing(b"%d" % n))
        await producer.send("T", Outgoing(b"last"))
        assert broker.bodies == [b"0", b"1", b"2", b"last"]


async def test_a_producer_makes_itself_known() -> None:
    async with running() as broker, Producer([broker.address], "my-group") as producer:
        broker.topics["T"] = 1
        await producer.send("T", Outgoing(b"x"))
        await producer.send("T", Outgoing(b"x"))
        assert [[each.group for each in beat.producers] for beat in broker.heartbeats] == [["my-group"]]


async def test_no_name_server_is_named_and_another_one_is_asked() -> None:
    async with running() as broker:
        broker.topics["T"] = 1
        async with Producer(["127.0.0.1:1", broker.address]) as producer:
            assert (await producer.send("T", Outgoing(b"x"))).queue_offset == 0
        async with Producer(["127.0.0.1:1"]) as producer:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
                await producer.send("T", Outgoing(b"x"))


def test_unique_keys_are_unique_and_readable_by_rocketmqs_tools() -> None:
    keys = UniqueKeys()
    made = [keys.next() for _ in range(10_000)]
    assert len(set(made)) == 10_000
    assert {len(key) for key in made} == {32}
    assert made[0].startswith("7F000001")


async def test_a_broker_that_no_route_names_any_more_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HEARTBEAT_SECONDS", 0.01)
    async with running() as broker, running() as successor, Producer([broker.address]) as producer:
        broker.topics["T"] = successor.topics["T"] = 1
        await producer.send("T", Outgoing(b"x"))
        broker.address = successor.address  # the name service names another one
        producer._link.routes.forget("T")
        await producer.send("T", Outgoing(b"x"))
        async with asyncio.timeout(5):
            while len(producer._link.guard) > 1:
                await asyncio.sleep(0)
        count = len(successor.heartbeats)
        async with asyncio.timeout(5):
            while len(successor.heartbeats) < count + 3:
                await asyncio.sleep(0)
