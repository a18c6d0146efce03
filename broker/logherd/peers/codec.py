"""Envelopes as bytes. Big-endian; sizes in bytes; everything is checked on decoding, so that what comes out keeps the
invariants that the cores stop for.

    kind u8 = 5 | version u8 | body u8 | flags u8 | epoch u64 | address length u16 | address | body's own fields
    address:  length u8, cluster name | reset u32 | length u8, sender | length u8, to

     1 Append        generation u64 | previous epoch, position u64 | end u64 | commit u64 | runs u16 |
                     each run: epoch u64, after u64 | flags 1: outline length u32, outline | data to the end
     2 AppendAck     generation, verified, durable u64
     3 AppendReject  generation, asked, hint epoch, hint position u64
     4 Heartbeat     round, commit u64
     5 HeartbeatAck  round, end u64                                   flags: 1 busy, 2 short
     6 CopyChunk     generation, offset u64 | point epoch, position u64 | seal, checksum u32 | size u64 |
                     identity length u16 | note length u32 | identity | note | data to the end
     7 CopyAck       generation, offset u64 | image identity to the end
     8 Stale         9 TimeoutNow
    10 VoteRequest   last epoch, position u64                         flags: 1 pre, 2 transfer
    11 VoteAnswer                                                     flags: 1 granted, 2 pre
    12 ReadAsk       number u64
    13 ReadGrant     number, position u64 (0 unless flag)             flags: 1 has a position
    14 Doubtful      number u64 | body u8, flags u8 and fields of the answer inside, which is 2, 3, 5 or 7
    15 Trusted       number, position u64
    16 Summons
    17 Presence      committed epoch, position u64                    flags: 1 leaving
    18 Contradicted  committed epoch, position u64

Positions, epochs, rounds and generations are below 2^63. Data is not copied on decoding: it is a view of the input.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import cast

from logherd.group.messages import Contradicted, Presence, Summons
from logherd.model.names import Epoch, Position
from logherd.peers.errors import CodecError
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.replication.epochs import Point, Run
from logherd.replication.log import Image, Span
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    ClusterId,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    ShippingAnswer,
    Stale,
)

__all__ = ["ENVELOPE_KIND", "ENVELOPE_VERSION", "decode_envelope", "encode_envelope", "envelope_parts"]

ENVELOPE_KIND = 5
ENVELOPE_VERSION = 1

_HEAD = Struct(">BBBBQH")
_U64 = Struct(">Q")
_U64_2 = Struct(">QQ")
_U64_3 = Struct(">QQQ")
_U64_4 = Struct(">QQQQ")
_APPEND = Struct(">QQQQQH")
_CHUNK = Struct(">QQQQIIQHI")
_DOUBTFUL = Struct(">QBB")
_U32 = Struct(">I")
_NO_OUTLINE = memoryview(b"")
_DOUBTED = frozenset((2, 3, 5, 7))
"""The answers of a follower, which a doubtful one wraps."""

Buffer = bytes | memoryview
_Encoded = tuple[int, bytes, Buffer]
"""Flags, the body's fields, and the data that follows them."""


def encode_envelope(envelope: Envelope) -> bytes:
    """One piece. Raises: CodecError if a value has no place in the layout, which is the sender's own fault."""
    return b"".join(envelope_parts(envelope))


def envelope_parts(envelope: Envelope) -> tuple[bytes, Buffer]:
    """The same in two pieces, the second being the data as it was given. Raises: CodecError."""
    body = envelope.body
    known = _ENCODERS.get(type(body))
    if known is None:
        raise CodecError("body", f"{type(body).__name__} is no message between replicas")
    tag, encode = known
    cluster = envelope.cluster
    try:
        flags, fields, data = encode(body)
        address = _encode_address(cluster.name, cluster.reset, envelope.sender, envelope.to)
        head = _HEAD.pack(ENVELOPE_KIND, ENVELOPE_VERSION, tag, flags, envelope.epoch, len(address))
    except (struct.error, UnicodeEncodeError) as error:
        raise CodecError(type(body).__name__, f"a value does not fit: {error}") from error
    return head + address + fields, data


def decode_envelope(data: Buffer) -> Envelope:
    """The inverse; bytes of a span or an image chunk are a view of `data`. Raises: CodecError naming the field."""
    size = len(data)
    if size < _HEAD.size:
        raise CodecError("envelope", f"{size} bytes, the head takes {_HEAD.size}")
    kind, version, tag, flags, epoch, address_size = _HEAD.unpack_from(data)
    if kind != ENVELOPE_KIND or version != ENVELOPE_VERSION:
        raise CodecError("envelope", f"kind {kind} version {version} instead of {ENVELOPE_KIND} {ENVELOPE_VERSION}")
    at = _HEAD.size + address_size
    if at > size:
        raise CodecError("address", f"{address_size} bytes are told, {size - _HEAD.size} are left")
    known = _DECODERS.get(tag)
    if known is None:
        raise CodecError("body", f"{tag} is no message")
    flags_known, decode = known
    if flags & ~flags_known:
        raise CodecError("flags", f"{flags:#x}, known are {flags_known:#x}")
    if epoch >> 63:
        raise CodecError("epoch", f"{epoch} is too large")
    cluster, sender, to = _decode_address(bytes(data[_HEAD.size : at]))
    try:
        body = decode(data, at, flags, epoch)
    except struct.error as error:
        raise CodecError("body", f"message {tag} is cut short after {size - at} bytes") from error
    return Envelope(cluster, sender, to, epoch, body)


# ---- addresses: few, and the same for every message of a connection --------------------------------------------------


@lru_cache(maxsize=256)
def _encode_address(cluster: str, reset: int, sender: str, to: str) -> bytes:
    texts = [text.encode() for text in (cluster, sender, to)]
    for field, text in zip(("cluster", "sender", "to"), texts, strict=True):
        if not 0 < len(text) < 256:
            raise CodecError(field, f"{len(text)} bytes, 1 to 255 fit")
    name, source, target = (bytes((len(text),)) + text for text in texts)
    return name + _U32.pack(reset) + source + target


@lru_cache(maxsize=256)
def _decode_address(address: bytes) -> tuple[ClusterId, ReplicaId, ReplicaId]:
    name, at = _short_text(address, 0, "cluster")
    if at + 4 > len(address):
        raise CodecError("reset", "the address is cut short")
    (reset,) = _U32.unpack_from(address, at)
    sender, at = _short_text(address, at + 4, "sender")
    to, at = _short_text(address, at, "to")
    if at != len(address):
        raise CodecError("address", f"{len(address) - at} bytes are left over")
    return ClusterId(name, reset), ReplicaId(sender), ReplicaId(to)


def _short_text(data: bytes, at: int, field: str) -> tuple[str, int]:
    end = at + 1 + data[at] if at < len(data) else at
    if not at + 1 < end <= len(data):
        raise CodecError(field, "empty or cut short")
    return _text(data[at + 1 : end], field), end


def _text(data: Buffer, field: str) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise CodecError(field, f"not UTF-8: {error.reason}") from error


# ---- encoders --------------------------------------------------------------------------------------------------------


def _encode_append(body: Append) -> _Encoded:
    span = body.span
    previous, runs = span.previous, span.runs
    fields = _APPEND.pack(body.generation, previous.epoch, previous.position, span.end, body.commit, len(runs))
    if runs:
        fields += b"".join([_U64_2.pack(run.epoch, run.after) for run in runs])
    if not len(span.outline):
        return 0, fields, span.data
    return 1, b"".join((fields, _U32.pack(len(span.outline)), span.outline)), span.data


def _encode_chunk(body: CopyChunk) -> _Encoded:
    image = body.image
    identity = image.identity.encode()
    fields = _CHUNK.pack(
        body.generation, body.offset, image.point.epoch, image.point.position, image.seal, image.checksum, image.size,
        len(identity), len(image.note),
    )  # fmt: skip
    return 0, fields + identity + image.note, body.data


def _encode_append_ack(body: AppendAck) -> _Encoded:
    return 0, _U64_3.pack(body.generation, body.verified, body.durable), b""


def _encode_append_reject(body: AppendReject) -> _Encoded:
    return 0, _U64_4.pack(body.generation, body.asked, body.hint.epoch, body.hint.position), b""


def _encode_heartbeat(body: Heartbeat) -> _Encoded:
    return 0, _U64_2.pack(body.round, body.commit), b""


def _encode_heartbeat_ack(body: HeartbeatAck) -> _Encoded:
    return body.busy | body.short << 1, _U64_2.pack(body.round, body.end), b""


def _encode_copy_ack(body: CopyAck) -> _Encoded:
    return 0, _U64_2.pack(body.generation, body.offset) + body.image.encode(), b""


def _encode_empty(_body: Stale | TimeoutNow | Summons) -> _Encoded:
    return 0, b"", b""


def _encode_vote_request(body: VoteRequest) -> _Encoded:
    return body.pre | body.transfer << 1, _U64_2.pack(body.last.epoch, body.last.position), b""


def _encode_vote_answer(body: VoteAnswer) -> _Encoded:
    return body.granted | body.pre << 1, b"", b""


def _encode_read_ask(body: ReadAsk) -> _Encoded:
    return 0, _U64.pack(body.number), b""


def _encode_read_grant(body: ReadGrant) -> _Encoded:
    return int(body.position is not None), _U64_2.pack(body.number, body.position or 0), b""


def _encode_doubtful(body: Doubtful) -> _Encoded:
    tag, encode = _ENCODERS[type(body.answer)]
    flags, fields, _ = encode(body.answer)
    return 0, _DOUBTFUL.pack(body.number, tag, flags) + fields, b""


def _encode_trusted(body: Trusted) -> _Encoded:
    return 0, _U64_2.pack(body.number, body.position), b""


def _encode_presence(body: Presence) -> _Encoded:
    return int(body.leaving), _U64_2.pack(body.committed.epoch, body.committed.position), b""


def _encode_contradicted(body: Contradicted) -> _Encoded:
    return 0, _U64_2.pack(body.committed.epoch, body.committed.position), b""


_ENCODERS: dict[type, tuple[int, Callable[..., _Encoded]]] = {
    Append: (1, _encode_append),
    AppendAck: (2, _encode_append_ack),
    AppendReject: (3, _encode_append_reject),
    Heartbeat: (4, _encode_heartbeat),
    HeartbeatAck: (5, _encode_heartbeat_ack),
    CopyChunk: (6, _encode_chunk),
    CopyAck: (7, _encode_copy_ack),
    Stale: (8, _encode_empty),
    TimeoutNow: (9, _encode_empty),
    VoteRequest: (10, _encode_vote_request),
    VoteAnswer: (11, _encode_vote_answer),
    ReadAsk: (12, _encode_read_ask),
    ReadGrant: (13, _encode_read_grant),
    Doubtful: (14, _encode_doubtful),
    Trusted: (15, _encode_trusted),
    Summons: (16, _encode_empty),
    Presence: (17, _encode_presence),
    Contradicted: (18, _encode_contradicted),
}


# ---- decoders: (data, where the fields begin, flags, the envelope's epoch) -> body -----------------------------------


def _small(body: str, *numbers: int) -> None:
    """Refuse what would not fit into a file or a later message; called only when a bit too many was seen."""
    raise CodecError(body, f"a number of {numbers} is too large")


def _ends(data: Buffer, at: int, body: str) -> None:
    if at != len(data):
        raise CodecError(body, f"{len(data) - at} bytes are left over")


def _decode_append(data: Buffer, at: int, flags: int, epoch: int) -> Append:
    generation, previous_epoch, previous_position, end, commit, run_count = _APPEND.unpack_from(data, at)
    if (generation | previous_epoch | previous_position | end | commit) >> 63:
        _small("append", generation, previous_epoch, previous_position, end, commit)
    at += _APPEND.size
    data_at = at + run_count * _U64_2.size
    if data_at > len(data):
        raise CodecError("append.runs", f"{run_count} are told, {len(data) - at} bytes are left")
    previous = Point(Epoch(previous_epoch), Position(previous_position))
    outline, rest = _NO_OUTLINE, memoryview(data)[data_at:]
    if flags:
        (outline_size,) = _U32.unpack_from(data, data_at)
        rest = rest[_U32.size :]
        if not 0 < outline_size <= len(rest):
            raise CodecError("append.outline", f"{outline_size} bytes are told, {len(rest)} are left")
        outline, rest = rest[:outline_size], rest[outline_size:]
    if not run_count:
        if flags or len(rest) or end != previous_position:
            raise CodecError("append.runs", f"none for {len(rest)} bytes up to position {end}")
        return Append(generation, Span(previous, Position(end), (), rest), Position(commit))
    runs = tuple([Run(*pair) for pair in _U64_2.iter_unpack(data[at:data_at])])
    _check_runs(runs, previous, end, epoch)
    if not len(rest):
        raise CodecError("append.data", f"no bytes up to position {end}")
    return Append(generation, Span(previous, Position(end), runs, rest, outline), Position(commit))


def _check_runs(runs: tuple[Run, ...], previous: Point, end: int, epoch: int) -> None:
    """What a Span promises: the cores rely on it and would stop the process."""
    first = runs[0]
    fits = first.after == previous.position and first.epoch >= previous.epoch
    for older, newer in pairwise(runs):
        fits = fits and older.epoch < newer.epoch and older.after < newer.after
    if not (fits and runs[-1].after < end and runs[-1].epoch <= epoch):
        raise CodecError("append.runs", f"{runs} do not lie between {previous} and position {end} of epoch {epoch}")


def _decode_chunk(data: Buffer, at: int, _flags: int, _epoch: int) -> CopyChunk:
    fields = _CHUNK.unpack_from(data, at)
    generation, offset, point_epoch, point_position, seal, checksum, size, identity_size, note_size = fields
    if (generation | offset | point_epoch | point_position | size) >> 63:
        _small("copy chunk", generation, offset, point_epoch, point_position, size)
    at += _CHUNK.size
    note_at = at + identity_size
    data_at = note_at + note_size
    if data_at > len(data):
        raise CodecError("copy chunk.image", f"{identity_size} + {note_size} bytes are told, {len(data) - at} are left")
    rest = memoryview(data)[data_at:]
    if offset + len(rest) > size:
        raise CodecError("copy chunk.offset", f"{len(rest)} bytes at {offset} of an image of {size}")
    identity = _text(data[at:note_at], "copy chunk.identity")
    point = Point(Epoch(point_epoch), Position(point_position))
    image = Image(identity, point, seal, checksum, size, bytes(data[note_at:data_at]))
    return CopyChunk(generation, image, offset, rest)


def _decode_append_ack(data: Buffer, at: int, _flags: int, _epoch: int) -> AppendAck:
    generation, verified, durable = _U64_3.unpack_from(data, at)
    if (generation | verified | durable) >> 63:
        _small("append ack", generation, verified, durable)
    _ends(data, at + 24, "append ack")
    return AppendAck(generation, verified, durable)


def _decode_append_reject(data: Buffer, at: int, _flags: int, _epoch: int) -> AppendReject:
    generation, asked, hint_epoch, hint_position = _U64_4.unpack_from(data, at)
    if (generation | asked | hint_epoch | hint_position) >> 63:
        _small("append reject", generation, asked, hint_epoch, hint_position)
    _ends(data, at + 32, "append reject")
    return AppendReject(generation, asked, Point(Epoch(hint_epoch), Position(hint_position)))


def _two(data: Buffer, at: int, body: str) -> tuple[int, int]:
    first, second = _U64_2.unpack_from(data, at)
    if (first | second) >> 63:
        _small(body, first, second)
    _ends(data, at + 16, body)
    return first, second


def _decode_heartbeat(data: Buffer, at: int, _flags: int, _epoch: int) -> Heartbeat:
    number, commit = _two(data, at, "heartbeat")
    return Heartbeat(number, Position(commit))


def _decode_heartbeat_ack(data: Buffer, at: int, flags: int, _epoch: int) -> HeartbeatAck:
    number, end = _two(data, at, "heartbeat ack")
    return HeartbeatAck(number, Position(end), bool(flags & 1), bool(flags & 2))


def _decode_copy_ack(data: Buffer, at: int, _flags: int, _epoch: int) -> CopyAck:
    generation, offset = _U64_2.unpack_from(data, at)
    if (generation | offset) >> 63:
        _small("copy ack", generation, offset)
    return CopyAck(generation, _text(data[at + 16 :], "copy ack.image"), offset)


def _decode_stale(data: Buffer, at: int, _flags: int, _epoch: int) -> Stale:
    _ends(data, at, "stale")
    return Stale()


def _decode_timeout_now(data: Buffer, at: int, _flags: int, _epoch: int) -> TimeoutNow:
    _ends(data, at, "timeout now")
    return TimeoutNow()


def _decode_vote_request(data: Buffer, at: int, flags: int, _epoch: int) -> VoteRequest:
    epoch, position = _two(data, at, "vote request")
    return VoteRequest(Point(Epoch(epoch), Position(position)), bool(flags & 1), bool(flags & 2))


def _decode_vote_answer(data: Buffer, at: int, flags: int, _epoch: int) -> VoteAnswer:
    _ends(data, at, "vote answer")
    return VoteAnswer(bool(flags & 1), bool(flags & 2))


def _decode_read_ask(data: Buffer, at: int, _flags: int, _epoch: int) -> ReadAsk:
    _ends(data, at + 8, "read ask")
    return ReadAsk(_U64.unpack_from(data, at)[0])


def _decode_read_grant(data: Buffer, at: int, flags: int, _epoch: int) -> ReadGrant:
    number, position = _U64_2.unpack_from(data, at)
    _ends(data, at + 16, "read grant")
    if position >> 63 or (position and not flags):
        _small("read grant", position)
    return ReadGrant(number, Position(position) if flags else None)


def _decode_doubtful(data: Buffer, at: int, _flags: int, epoch: int) -> Doubtful:
    number, tag, flags = _DOUBTFUL.unpack_from(data, at)
    if tag not in _DOUBTED or flags & ~_DECODERS[tag][0]:
        raise CodecError("doubtful.answer", f"message {tag} with flags {flags:#x} is no answer of a follower")
    answer = _DECODERS[tag][1](data, at + _DOUBTFUL.size, flags, epoch)
    return Doubtful(number, cast("ShippingAnswer", answer))


def _decode_trusted(data: Buffer, at: int, _flags: int, _epoch: int) -> Trusted:
    number, position = _U64_2.unpack_from(data, at)
    _ends(data, at + 16, "trusted")
    if position >> 63:
        _small("trusted", position)
    return Trusted(number, Position(position))


def _decode_summons(data: Buffer, at: int, _flags: int, _epoch: int) -> Summons:
    _ends(data, at, "summons")
    return Summons()


def _decode_presence(data: Buffer, at: int, flags: int, _epoch: int) -> Presence:
    epoch, position = _two(data, at, "presence")
    return Presence(Point(Epoch(epoch), Position(position)), leaving=bool(flags))


def _decode_contradicted(data: Buffer, at: int, _flags: int, _epoch: int) -> Contradicted:
    epoch, position = _two(data, at, "contradicted")
    return Contradicted(Point(Epoch(epoch), Position(position)))


_DECODERS: dict[int, tuple[int, Callable[[Buffer, int, int, int], object]]] = {
    1: (1, _decode_append),
    2: (0, _decode_append_ack),
    3: (0, _decode_append_reject),
    4: (0, _decode_heartbeat),
    5: (3, _decode_heartbeat_ack),
    6: (0, _decode_chunk),
    7: (0, _decode_copy_ack),
    8: (0, _decode_stale),
    9: (0, _decode_timeout_now),
    10: (3, _decode_vote_request),
    11: (3, _decode_vote_answer),
    12: (0, _decode_read_ask),
    13: (1, _decode_read_grant),
    14: (0, _decode_doubtful),
    15: (0, _decode_trusted),
    16: (0, _decode_summons),
    17: (1, _decode_presence),
    18: (0, _decode_contradicted),
}
