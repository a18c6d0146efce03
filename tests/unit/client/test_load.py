"""The load generators send and read what they say, and count only that."""

import pytest

from logherd.client import send_load as send_load_module
from logherd.client.pull_load import PullLoad, run_pull_load
from logherd.client.report import Latency, LoadReport
from logherd.client.send_load import SendLoad, run_send_load
from logherd.model.properties import parse_properties
from logherd.net.session import NetSession
from logherd.wire.batch import decode_batch
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from unit.client.fake_broker import FakeBroker, running


def where(broker: FakeBroker) -> tuple[str, int]:
    host, port = broker.address.split(":")
    return host, int(port)


@pytest.mark.parametrize("connections", [1, 3])
async def test_every_message_is_whole_unique_and_spread_over_the_queues(connections: int) -> None:
    async with running() as broker:
        host, port = where(broker)
        load = SendLoad(
            host=host, port=port, topic="T", queues=4, size=100, window=9, connections=connections, seconds=0.2,
            warmup_seconds=0.05,
        )  # fmt: skip
        report = await run_send_load(load)
        assert 0 < report.messages <= len(broker.sends)
        assert (report.refused, report.lost) == ({}, 0)
        assert report.bytes == report.messages * 100
        keys = {parse_properties(header.properties or "")["UNIQ_KEY"] for header in broker.sends}
        assert len(keys) == len(broker.sends)
        assert {len(body) for body in broker.bodies} == {100}
        assert {header.queue_id for header in broker.sends} == {0, 1, 2, 3}
        assert 0 < report.latency.p50 <= report.latency.p99 <= report.latency.p999 <= report.latency.maximum


async def test_a_batch_has_as_many_whole_and_unique_messages_as_were_asked_for() -> None:
    async with running() as broker:
        host, port = where(broker)
        load = SendLoad(
            host=host, port=port, topic="T", queues=4, size=100, window=64, batch=16, connections=2, seconds=0.2,
            warmup_seconds=0.05,
        )  # fmt: skip
        report = await run_send_load(load)
        units = [unit for body in broker.bodies for unit in decode_batch(body)]
        assert 0 < report.messages <= len(units) == 16 * len(broker.sends)
        assert report.messages % 16 == 0
        assert report.bytes == report.messages * 100
        assert all(header.batch for header in broker.sends)
        assert {len(body) for _, body, _ in units} == {100}
        keys = {parse_properties(bytes(properties).decode())["UNIQ_KEY"] for _, _, properties in units}
        assert len(keys) == len(units)


async def test_refusals_are_counted_by_code_and_not_as_messages() -> None:
    async with running() as broker:
        host, port = where(broker)
        broker.faults = [14] * 1_000_000
        load = SendLoad(host=host, port=port, topic="T", window=4, connections=1, seconds=0.1, warmup_seconds=0)
        report = await run_send_load(load)
        assert report.messages == 0
        assert set(report.refused) == {14}
        assert report.refused[14] > 0
        assert "code 14" in report.text()
        assert report.refusal == "refused by the test"


async def test_a_lost_connection_ends_the_run_and_is_counted() -> None:
    async with running() as broker:
        host, port = where(broker)
        broker.faults = [0, 0, "cut"]
        load = SendLoad(host=host, port=port, topic="T", window=4, connections=1, seconds=0.1, warmup_seconds=0)
        report = await run_send_load(load)
        assert report.lost > 0


async def test_what_is_lost_after_the_time_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker ends when the load does, and with it what was still under way."""
    sessions: list[NetSession] = []
    monkeypatch.setattr(FakeBroker, "on_open", lambda _, session: sessions.append(session))
    made = send_load_module._Run.report

    def report(run: send_load_module._Run) -> LoadReport:
        for session in sessions:
            session.abort()
        return made(run)

    monkeypatch.setattr(send_load_module._Run, "report", report)
    async with running() as broker:
        host, port = where(broker)
        broker.faults = ["silent"] * 4
        load = SendLoad(host=host, port=port, topic="T", window=4, connections=1, seconds=0.1, warmup_seconds=0)
        assert (await run_send_load(load)).lost == 4


async def test_a_pull_load_counts_the_messages_of_every_queue() -> None:
    async with running() as broker:
        host, port = where(broker)
        for queue_id in range(4):
            for _ in range(100):
                broker.store("T", queue_id, bytes(200))
        load = PullLoad(
            host=host, port=port, topic="T", queues=4, messages_max=7, seconds=5, warmup_seconds=0, repeat=False
        )
        report = await run_pull_load(load)
        assert report.messages == 400
        assert report.bytes == sum(len(record) for queue in broker.log.values() for record in queue)
        assert (report.refused, report.lost) == ({}, 0)


async def test_a_pull_load_pulls_again_what_it_is_told_to() -> None:
    async with running() as broker:
        host, port = where(broker)
        broker.store("T", 0, b"x")
        pull, told = broker._answers[RequestCode.PULL_MESSAGE], list[Frame]()

        def answer(session: NetSession, frame: Frame) -> Frame | None:
            if len(told) == 2:
                return pull(session, frame)
            told.append(frame)
            return Frame(ResponseCode.FLOW_CONTROL, frame.opaque, flag=Flag.RESPONSE)

        broker._answers[RequestCode.PULL_MESSAGE] = answer
        load = PullLoad(host=host, port=port, topic="T", queues=1, seconds=5, warmup_seconds=0, repeat=False)
        report = await run_pull_load(load)
        assert (report.messages, report.refused, len(told)) == (1, {}, 2)


async def test_a_pull_load_reads_again_from_the_start() -> None:
    async with running() as broker:
        host, port = where(broker)
        broker.store("T", 0, b"x")
        load = PullLoad(host=host, port=port, topic="T", queues=1, connections=1, seconds=0.2, warmup_seconds=0)
        assert (await run_pull_load(load)).messages > 10


async def test_a_queue_that_cannot_be_read_is_counted_also_if_that_was_before_the_time_that_is_measured() -> None:
    async with running() as broker:
        host, port = where(broker)
        broker.store("T", 0, b"x")
        read = broker._answers[RequestCode.PULL_MESSAGE]

        def refuse_the_second(session: NetSession, frame: Frame) -> Frame | None:
            if frame.ext["queueId"] == "1":
                return Frame(ResponseCode.NO_PERMISSION, frame.opaque, flag=Flag.RESPONSE, remark="not you")
            return read(session, frame)

        broker._answers[RequestCode.PULL_MESSAGE] = refuse_the_second
        load = PullLoad(host=host, port=port, topic="T", queues=2, connections=1, seconds=0.1, warmup_seconds=0.2)
        report = await run_pull_load(load)
        assert report.messages > 0
        assert (report.refused, report.lost) == ({ResponseCode.NO_PERMISSION: 1}, 0)
        assert report.refusal == "not you"


def test_percentiles_are_nearest_rank() -> None:
    latency = Latency.of([n / 1000 for n in range(1000, 0, -1)])
    assert (latency.p50, latency.p99, latency.p999, latency.maximum) == (501.0, 991.0, 1000.0, 1000.0)
    assert Latency.of([]) == Latency(0, 0, 0, 0)
