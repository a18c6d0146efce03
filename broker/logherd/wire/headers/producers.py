"""LogHerd's own requests of writers that must not write twice: 27020 to 27023 (H19).

A writer has a name that outlives its process, and an epoch that the leader grants to each of its runs; an older run is
refused from then on. What it writes comes in chunks: one batch for one queue. A chunk's place is (part, queue,
generation, sequence): a part is one of the writer's streams that runs by itself (a partition of a job), a generation
rises by the writer's own will (a micro-batch), and in each (part, queue) the sequence of a generation is 0, 1, 2, ...

The same chunk at the same place is stored once, however often it comes.
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "CloseWriterHeader", "CountChunksHeader", "CountChunksResponse", "OpenWriterHeader", "OpenWriterResponse",
    "StoreChunkHeader", "StoreChunkResponse",
]  # fmt: skip


class OpenWriterHeader(Header, frozen=True, kw_only=True):
    """27020. `run` names the process or query that writes: asking again for the same run grants the same epoch.

    `lasting`: the name may come again after the writer expired, and must then be refused.
    """

    writer: str
    run: str
    lasting: bool = True


class OpenWriterResponse(Header, frozen=True, kw_only=True):
    epoch: Int64 = field(name="writerEpoch")


class StoreChunkHeader(Header, frozen=True, kw_only=True):
    """27021; the body is that of 320. `digest` is BLAKE2b with 16 bytes over the body, in hex."""

    writer: str
    epoch: Int64 = field(name="writerEpoch")
    part: Int64
    generation: Int64
    sequence: Int64
    digest: str
    topic: str
    queue_id: Int32
    born_timestamp: Int64
    sys_flag: Int32 = 0


class StoreChunkResponse(Header, frozen=True, kw_only=True):
    """`queue_offsets` is "first+count", several with commas where something else stands between the chunk's messages.

    `repeated`: the chunk was there before this request.
    """

    queue_offsets: str
    repeated: bool = False


class CountChunksHeader(Header, frozen=True, kw_only=True):
    """27022: what stands in the log of one generation, from all runs of the writer."""

    writer: str
    epoch: Int64 = field(name="writerEpoch")
    generation: Int64


class CountChunksResponse(Header, frozen=True, kw_only=True):
    chunks: Int64
    messages: Int64


class CloseWriterHeader(Header, frozen=True, kw_only=True):
    """27023: the writer needs nothing remembered any more."""

    writer: str
    epoch: Int64 = field(name="writerEpoch")
