"""Records of several messages that came together: what they share is put together once.

The layout is that of record.py; both hosts and the store timestamp between them stand in the head as one piece.
"""

from collections.abc import Callable
from struct import Struct

from logherd.kit.checksum import crc32
from logherd.model.record import CHECKSUM_SIZE, MAGIC_V1, MAGIC_V2, TOPIC_BYTES_V1_MAX, RecordError

__all__ = ["RunEncoder", "run_encoder"]

_HEAD = Struct(">IIIiiqqiq24siqi")
_HOSTS = Struct(">8sq8s")
_pack_head = _HEAD.pack
_pack_i16 = Struct(">h").pack
_CHECKSUM_BACKWARDS = b"\x02%010d\x01#23CRC__"
_CHECKSUM_MASK = 0x7FFFFFFF
_HOST_SIZE = 8

RunEncoder = Callable[[list[bytes], bytes, bytes | memoryview, bytes, int, int, int, int, int, int, int], int]
"""(pieces, topic part, body, properties, queue id, flag, queue offset, position, sys flag, born ms, reconsume times).

Adds the two pieces that are the record; returns its size. The sys flag is without bits for hosts. Raises: RecordError
if the properties do not fit their length field; nothing was added then."""


def run_encoder(born_host: bytes, store_timestamp: int, store_host: bytes) -> RunEncoder | None:
    """Encodes records of one sender and one moment; None where a host is no IPv4 address: then the general encoder."""
    if len(born_host) != _HOST_SIZE or len(store_host) != _HOST_SIZE:
        return None
    hosts = _HOSTS.pack(born_host, store_timestamp, store_host)

    def encode(
        pieces: list[bytes], topic_part: bytes, body: bytes | memoryview, properties: bytes, queue_id: int, flag: int,
        queue_offset: int, position: int, sys_flag: int, born_timestamp: int, reconsume_times: int,
    ) -> int:  # fmt: skip
        body_length, topic_length = len(body), len(topic_part)
        properties_length = len(properties) + CHECKSUM_SIZE
        if properties_length > 0x7FFF:
            raise RecordError(f"properties take {properties_length} bytes with the checksum; at most 32767 fit")
        size = 90 + body_length + topic_length + properties_length
        head = _pack_head(
            size, MAGIC_V1 if topic_length <= TOPIC_BYTES_V1_MAX + 1 else MAGIC_V2, crc32(body) & _CHECKSUM_MASK,
            queue_id, flag, queue_offset, position, sys_flag, born_timestamp, hosts, reconsume_times, 0, body_length,
        )  # fmt: skip
        data = b"".join((head, body, topic_part, _pack_i16(properties_length), properties))
        pieces += (data, (_CHECKSUM_BACKWARDS % (crc32(data) & _CHECKSUM_MASK))[::-1])
        return size

    return encode
