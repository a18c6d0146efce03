"""Records as a RocketMQ broker writes them: without a checksum of the whole."""

from logherd.model.record import CHECKSUM_SIZE, encode_record
from unit.store.helpers import HOST

__all__ = ["bare_record"]


def bare_record(
    position: int, *, topic: bytes = b"T", queue_offset: int = 0, body: bytes = b"b" * 100, sys_flag: int = 0
) -> bytes:
    whole = encode_record(
        topic, body, b"TAGS\x01t\x02", queue_id=0, queue_offset=queue_offset, position=position, store_timestamp=1000,
        store_host=HOST, born_timestamp=1, born_host=HOST, sys_flag=sys_flag,
    )  # fmt: skip
    properties = b"TAGS\x01t"
    head = whole[: len(whole) - CHECKSUM_SIZE - len(b"TAGS\x01t\x02") - 2]
    data = head + len(properties).to_bytes(2) + properties
    return len(data).to_bytes(4) + data[4:]
