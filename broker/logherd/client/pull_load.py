"""A load of pulls: every queue is read from its start, each answer is followed by the next pull of that queue."""

import asyncio
import time
from array import array
from collections import Counter
from dataclasses import dataclass
from struct import Struct

from logherd.client.consumer import AGAIN_PAUSE_SECONDS
from logherd.client.report import Latency, LoadReport
from logherd.kit.errors import ensure
from logherd.net.connection import Connection, connect
from logherd.net.errors import NetError
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.pull import PullFlag, PullMessageHeader

__all__ = ["PullLoad", "run_pull_load"]

_SIZE = Struct(">I")
_AT_THE_END = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
PULL_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLoad:
    """What to read. One pull per queue is in flight; the queues are spread over `connections`.

    At the end of a queue it is read again from its start (`repeat`), or that queue is done. The run ends after
    `seconds`, or when all queues are done.
    """

    host: str
    port: int
    topic: str
    queues: int = 8
    connections: int = 2
    messages_max: int = 32
    group: str = "logherd-bench"
    seconds: float = 10.0
    warmup_seconds: float = 1.0
    repeat: bool = True


async def run_pull_load(load: PullLoad) -> LoadReport:
    """Pull for the given time and report; latency is that of one pull, `messages` are counted in the answers' bodies.

    Raises: ConnectFailed if the broker cannot be reached.
    """
    ensure(load.connections >= 1 and load.queues >= 1, "something is read", load)
    run = _Run(load)
    connections = [await connect(load.host, load.port) for _ in range(load.connections)]
    try:
        readers = [_Reader(run, connections[n % load.connections], n) for n in range(load.queues)]
        for reader in readers:
            reader.pull()
        await run.wait(load.warmup_seconds)
        run.start_measuring()
        await run.wait(load.seconds)
        run.stopping = True
        return run.report()
    finally:
        run.stopping = True
        for connection in connections:
            await connection.close()


class _Run:
    """Counters that the queues of one run share."""

    def __init__(self, load: PullLoad) -> None:
        self.load = load
        self.stopping = False
        self.queues_open = load.queues
        self.finished = asyncio.Event()
        # Whoever is refused or lost is read no more, so that one of the warm-up still counts.
        self.lost = 0
        self.refusals: list[tuple[int, str]] = []
        self.start_measuring()

    def start_measuring(self) -> None:
        if not self.finished.is_set():
            self.messages = self.bytes = 0
            self.latencies = array("d")
            self._started_at = self._ended_at = time.perf_counter()
            self._cpu_before = time.process_time()

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.finished.wait()
        except TimeoutError:
            self._ended_at = time.perf_counter()

    def queue_done(self) -> None:
        self.queues_open -= 1
        if self.queues_open == 0:
            self._ended_at = time.perf_counter()
            self.finished.set()

    def report(self) -> LoadReport:
        return LoadReport(
            messages=self.messages, bytes=self.bytes, seconds=self._ended_at - self._started_at,
            latency=Latency.of(self.latencies), refused=dict(Counter(code for code, _ in self.refusals)),
            lost=self.lost, client_cpu_seconds=time.process_time() - self._cpu_before,
            refusal=next((remark for _, remark in self.refusals if remark), ""),
        )  # fmt: skip


class _Reader:
    """One queue."""

    def __init__(self, run: _Run, connection: Connection, queue_id: int) -> None:
        self._run = run
        self._connection = connection
        self._offset = 0
        load = run.load
        # The offset is the only field that changes from pull to pull.
        self._ext = encode_header(
            PullMessageHeader(
                consumer_group=load.group, topic=load.topic, queue_id=queue_id, queue_offset=0,
                messages_max=load.messages_max, sys_flag=PullFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0,
                subscription_version=0, subscription="*", expression_type="TAG",
            )
        )  # fmt: skip
        self._sent_at = 0.0

    def pull(self) -> None:
        if self._run.stopping:
            return
        ext = self._ext
        ext["queueOffset"] = str(self._offset)
        self._sent_at = time.perf_counter()
        self._connection.start(Frame(RequestCode.PULL_MESSAGE, 0, ext=ext), self._take, seconds=PULL_SECONDS)

    def _take(self, outcome: Frame | NetError) -> None:
        run = self._run
        if run.stopping:
            return
        if not isinstance(outcome, Frame):
            run.lost += 1
            run.queue_done()
            return
        if outcome.code == ResponseCode.SUCCESS:
            run.latencies.append(time.perf_counter() - self._sent_at)
            run.messages += _count_messages(outcome.body)
            run.bytes += len(outcome.body)
            self._offset = int(outcome.ext["nextBeginOffset"])
        elif outcome.code == ResponseCode.FLOW_CONTROL:
            asyncio.get_running_loop().call_later(AGAIN_PAUSE_SECONDS, self.pull)
            return
        elif outcome.code not in _AT_THE_END:
            run.refusals.append((outcome.code, outcome.remark or ""))
            run.queue_done()
            return
        elif not run.load.repeat or outcome.ext.get("minOffset") == outcome.ext.get("maxOffset"):
            run.queue_done()
            return
        else:
            self._offset = int(outcome.ext["minOffset"])
        self.pull()


def _count_messages(body: bytes) -> int:
    count = at = 0
    end, size_at = len(body), _SIZE.unpack_from
    while at < end:
        size: int = size_at(body, at)[0]
        ensure(size > 0, "a message has a size", at)
        at += size
        count += 1
    ensure(at == end, "the messages fill the body", at, end)
    return count
