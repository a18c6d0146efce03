"""Reading: order, filters, offsets, long polls."""

import asyncio
from typing import Literal

import pytest

from logherd.client import consumer as consumer_module
from logherd.client.consumer import Consumer, ConsumerOptions
from logherd.client.errors import Refused, Unreachable
from logherd.client.producer import Outgoing, Producer
from logherd.model.record import SysFlag
from logherd.net.connection import Connection
from logherd.net.session import NetSession
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.compression import compress_body
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.pull import PullMessageHeader, PullMessageResponse
from unit.client.fake_broker import FakeBroker, running


async def read(consumer: Consumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        received = await consumer.poll(messages_max=count - len(bodies), seconds=5)
        assert received
        bodies += [each.message.body for each in received]
    return bodies


def stored(broker: FakeBroker, count: int, queue_id: int = 0) -> None:
    broker.topics.setdefault("T", 1)
    for n in range(count):
        broker.store("T", queue_id, b"%d" % n)


async def test_messages_arrive_in_the_order_of_their_queue() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 100)
        await consumer.assign("T")
        assert await read(consumer, 100) == [b"%d" % n for n in range(100)]


async def test_all_queues_are_read() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 3
        for queue_id in range(3):
            stored(broker, 5, queue_id)
        await consumer.assign("T")
        assert sorted(await read(consumer, 15)) == sorted([b"%d" % n for n in range(5)] * 3)


async def test_an_assignment_that_failed_half_way_may_be_made_again() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 2
        stored(broker, 2, queue_id=0)
        answer = broker._answers[RequestCode.GET_MIN_OFFSET]
        asked: list[Frame] = []

        def second_refused(session: NetSession, frame: Frame) -> Frame | None:
            asked.append(frame)
            refused = Frame(ResponseCode.SYSTEM_BUSY, frame.opaque, flag=Flag.RESPONSE)
            return refused if len(asked) == 2 else answer(session, frame)

        broker._answers[RequestCode.GET_MIN_OFFSET] = second_refused
        with pytest.raises(Refused):
            await consumer.assign("T")
        await consumer.assign("T")
        assert await read(consumer, 2) == [b"0", b"1"]
        assert await consumer.poll(seconds=0.05) == []  # no queue is read twice


async def test_only_assigned_queues_are_read() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 2
        stored(broker, 2, 0)
        stored(broker, 2, 1)
        await consumer.assign("T", queues=(await consumer.queues("T"))[1:])
        received = await consumer.poll(seconds=5)
        assert {each.queue.queue_id for each in received} == {1}
        assert await consumer.poll(seconds=0.05) == []


async def test_what_was_polled_is_committed_and_not_read_again() -> None:
    async with running() as broker:
        stored(broker, 10)
        async with Consumer([broker.address], "g") as consumer:
            await consumer.assign("T")
            assert len(await read(consumer, 4)) == 4
            await consumer.commit()
        assert broker.offsets == {("g", "T", 0): 4}
        async with Consumer([broker.address], "g") as consumer:
            await consumer.assign("T")
            assert (await read(consumer, 1)) == [b"4"]
        async with Consumer([broker.address], "g") as consumer:
            await consumer.assign("T", start="first")
            assert (await read(consumer, 1)) == [b"0"]


@pytest.mark.parametrize(("start", "left"), [("first", {0: 0, 1: 0}), ("last", {0: 3, 1: 2})])
async def test_where_reading_was_told_to_begin_is_committed_also_of_a_queue_of_which_nothing_came(
    start: Literal["first", "last"], left: dict[int, int]
) -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 2
        for queue in (0, 0, 0, 1, 1):
            broker.store("T", queue, b"x")
        broker.offsets.update({("g", "T", 0): 2, ("g", "T", 1): 1})
        await consumer.assign("T", start=start)
        await consumer.commit()
        assert broker.offsets == {("g", "T", queue): offset for queue, offset in left.items()}


@pytest.mark.parametrize("fault", ["cut", ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR])
async def test_a_commit_outlasts_a_change_of_leader(monkeypatch: pytest.MonkeyPatch, fault: str | int) -> None:
    monkeypatch.setattr(consumer_module, "ERROR_PAUSE_SECONDS", 0.01)
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 1
        broker.store("T", 0, b"x")
        await consumer.assign("T")
        await read(consumer, 1)
        store, faults = broker._answers[RequestCode.UPDATE_CONSUMER_OFFSET], [fault]

        def fail_once(session: NetSession, frame: Frame) -> Frame | None:
            if not faults:
                return store(session, frame)
            if faults.pop() == "cut":
                session.abort()
                return None
            return Frame(int(fault), frame.opaque, flag=Flag.RESPONSE)

        broker._answers[RequestCode.UPDATE_CONSUMER_OFFSET] = fail_once
        await consumer.commit()
        assert broker.offsets["g", "T", 0] == 1
        assert not faults


async def test_a_commit_that_is_refused_for_good_is_told_at_once() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 1
        broker.store("T", 0, b"x")
        await consumer.assign("T")
        await read(consumer, 1)
        asked: list[Frame] = []

        def refuse(_: NetSession, frame: Frame) -> Frame:
            asked.append(frame)
            return Frame(ResponseCode.NO_PERMISSION, frame.opaque, flag=Flag.RESPONSE)

        broker._answers[RequestCode.UPDATE_CONSUMER_OFFSET] = refuse
        with pytest.raises(Refused):
            await consumer.commit()
        assert len(asked) == 1


async def test_a_commit_without_progress_asks_nothing() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 1)
        await consumer.assign("T")
        await read(consumer, 1)
        await consumer.commit()
        broker.offsets.clear()
        await consumer.commit()
        assert broker.offsets == {}


async def test_a_parked_pull_brings_a_new_message() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 1
        await consumer.assign("T", start="last")
        polling = asyncio.create_task(consumer.poll(seconds=5), name="poll")
        async with asyncio.timeout(5):
            while not broker.parked:
                await asyncio.sleep(0)
        broker.store("T", 0, b"new")
        broker.wake()
        assert [each.message.body for each in await polling] == [b"new"]


async def test_other_tags_are_dropped_and_count_as_read() -> None:
    async with running() as broker, Consumer([broker.address], "g", tags=["A", "B"]) as consumer:
        broker.topics["T"] = 1
        for tag in "ACBC":
            broker.store("T", 0, tag.encode(), b"TAGS\x01%c\x02" % ord(tag))
        await consumer.assign("T")
        assert await read(consumer, 1) == [b"A"]
        await consumer.commit()
        assert broker.offsets["g", "T", 0] == 1
        assert await read(consumer, 1) == [b"B"]
        await consumer.commit()
        assert broker.offsets["g", "T", 0] == 4
        [subscription] = broker.heartbeats[0].consumers[0].subscriptions
        assert (subscription.expression, list(subscription.codes)) == ("A || B", [65, 66])


async def test_what_the_broker_filters_away_counts_as_read() -> None:
    async with running() as broker, Consumer([broker.address], "g", tags=["A"]) as consumer:
        broker.topics["T"] = 1
        broker.store("T", 0, b"mine", b"TAGS\x01A\x02")
        read_on = broker._answers[RequestCode.PULL_MESSAGE]
        pulled: list[int] = []

        def filtered(session: NetSession, frame: Frame) -> Frame | None:
            offset = decode_header(PullMessageHeader, frame.ext).queue_offset
            pulled.append(offset)
            if not 1 <= offset < 20:
                return read_on(session, frame)
            reached = PullMessageResponse(next_begin_offset=20, min_offset=0, max_offset=20)
            return Frame(
                ResponseCode.PULL_RETRY_IMMEDIATELY, frame.opaque, flag=Flag.RESPONSE, ext=encode_header(reached)
            )

        broker._answers[RequestCode.PULL_MESSAGE] = filtered
        await consumer.assign("T")
        assert await read(consumer, 1) == [b"mine"]
        await consumer.commit()
        assert broker.offsets["g", "T", 0] == 1
        while 20 not in pulled:
            await asyncio.sleep(0)
        assert await consumer.poll(seconds=0.05) == []
        await consumer.commit()
        assert broker.offsets["g", "T", 0] == 20


async def test_compressed_messages_arrive_as_they_were_sent() -> None:
    async with running() as broker, Producer([broker.address]) as producer, Consumer([broker.address], "g") as consumer:
        broker.topics["T"] = 1
        await producer.send("T", Outgoing(b"again " * 2000, keys=["k"]))
        await consumer.assign("T")
        [received] = await consumer.poll(seconds=5)
        assert received.message.body == b"again " * 2000
        assert received.message.keys == ["k"]


async def test_the_ends_of_a_queue_can_be_asked() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 7)
        [queue] = await consumer.queues("T")
        assert (await consumer.first_offset(queue), await consumer.next_offset(queue)) == (0, 7)
        assert await consumer.offset_at(queue, 1003) == 3
        assert await consumer.committed(queue) is None


async def test_reading_ahead_is_bounded() -> None:
    options = ConsumerOptions(ahead_bytes=2000, messages_max=1)
    async with running() as broker, Consumer([broker.address], "g", options=options) as consumer:
        broker.topics["T"] = 1
        for _ in range(50):
            broker.store("T", 0, bytes(500))
        await consumer.assign("T")
        await consumer.poll(messages_max=1, seconds=5)
        async with asyncio.timeout(5):
            while consumer._ahead.weight < 1500:
                await asyncio.sleep(0)
        assert consumer._ahead.weight <= 2000
        assert len(await read(consumer, 49)) == 49


async def test_what_is_read_ahead_weighs_what_its_bodies_have_become() -> None:
    packed, bits = compress_body(bytes(100_000))
    async with running() as broker:
        broker.topics["T"] = 1
        for _ in range(2):
            broker.store("T", 0, packed, sys_flag=SysFlag.COMPRESSED | bits)
        async with Consumer([broker.address], "g", options=ConsumerOptions(messages_max=1)) as consumer:
            await consumer.assign("T", start="first")
            async with asyncio.timeout(10):
                while not consumer._ahead.weight:
                    await asyncio.sleep(0)
            assert consumer._ahead.weight >= 100_000


async def test_a_closed_consumer_leaves_no_task() -> None:
    async with running() as broker:
        consumer = Consumer([broker.address], "g")
        stored(broker, 1)
        await consumer.assign("T")
        await consumer.close()
        assert len(consumer._link.guard) == 0
        with pytest.raises(Unreachable):
            await consumer.queues("Other")


async def test_a_consumer_makes_itself_known_to_who_leads_next() -> None:
    async with running() as broker, running() as next_one:
        stored(broker, 2)
        stored(next_one, 3)
        async with Consumer([broker.address], "g") as consumer:
            await consumer.assign("T")
            assert await read(consumer, 2) == [b"0", b"1"]
            while not broker.parked:
                await asyncio.sleep(0)
            broker.leader = next_one.address
            for session, _ in broker.parked:
                session.abort()
            assert await read(consumer, 1) == [b"2"]
            assert [[each.group for each in beat.consumers] for beat in next_one.heartbeats] == [["g"]]


async def test_a_consumer_reads_on_when_the_name_service_has_named_what_is_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 1)
        await consumer.assign("T")
        assert await read(consumer, 1) == [b"0"]
        while not broker.parked:
            await asyncio.sleep(0)
        peers, used = consumer._link.peers, list[str]()
        connection_to = peers.get

        async def noted(address: str) -> Connection:
            used.append(address)
            return await connection_to(address)

        monkeypatch.setattr(peers, "get", noted)
        address, broker.address = broker.address, "nowhere"
        consumer._link.routes.forget("T")
        broker.wake()
        async with asyncio.timeout(5):
            while "nowhere" not in used:
                await asyncio.sleep(0)
        broker.address = address
        stored(broker, 1)
        assert len(await read(consumer, 1)) == 1


async def test_a_consumer_whose_broker_lives_reads_on_while_no_name_server_answers() -> None:
    async with running() as broker:
        stored(broker, 1)
        async with running() as names:
            names.topics["T"], names.leader = 1, broker.address
            consumer = Consumer([names.address], "g")
            await consumer.assign("T")
            assert await read(consumer, 1) == [b"0"]
            while not broker.parked:
                await asyncio.sleep(0)
        async with consumer:
            for session, _ in broker.parked:
                session.abort()
            stored(broker, 1)
            assert len(await read(consumer, 1)) == 1


async def test_a_consumer_that_is_told_to_pull_again_does_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "ERROR_PAUSE_SECONDS", 60.0)
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 2)
        answer, told = broker._answers[RequestCode.PULL_MESSAGE], 0

        def again(session: NetSession, frame: Frame) -> Frame | None:
            nonlocal told
            told += 1
            if told <= 2:
                return Frame(ResponseCode.FLOW_CONTROL, frame.opaque, flag=Flag.RESPONSE, remark="pull again")
            return answer(session, frame)

        broker._answers[RequestCode.PULL_MESSAGE] = again
        await consumer.assign("T")
        assert await read(consumer, 2) == [b"0", b"1"]
        assert not consumer.faults


async def test_a_commit_after_a_reset_does_not_undo_it() -> None:
    async with running() as broker, Consumer([broker.address], "g") as consumer:
        stored(broker, 5)
        answer, pulled = broker._answers[RequestCode.PULL_MESSAGE], list[int]()

        def reset(session: NetSession, frame: Frame) -> Frame | None:
            pulled.append(decode_header(PullMessageHeader, frame.ext).queue_offset)
            if pulled != [0, 5]:
                return answer(session, frame)
            moved = PullMessageResponse(next_begin_offset=2, min_offset=0, max_offset=5)
            return Frame(ResponseCode.PULL_OFFSET_MOVED, frame.opaque, flag=Flag.RESPONSE, ext=encode_header(moved))

        broker._answers[RequestCode.PULL_MESSAGE] = reset
        await consumer.assign("T")
        assert len(await read(consumer, 5)) == 5
        async with asyncio.timeout(5):
            while 2 not in pulled:
                await asyncio.sleep(0)
        await consumer.commit()
        assert broker.offsets == {}
        assert await read(consumer, 1) == [b"2"]
        await consumer.commit()
        assert broker.offsets == {("g", "T", 0): 3}


async def test_after_a_reset_nothing_comes_that_was_read_ahead_before_it() -> None:
    """It is read again; a commit over it would undo the reset for whoever reads for the group next."""
    options = ConsumerOptions(messages_max=1)
    async with running() as broker, Consumer([broker.address], "g", options=options) as consumer:
        stored(broker, 5)
        broker.topics["T"] = 2
        stored(broker, 2, queue_id=1)
        answer, pulled = broker._answers[RequestCode.PULL_MESSAGE], list[int]()

        def reset(session: NetSession, frame: Frame) -> Frame | None:
            header = decode_header(PullMessageHeader, frame.ext)
            if header.queue_id == 0:
                pulled.append(header.queue_offset)
                if pulled == [0, 1, 2, 3, 4, 5]:
                    moved = PullMessageResponse(next_begin_offset=2, min_offset=0, max_offset=5)
                    ext = encode_header(moved)
                    return Frame(ResponseCode.PULL_OFFSET_MOVED, frame.opaque, flag=Flag.RESPONSE, ext=ext)
            return answer(session, frame)

        broker._answers[RequestCode.PULL_MESSAGE] = reset
        await consumer.assign("T")
        async with asyncio.timeout(5):
            while pulled[-1:] != [5] or len(pulled) < 10:
                await asyncio.sleep(0)
        received = [(await consumer.poll(messages_max=1, seconds=5))[0] for _ in range(5)]
        assert [each.message.body for each in received if each.queue.queue_id == 0] == [b"2", b"3", b"4"]
        assert [each.message.body for each in received if each.queue.queue_id == 1] == [b"0", b"1"]
        await consumer.commit()
        assert broker.offsets == {("g", "T", 0): 5, ("g", "T", 1): 2}
