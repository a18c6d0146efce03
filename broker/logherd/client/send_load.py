"""A pipelined load of sends that costs the machine little: frames are encoded once and patched per message.

Each connection keeps its share of the window in flight: every answer is followed by one new message, and all messages
that one read makes room for leave in one write.
"""

import asyncio
import json
import re
import time
from array import array
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from struct import Struct
from typing import cast

from logherd.aiokit.dialing import dial
from logherd.client.report import Latency, LoadReport
from logherd.kit.errors import ensure
from logherd.wire.batch import BatchMessage, encode_batch
from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.send import SendMessageHeaderV2

__all__ = ["SendLoad", "run_send_load"]

_LENGTH = Struct(">I")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CODE = re.compile(rb'"code":(-?\d+)')
_REMARK = re.compile(rb'"remark":("(?:[^"\\]|\\.)*")')
_SUCCESS = b'"code":0,'
OPAQUE_FIRST = 1_000_000_000
OPAQUE_LAST = 2_147_483_647
_UNIQUE_MARK = "U" * 32
_PROPERTIES = f"UNIQ_KEY\x01{_UNIQUE_MARK}\x02WAIT\x01true\x02"
DRAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLoad:
    """What to send. The topic must exist with at least `queues` queues; bodies have `size` bytes.

    `window` messages are in flight in all, spread over `connections`, `batch` of them in each request. The first
    `warmup_seconds` are not measured.
    """

    host: str
    port: int
    topic: str
    queues: int = 8
    size: int = 1024
    window: int = 512
    batch: int = 1
    connections: int = 2
    seconds: float = 10.0
    warmup_seconds: float = 1.0
    broker_name: str = "broker-a"


async def run_send_load(load: SendLoad) -> LoadReport:
    """Send for the given time and report. Answers that are still open at the end are waited for, but not counted.

    Raises: OSError if the broker cannot be reached.
    """
    ensure(1 <= load.connections * load.batch <= load.window, "each connection has a request in flight", load)
    run = _Run(load)
    lanes = [_Lane(run, number) for number in range(load.connections)]
    for lane in lanes:
        await dial(lambda lane=lane: lane, load.host, load.port)  # type: ignore[misc]
    try:
        for lane in lanes:
            lane.fill(load.window // (load.connections * load.batch))
        await asyncio.sleep(load.warmup_seconds)
        run.start_measuring()
        await asyncio.sleep(load.seconds)
        report = run.report()
        run.stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(lane.drained for lane in lanes))
        return run.report_with_lost(report, sum(lane.in_flight for lane in lanes))
    finally:
        for lane in lanes:
            lane.close()


class _Run:
    """What the lanes of one run share: the patched frames and the counters."""

    def __init__(self, load: SendLoad) -> None:
        self.load = load
        self.templates = [_template(load, queue) for queue in range(load.queues)]
        self.stopping = False
        self.lost = 0
        self.latencies = array("d")
        self.refused: Counter[int] = Counter()
        self.refusal = ""
        self._answers_before = 0
        self._started_at = time.perf_counter()
        self._cpu_before = time.process_time()
        self.answers = 0

    def start_measuring(self) -> None:
        self.latencies = array("d")
        self.refused.clear()
        self.refusal = ""
        self._answers_before = self.answers
        self._started_at = time.perf_counter()
        self._cpu_before = time.process_time()

    def report(self) -> LoadReport:
        seconds = time.perf_counter() - self._started_at
        cpu = time.process_time() - self._cpu_before
        messages = (self.answers - self._answers_before - sum(self.refused.values())) * self.load.batch
        return LoadReport(
            messages=messages, bytes=messages * self.load.size, seconds=seconds, latency=Latency.of(self.latencies),
            refused=dict(self.refused), lost=self.lost, client_cpu_seconds=cpu, refusal=self.refusal,
        )  # fmt: skip

    def report_with_lost(self, report: LoadReport, unanswered: int) -> LoadReport:
        """The report once nothing more is waited for: connections may have ended since."""
        return replace(report, lost=self.lost + unanswered)


class _Lane(asyncio.Protocol):
    """One connection. `_sent_at` has the time of each message in flight, by opaque."""

    def __init__(self, run: _Run, number: int) -> None:
        self._run = run
        self._transport: asyncio.WriteTransport | None = None
        self._tail = b""
        self._sent_at: dict[int, float] = {}
        span = (OPAQUE_LAST - OPAQUE_FIRST) // run.load.connections
        self._opaque_first = self._opaque = OPAQUE_FIRST + number * span
        self._opaque_last = self._opaque_first + span - 1
        self._unique = (time.time_ns() << 40) + (number << 96)
        self._batch = run.load.batch
        self.drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def in_flight(self) -> int:
        return len(self._sent_at)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def fill(self, count: int) -> None:
        """Send `count` messages in one write."""
        if self._transport is None:
            return
        templates, sent_at = self._run.templates, self._sent_at
        queues = len(templates)
        opaque, unique = self._opaque, self._unique
        if opaque + count > self._opaque_last:
            opaque = self._opaque_first
        frames = []
        now = time.perf_counter()
        for number in range(opaque, opaque + count):
            keys = () if self._batch == 1 else range(unique + number * self._batch, unique + (number + 1) * self._batch)
            frames.append(templates[number % queues] % (unique + number, number, *keys))
            sent_at[number] = now
        self._opaque = opaque + count
        self._transport.write(b"".join(frames))

    def data_received(self, data: bytes) -> None:
        if self._tail:
            data = self._tail + data
        end, at, size_of = len(data), 0, _LENGTH.unpack_from
        while end - at >= 4:
            stop: int = at + 4 + size_of(data, at)[0]
            if stop > end:
                break
            at = stop
        self._tail = data[at:]
        if at:
            self._count(data[:at] if at < end else data)

    def _count(self, answers: bytes) -> None:
        now = time.perf_counter()
        run, sent_at = self._run, self._sent_at
        opaques = _OPAQUE.findall(answers)
        run.latencies.extend([now - sent_at.pop(int(opaque)) for opaque in opaques])
        run.answers += len(opaques)
        if answers.count(_SUCCESS) != len(opaques):
            run.refused.update(code for code in map(int, _CODE.findall(answers)) if code != 0)
            if not run.refusal and (remark := _REMARK.search(answers)) is not None:
                run.refusal = json.loads(remark[1])
        if not run.stopping:
            self.fill(len(opaques))
        elif not sent_at and not self.drained.done():
            self.drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the number of lost ones is reported
        self._transport = None
        self._run.lost += len(self._sent_at)
        self._sent_at.clear()
        if not self.drained.done():
            self.drained.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _template(load: SendLoad, queue_id: int) -> bytes:
    """The frame of one request as a format with holes of fixed width: the unique key, the opaque, and in a batch the
    unique key of each message.

    Source: the order of the keys in RocketMQ's JSON header puts extFields before opaque.
    """
    header = SendMessageHeaderV2(
        producer_group="logherd-bench", topic=load.topic, default_topic="TBW102", default_topic_queues=4,
        queue_id=queue_id, sys_flag=0, born_timestamp=time.time_ns() // 1_000_000, flag=0,
        properties=_PROPERTIES, reconsume_times=0, unit_mode=False, batch=load.batch > 1, broker_name=load.broker_name,
    )  # fmt: skip
    body = bytes(32 + n % 95 for n in range(load.size))
    code = RequestCode.SEND_MESSAGE_V2
    if load.batch > 1:
        code, body = (
            RequestCode.SEND_BATCH_MESSAGE,
            encode_batch([BatchMessage(0, body, _PROPERTIES.encode())] * load.batch),
        )
    frame = encode_frame(Frame(code, OPAQUE_FIRST, ext=encode_header(header), body=body)).replace(b"%", b"%%")
    unique, opaque = _UNIQUE_MARK.encode(), b'"opaque":%d' % OPAQUE_FIRST
    ensure(0 < frame.find(unique) < frame.find(opaque), "the unique key stands before the opaque")
    return frame.replace(unique, b"%032X").replace(opaque, b'"opaque":%d', 1)
