"""The stored message: RocketMQ's commit-log record, which is also what a pull answer carries.

Layout, big-endian, with an IPv4 host (an IPv6 host takes 20 bytes instead of 8 and sets a sysFlag bit):

    0 total u32 | 4 magic u32 | 8 body crc u32 | 12 queue id i32 | 16 flag i32 | 20 queue offset i64
    28 position i64 | 36 sys flag i32 | 40 born ms i64 | 48 born host | 56 store ms i64 | 64 store host
    72 reconsume times i32 | 76 prepared position i64 | 84 body length i32 | 88 body
    then topic length u8 (u16 in version 2) | topic | properties length i16 | properties

Rule H1: every record that LogHerd writes ends in the property `__CRC32#`, ten decimal digits with the least significant
first, over all bytes before that property. RocketMQ 5 writes and checks the same when told to.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/MessageExtEncoder.java
Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/message/MessageDecoder.java
"""

import struct

from msgspec import Struct

from logherd.kit.checksum import crc32
from logherd.kit.errors import LogHerdError

__all__ = [
    "BLANK_MAGIC", "BLANK_SIZE_MIN", "CHECKSUM_SIZE", "MAGIC_V1", "MAGIC_V2", "Record", "RecordError", "SysFlag",
    "body_crc", "check_record", "decode_record", "encode_blank", "encode_record", "encode_record_for",
    "encode_topic", "is_whole", "record_size",
]  # fmt: skip

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194
BLANK_SIZE_MIN = 8
CHECKSUM_SIZE = 20
TOPIC_BYTES_V1_MAX = 127
_POSITION_AT = 28
_TOPIC_BYTES_V2_MAX = 0xFFFF
_TOPIC_PART_V1_MAX = TOPIC_BYTES_V1_MAX + 1
_CHECKSUM_NAME = b"__CRC32#\x01"
_CHECKSUM_BACKWARDS = b"\x02%010d\x01#23CRC__"
_PROPERTY_END = 2
_CHECKSUM_MASK = 0x7FFFFFFF

_HEAD = struct.Struct(">IIIiiqqiq8sq8siqi")
_PREFIX = struct.Struct(">IIIiiqqiq")
_MIDDLE = struct.Struct(">iqi")
_U32 = struct.Struct(">I")
_U32X2 = struct.Struct(">II")
_I16 = struct.Struct(">h")
_U16 = struct.Struct(">H")
_Q = struct.Struct(">q")
_pack_head = _HEAD.pack
_pack_i16 = _I16.pack


class SysFlag:
    """Bits of a record's sysFlag. Source: apache/rocketmq: common/.../sysflag/MessageSysFlag.java"""

    COMPRESSED = 0x1
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    INNER_BATCH = 0x80
    COMPRESSION_MASK = 0x700
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300


_HOSTS_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


class RecordError(LogHerdError):
    """Bytes that are not a whole, undamaged record. The message says what is wrong and where in the record."""


def body_crc(body: bytes | memoryview) -> int:
    """CRC32 without its sign bit, as Java computes it."""
    return crc32(body) & _CHECKSUM_MASK


def record_size(body: int, topic: int, properties: int, *, hosts: int = 16) -> int:
    """Bytes of the record that `encode_record` makes of these lengths; `hosts` is the sum of both host fields."""
    topic_width = 1 if topic <= TOPIC_BYTES_V1_MAX else 2
    return 72 + hosts + body + topic_width + topic + 2 + properties + CHECKSUM_SIZE


def encode_record(
    topic: bytes, body: bytes | memoryview, properties: bytes, *,
    queue_id: int, queue_offset: int, position: int, store_timestamp: int, store_host: bytes,
    born_timestamp: int, born_host: bytes,
    flag: int = 0, sys_flag: int = 0, reconsume_times: int = 0, prepared_position: int = 0,
) -> bytes:  # fmt: skip
    """One whole record with its checksum.

    `properties` are without a checksum property and end in 0x02 unless empty. Lengths are not checked against product
    limits here, only against what the fields can hold.

    Raises: RecordError if topic or properties do not fit their length fields.
    """
    return encode_record_for(
        encode_topic(topic), body, properties, queue_id, queue_offset, position, store_timestamp, store_host,
        born_timestamp, born_host, flag, sys_flag, reconsume_times, prepared_position,
    )  # fmt: skip


def encode_topic(topic: bytes) -> bytes:
    """The topic as it stands in a record, behind its length. Raises RecordError if it is too long."""
    length = len(topic)
    if length <= TOPIC_BYTES_V1_MAX:
        return bytes((length,)) + topic
    if length > _TOPIC_BYTES_V2_MAX:
        raise RecordError(f"the topic takes {length} bytes, at most {_TOPIC_BYTES_V2_MAX} fit")
    return _U16.pack(length) + topic


def encode_record_for(
    topic_part: bytes, body: bytes | memoryview, properties: bytes, queue_id: int, queue_offset: int, position: int,
    store_timestamp: int, store_host: bytes, born_timestamp: int, born_host: bytes, flag: int, sys_flag: int,
    reconsume_times: int, prepared_position: int,
) -> bytes:  # fmt: skip
    """`encode_record` with the topic as `encode_topic` makes it, once per queue.

    All arguments by position: this runs for every message, and naming fourteen of them costs a fifth of it.
    """
    body_length = len(body)
    properties_length = len(properties) + CHECKSUM_SIZE
    if properties_length > 0x7FFF:
        raise RecordError(f"properties take {properties_length} bytes with the checksum; at most 32767 fit")
    crc_of_body = crc32(body) & _CHECKSUM_MASK
    magic = MAGIC_V1 if len(topic_part) <= _TOPIC_PART_V1_MAX else MAGIC_V2
    # Whatever a client said about hosts, these two bits tell how long ours are.
    sys_flag &= ~_HOSTS_V6
    if len(born_host) == 8 and len(store_host) == 8:
        head = _pack_head(
            90 + body_length + len(topic_part) + properties_length, magic, crc_of_body, queue_id, flag, queue_offset,
            position, sys_flag, born_timestamp, born_host, store_timestamp, store_host, reconsume_times,
            prepared_position, body_length,
        )  # fmt: skip
    else:
        total = 74 + len(born_host) + len(store_host) + body_length + len(topic_part) + properties_length
        sys_flag |= SysFlag.BORN_HOST_V6 if len(born_host) == 20 else 0
        sys_flag |= SysFlag.STORE_HOST_V6 if len(store_host) == 20 else 0
        head = b"".join((
            _PREFIX.pack(total, magic, crc_of_body, queue_id, flag, queue_offset, position, sys_flag, born_timestamp),
            born_host, _Q.pack(store_timestamp), store_host,
            _MIDDLE.pack(reconsume_times, prepared_position, body_length),
        ))  # fmt: skip
    data = b"".join((head, body, topic_part, _pack_i16(properties_length), properties))
    # One pass over the joined bytes costs less than one call for each piece.
    return b"".join((data, _CHECKSUM_NAME, (b"\x02%010d" % (crc32(data) & _CHECKSUM_MASK))[::-1]))


def encode_blank(size: int) -> bytes:
    """The 8 bytes that end a segment in which `size` bytes are left. Raises RecordError below 8."""
    if size < BLANK_SIZE_MIN:
        raise RecordError(f"a blank record needs 8 bytes, {size} are left")
    return _U32X2.pack(size, BLANK_MAGIC)


class Record(Struct, frozen=True, gc=False):
    """A decoded record. Byte fields are views into the decoded buffer; keep the buffer alive or copy them.

    Units: positions and sizes in bytes, timestamps in ms since 1970 UTC. `checksummed` tells whether the record carried
    the whole-record checksum (records of a plain RocketMQ broker do not).
    """

    size: int
    queue_id: int
    flag: int
    queue_offset: int
    position: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_position: int
    body: memoryview
    topic: str
    properties: bytes
    checksummed: bool


def decode_record(buffer: bytes | memoryview, at: int = 0, *, verify: bool = True) -> Record:
    """Decode the record that starts at `at`.

    With `verify` the body checksum and, where present, the whole-record checksum are compared.

    Raises: RecordError for anything that is not a whole record, a checksum that differs, or lengths that disagree.
    """
    view = memoryview(buffer)[at:]
    if len(view) < 88:
        raise RecordError(f"{len(view)} bytes are left, a record has at least 91")
    total, magic = _U32X2.unpack_from(view)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"magic is {magic:#010x}, a record has {MAGIC_V1:#010x} or {MAGIC_V2:#010x}")
    if not 91 <= total <= len(view):
        raise RecordError(f"total size is {total}, {len(view)} bytes are left")
    view = view[:total]
    return _decode_fields(view, magic, verify)


def _decode_fields(view: memoryview, magic: int, verify: bool) -> Record:
    total = len(view)
    (
        _, _, crc_of_body, queue_id, flag, queue_offset, position, sys_flag, born_timestamp, born_host,
        store_timestamp, store_host, reconsume_times, prepared_position, body_length,
    ) = _HEAD.unpack_from(view)  # fmt: skip
    at = _HEAD.size
    if sys_flag & _HOSTS_V6:
        born_host, store_timestamp, store_host, reconsume_times, prepared_position, body_length, at = _decode_v6(view)
    topic_width = 1 if magic == MAGIC_V1 else 2
    if not 0 <= body_length <= total - at - topic_width - 2:
        raise RecordError(f"body length is {body_length}, the record has {total - at} bytes after it")
    body = view[at : at + body_length]
    at += body_length
    topic_length = view[at] if topic_width == 1 else _U16.unpack_from(view, at)[0]
    at += topic_width
    if at + topic_length + 2 > total:
        raise RecordError(f"topic length is {topic_length}, {total - at} bytes are left")
    topic = bytes(view[at : at + topic_length])
    at += topic_length
    (properties_length,) = _I16.unpack_from(view, at)
    at += 2
    if properties_length < 0 or at + properties_length != total:
        raise RecordError(f"properties length is {properties_length}, {total - at} bytes are left")
    properties = bytes(view[at:])
    checksummed = properties.endswith(b"\x02") and properties[-CHECKSUM_SIZE:].startswith(_CHECKSUM_NAME)
    if verify:
        _verify(view, body, crc_of_body, properties if checksummed else None)
    return Record(
        total, queue_id, flag, queue_offset, position, sys_flag, born_timestamp, born_host, store_timestamp, store_host,
        reconsume_times, prepared_position, body, _decode_topic(topic), properties, checksummed,
    )  # fmt: skip


def _decode_v6(view: memoryview) -> tuple[bytes, int, bytes, int, int, int, int]:
    """The fields from the born host to the body length where a host is longer, and the place after them."""
    sys_flag = _PREFIX.unpack_from(view)[7]
    born_at = _PREFIX.size
    timestamp_at = born_at + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    store_at = timestamp_at + 8
    middle_at = store_at + (20 if sys_flag & SysFlag.STORE_HOST_V6 else 8)
    if middle_at + _MIDDLE.size > len(view):
        raise RecordError(f"total size {len(view)} ends inside the fixed fields")
    reconsume_times, prepared_position, body_length = _MIDDLE.unpack_from(view, middle_at)
    return (
        bytes(view[born_at:timestamp_at]), _Q.unpack_from(view, timestamp_at)[0], bytes(view[store_at:middle_at]),
        reconsume_times, prepared_position, body_length, middle_at + _MIDDLE.size,
    )  # fmt: skip


def _decode_topic(topic: bytes) -> str:
    try:
        return topic.decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"the topic {topic!r} is not UTF-8") from error


def _verify(view: memoryview, body: memoryview, crc_of_body: int, checked_properties: bytes | None) -> None:
    # An empty body keeps whatever its writer put into the field; RocketMQ skips the comparison too.
    if len(body) and body_crc(body) != crc_of_body:
        raise RecordError(f"body checksum is {body_crc(body):#x}, the record says {crc_of_body:#x}")
    if checked_properties is not None:
        written = checked_properties[-11:-1][::-1]
        computed = crc32(view[: len(view) - CHECKSUM_SIZE]) & _CHECKSUM_MASK
        if written != b"%010d" % computed:
            raise RecordError(f"record checksum is {computed:010d}, the record says {written.decode(errors='replace')}")


def is_whole(record: memoryview) -> bool:
    """Whether it ends in the checksum of all that is before it, as each record of LogHerd's does."""
    computed = crc32(record[:-CHECKSUM_SIZE]) & _CHECKSUM_MASK
    return record[-CHECKSUM_SIZE:] == (_CHECKSUM_BACKWARDS % computed)[::-1]


def check_record(record: memoryview, position: int, *, bare: bool = True) -> None:
    """Compare a whole record with its checksums without decoding it; a third of the cost of `decode_record`.

    `bare`: it may be without a checksum of the whole, as a broker that adds none writes it. Of our own that is damage,
    as a change in the name of that property is.
    Raises: RecordError if it is not a record, does not belong at `position`, or a checksum differs.
    """
    total, magic = _U32X2.unpack_from(record)
    if magic not in (MAGIC_V1, MAGIC_V2) or total != len(record):
        raise RecordError(f"magic {magic:#010x} and size {total} are not those of a record of {len(record)} bytes")
    written: int = _Q.unpack_from(record, _POSITION_AT)[0]
    if written != position:
        raise RecordError(f"the record says that it belongs at position {written}, not {position}")
    tail = bytes(record[-CHECKSUM_SIZE:])
    computed = crc32(record[:-CHECKSUM_SIZE]) & _CHECKSUM_MASK
    if tail == (_CHECKSUM_BACKWARDS % computed)[::-1]:
        return
    if not tail.startswith(_CHECKSUM_NAME) or tail[-1] != _PROPERTY_END:
        if not bare:
            raise RecordError("the record has no checksum of the whole")
        decode_record(record)
        return
    raise RecordError(f"record checksum is {computed:010d}, the record says {tail[-11:-1][::-1]!r}")
