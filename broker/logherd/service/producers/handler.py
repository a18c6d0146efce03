"""Requests 27020 to 27023: open, store a chunk, count, close.

A chunk is announced in the metadata and its messages are appended at once behind it, so both are in the log or the log
was cut between them; `metadata.writers` then knows how many are there, and the same chunk, when it comes again, is
completed. Until a chunk is committed nobody is told that it is stored, also when it is repeated.
"""

from hashlib import blake2b

from logherd.kit.clock import Clock
from logherd.kit.errors import InvariantError
from logherd.service.errors import RequestError
from logherd.service.metadata import Chunk, ChunkStored, Metadata, MetadataRefusedError, Stream, Writer, is_reserved
from logherd.service.ports import Handler, Reply, ReplyAfter, Request, Session
from logherd.service.producers.granting import Granting
from logherd.service.producers.options import WriterOptions
from logherd.service.requests import after, header_of
from logherd.service.send.batch import BatchUnit, split_rows
from logherd.service.send.counting import PutCounter
from logherd.service.send.flags import check_flags
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.targets import Targets
from logherd.store import MessageStore, QueueLog, RecordTooLarge, StoreFull, StoreStopped
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.producers import (
    CloseWriterHeader,
    CountChunksHeader,
    CountChunksResponse,
    OpenWriterHeader,
    OpenWriterResponse,
    StoreChunkHeader,
    StoreChunkResponse,
)

__all__ = ["DIGEST_BYTES", "WriterHandler"]

DIGEST_BYTES = 16
_ANNOUNCEMENT_BYTES = 4096


class WriterHandler:
    """Stores chunks of idempotent writers. Only the leader's is asked."""

    def __init__(
        self, store: MessageStore, metadata: Metadata, targets: Targets, *,
        clock: Clock, counter: PutCounter, stamper: Stamper, send: SendOptions, options: WriterOptions,
    ) -> None:  # fmt: skip
        self._store = store
        self._metadata = metadata
        self._targets = targets
        self._clock = clock
        self._counter = counter
        self._stamper = stamper
        self._send = send
        self._options = options
        self._granting = Granting(metadata, clock, options)

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.WRITER_OPEN: self._open,
            RequestCode.WRITER_CHUNK: self._chunk,
            RequestCode.WRITER_COUNT: self._count,
            RequestCode.WRITER_CLOSE: self._close,
        }

    def _open(self, request: Request, session: Session) -> ReplyAfter:
        header = header_of(request, OpenWriterHeader)
        epoch = self._granting.open(header)
        return after(self._metadata.position, Reply(header=OpenWriterResponse(epoch=epoch)))

    def _close(self, request: Request, session: Session) -> ReplyAfter:
        header = header_of(request, CloseWriterHeader)
        self._granting.close(header.writer, header.epoch)
        return after(self._metadata.position)

    def _count(self, request: Request, session: Session) -> ReplyAfter:
        header = header_of(request, CountChunksHeader)
        writer = self._granting.check(header.writer, header.epoch)
        chunks = [
            chunk
            for stream in writer.streams.values()
            if stream.generation == header.generation
            for chunk in stream.chunks
        ]
        counted = CountChunksResponse(chunks=len(chunks), messages=sum(chunk.present for chunk in chunks))
        end = max((chunk.end for chunk in chunks), default=0)
        return after(max(end, self._metadata.writers.floor), Reply(header=counted))

    def _chunk(self, request: Request, session: Session) -> ReplyAfter:
        """Store one chunk, or recognise it.

        Durable: when the log is committed up to the answer's position; the answer must not leave before.
        Raises: RequestError WRITER_FENCED, _UNKNOWN, _CONFLICT or _OUT_OF_ORDER, and those of a batch send (2, 13, 14,
        16, 17, 29); MetadataRefusedError. Nothing was stored then.
        """
        header = header_of(request, StoreChunkHeader)
        self._check_body(header, request.body)
        writer = self._granting.check(header.writer, header.epoch)
        known = self._known(header, writer)
        if known is not None and known.present == known.total:
            return self._answer(known, repeated=True)
        queue = self._queue(header)
        units = split_rows(request.body, self._stamper)
        skipped = known.present if known is not None else 0
        return self._answer(self._append(header, queue, units, session, skipped), repeated=False)

    def _queue(self, header: StoreChunkHeader) -> QueueLog:
        topic = header.topic
        target = self._targets.get(topic)
        if target is None and not is_reserved(topic) and self._metadata.topics.get(topic) is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic {topic[:127]!a} does not exist, chunks make none")
        target = target or self._targets.resolve(topic, default_topic="", default_queues=0)
        if target.retry_group is not None or header.queue_id < 0:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"chunks go to a numbered queue of an ordinary topic, not of {topic}"
            )
        return target.queue(header.queue_id)

    def _check_body(self, header: StoreChunkHeader, body: bytes) -> None:
        if len(body) > self._send.body_bytes_max:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the body has {len(body)} bytes, at most {self._send.body_bytes_max} are stored (maxMessageSize)",
            )
        digest = blake2b(body, digest_size=DIGEST_BYTES).hexdigest()
        if digest != header.digest:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"digest is {header.digest[:64]!a}, the body's is {digest}"
            )

    def _known(self, header: StoreChunkHeader, writer: Writer) -> Chunk | None:
        """The chunk that stands at this place already; None if this is the next one."""
        where = f"writer {header.writer}, part {header.part}, topic {header.topic}, queue {header.queue_id}"
        stream = writer.streams.get((header.part, header.topic, header.queue_id)) or Stream(header.generation)
        if header.generation < stream.generation:
            raise RequestError(
                ResponseCode.WRITER_OUT_OF_ORDER,
                f"{where}: generation {header.generation} is over, {stream.generation} has begun",
            )
        chunks = stream.chunks if header.generation == stream.generation else []
        if 0 <= header.sequence < len(chunks):
            chunk = chunks[header.sequence]
            if chunk.digest != header.digest:
                raise RequestError(
                    ResponseCode.WRITER_CONFLICT,
                    f"{where}: chunk {header.sequence} of generation {header.generation} was stored with other "
                    "content: the writer does not repeat what it wrote before",
                )
            return chunk
        if header.sequence != len(chunks) or (chunks and chunks[-1].present < chunks[-1].total):
            missing = len(chunks) - (1 if chunks and chunks[-1].present < chunks[-1].total else 0)
            raise RequestError(
                ResponseCode.WRITER_OUT_OF_ORDER,
                f"{where}: chunk {header.sequence} of generation {header.generation} came, {missing} is the next",
            )
        return None

    def _append(
        self, header: StoreChunkHeader, queue: QueueLog, units: list[BatchUnit], session: Session, skipped: int
    ) -> Chunk:
        store, writers = self._store, self._metadata.writers
        if store.unwritten_bytes > self._send.unwritten_bytes_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD] {store.unwritten_bytes} bytes wait for the disk, more than "
                f"{self._send.unwritten_bytes_max}; send again later",
            )
        if not skipped and writers.chunk_count >= self._options.chunks_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, f"{writers.chunk_count} chunks of writers that did not end are remembered"
            )
        sys_flag, rest, now = check_flags(header.sys_flag), units[skipped:], self._clock.now_ms()
        change = ChunkStored(
            header.writer, header.part, header.topic, header.queue_id, header.generation, header.sequence,
            header.digest, skipped, queue.next_offset, len(rest), now,
        )  # fmt: skip
        try:
            store.ensure_room(queue, rest, more=_ANNOUNCEMENT_BYTES)
        except (StoreFull, StoreStopped, RecordTooLarge) as error:
            raise _refused(error) from error
        writers.announce(change)
        start = store.end_position
        try:
            store.append_all(
                queue, rest, born_timestamp=header.born_timestamp, born_host=session.remote_host, store_timestamp=now,
                sys_flag=sys_flag,
            )  # fmt: skip
        except (StoreFull, StoreStopped, RecordTooLarge) as error:
            self._take_back(change, error)
            raise _refused(error) from error
        self._counter.count_put(queue.topic, len(rest), store.end_position - start)
        return writers.stored(change, store.end_position)

    def _take_back(self, change: ChunkStored, error: Exception) -> None:
        """The disk filled up between the look at it and the append: an announcement may not stand without messages."""
        try:
            self._metadata.writers.withdraw(change)
        except MetadataRefusedError:
            if not isinstance(error, StoreStopped):  # a stopped store makes nothing durable any more
                raise InvariantError(f"neither stored nor withdrawn, but announced: {change}") from error

    def _answer(self, chunk: Chunk, *, repeated: bool) -> ReplyAfter:
        runs = zip(chunk.runs[::2], chunk.runs[1::2], strict=True)
        header = StoreChunkResponse(
            queue_offsets=",".join(f"{first}+{count}" for first, count in runs), repeated=repeated
        )
        return after(max(chunk.end, self._metadata.writers.floor), Reply(header=header))


def _refused(error: StoreFull | StoreStopped | RecordTooLarge) -> RequestError:
    if isinstance(error, RecordTooLarge):
        return RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error))
    return RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, f"the store takes no messages now: {error}")
