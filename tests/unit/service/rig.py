"""A whole data service over a real store in a directory, driven pass by pass as the app drives it."""

from collections.abc import Mapping
from pathlib import Path

from logherd.model.host import encode_host
from logherd.model.record import Record, decode_record
from logherd.service.admin.slices import Slices
from logherd.service.clients.registry import ClientRegistry
from logherd.service.dispatcher import Dispatcher, response_frame
from logherd.service.locks import Locks
from logherd.service.metadata import DefaultsOptions, Metadata, MetadataOptions, StoreLog, ensure_defaults
from logherd.service.offset_rules import OffsetRules
from logherd.service.offsets import OffsetsHandler
from logherd.service.ports import Answer, Reply, ReplyAfter
from logherd.service.producers import WriterHandler, WriterOptions
from logherd.service.pull import PullHandler, PullOptions
from logherd.service.routing import Role
from logherd.service.send import ReplyHandler, SendHandler, SendOptions, Stamper, Targets, UniqueKeys
from logherd.service.stats import BrokerStats
from logherd.store.consume_queue import QueueLog
from logherd.store.options import LogOptions, StoreOptions
from logherd.store.store import MessageStore
from logherd.wire.codec import FrameReader
from logherd.wire.frame import Flag, Frame
from sim.left_files import LeftFiles
from unit.service.client_fakes import FakeClock, FakeSession

HOST = encode_host("10.1.2.3", 10911)
CLUSTER = "Red"
BROKER = "red-a"

STORE = StoreOptions(
    store_host=HOST,
    log=LogOptions(segment_bytes=16 << 20, zero_ahead_bytes=0, reserve_bytes=0),
)


class Rig:
    """`options` replace single settings of sends, `pulls` those of pulls."""

    def __init__(
        self, directory: Path, *, sends: Mapping[str, object] | None = None, pulls: PullOptions | None = None,
        store: StoreOptions = STORE, metadata: MetadataOptions | None = None, writers: WriterOptions | None = None,
    ) -> None:  # fmt: skip
        self.directory = directory
        self.clock = FakeClock()
        self.session = FakeSession()
        self.store = MessageStore.open(directory, store, LeftFiles(), clock=self.clock)
        self.metadata = Metadata.open(StoreLog(self.store, self.clock, host=HOST), self.clock, metadata)
        ensure_defaults(self.metadata, DefaultsOptions(CLUSTER, BROKER))
        self.registry = ClientRegistry()
        self.stats = BrokerStats(now_ms=0, wall_ms=0)
        options = SendOptions(CLUSTER, BROKER, HOST, **(sends or {}))  # type: ignore[arg-type]
        self.targets = Targets(self.metadata, self.store, auto_create=options.auto_create_topics)
        keys = UniqueKeys(self.clock, host=HOST, process=7, start=9)
        stamper = Stamper(cluster=CLUSTER, region=options.region, trace_on=True, new_key=keys.next)
        self.locks = Locks(self.metadata, self.clock)
        self.send = SendHandler(
            self.store, self.targets, clock=self.clock, counter=self.stats, stamper=stamper,
            options=options, is_orderly=self.locks.is_orderly,
        )  # fmt: skip
        rules = OffsetRules(self.store, self.metadata, self.registry)
        self.pull = PullHandler(
            self.store, self.metadata, self.registry, rules=rules, clock=self.clock, counter=self.stats,
            options=pulls or PullOptions(),
        )  # fmt: skip
        self.slices = Slices()
        self.offsets = OffsetsHandler(
            self.store, self.metadata, rules, broker_name=BROKER, on_reset=self.pull.committed, slices=self.slices
        )
        self.replies = ReplyHandler(
            self.store, self.targets, self.registry, clock=self.clock, stamper=stamper, options=options
        )
        self.writers = WriterHandler(
            self.store, self.metadata, self.targets, clock=self.clock, counter=self.stats, stamper=stamper,
            send=options, options=writers or WriterOptions(),
        )  # fmt: skip
        families = (self.offsets, self.replies, self.writers, self.locks)
        typed = {code: handler for family in families for code, handler in family.handlers().items()}
        self.dispatcher = Dispatcher(
            Role.BROKER, self.clock, typed=typed,
            raw={**self.send.raw_handlers(), **self.pull.raw_handlers()}, runs=self.send.handle_run,
        )  # fmt: skip
        self.opaque = 0
        self.end_pass()

    # ---- what the app does

    def end_pass(self) -> list[QueueLog]:
        """Write, flush and commit all that was appended; wakes parked pulls."""
        self.metadata.end_pass()
        touched: list[QueueLog] = []
        while (batch := self.store.take_batch()) is not None:
            batch.write_and_flush()
            self.store.flushed(batch)
            touched += self.store.advance(batch.end)
            self.pull.committed(touched)
        return touched

    def restart(self) -> "Rig":
        """The same directory in a new process. What was appended and not flushed is gone."""
        self.store.close()
        return Rig(self.directory)

    # ---- what a client does

    def request(
        self, code: int, ext: Mapping[str, object], body: bytes = b"", *, session: FakeSession | None = None,
        oneway: bool = False,
    ) -> Answer | None:  # fmt: skip
        """One request as it comes off the wire; every field is text."""
        self.opaque += 1
        fields = {key: str(value) for key, value in ext.items() if value is not None}
        frame = Frame(code, self.opaque, flag=Flag.ONEWAY if oneway else 0, ext=fields, body=body)
        return self.dispatcher.handle(frame, session or self.session)

    def ask(self, code: int, ext: Mapping[str, object], body: bytes = b"", **options: FakeSession) -> Frame:
        """A request and its answer, after the commit that it waits for."""
        answer = self.request(code, ext, body, **options)
        self.end_pass()
        if isinstance(answer, ReplyAfter):
            assert answer.position <= self.store.committed_position
        frame = frame_of(answer)
        if frame.opaque == -1:
            frame.opaque = self.opaque
        assert frame.opaque == self.opaque
        return frame

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        """All committed messages of a queue."""
        queue = self.store.queue(topic, queue_id)
        found: list[Record] = []
        offset = queue.min_offset
        while offset < queue.max_offset:
            result = self.store.read(queue, offset, messages_max=1000, bytes_max=1 << 22)
            offset = result.next_offset
            found += decode_all(result.slices)
        return found


def decode_all(slices: list[memoryview]) -> list[Record]:
    """The records in the body of a pull's answer."""
    joined = memoryview(b"".join(slices))
    found: list[Record] = []
    at = 0
    while at < len(joined):
        found.append(decode_record(joined, at))
        at += found[-1].size
    return found


def frame_of(answer: Answer | None) -> Frame:
    """What the client gets; the opaque is -1 where the app would set it."""
    reply = answer.reply if isinstance(answer, ReplyAfter) else answer
    if isinstance(reply, bytes):
        [frame] = FrameReader().feed(reply)
        return frame
    assert isinstance(reply, Reply)
    frame = response_frame(Frame(0, -1), reply)
    frame.body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    return frame


def short_header(topic: str = "orders", **fields: object) -> dict[str, object]:
    """The header of a send by 310 as the Java client makes it; None leaves a field out."""
    return {
        "a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1_700_000_000_000, "h": 0,
        "i": "UNIQ_KEY\x01C0A80001123418B4AAC27F0A0B0C0001\x02WAIT\x01true\x02TAGS\x01A\x02", "j": 0, "k": "false",
        "m": "false", "n": BROKER, **fields,
    }  # fmt: skip
