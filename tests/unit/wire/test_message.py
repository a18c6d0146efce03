"""A consumer sees what was stored, whole or not at all."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.host import encode_host
from logherd.model.record import SysFlag, encode_record
from logherd.wire.compression import compress_body
from logherd.wire.errors import BodyError, WireError
from logherd.wire.message import Message, decode_messages

HOST = encode_host("192.168.0.1", 10911)


def record(body: bytes = b"hello", properties: bytes = b"", *, topic: bytes = b"T", sys_flag: int = 0) -> bytes:
    return encode_record(
        topic, body, properties, queue_id=3, queue_offset=7, position=74565, store_timestamp=2000, store_host=HOST,
        born_timestamp=1000, born_host=encode_host("::1", 5555), flag=9, sys_flag=sys_flag, reconsume_times=1,
    )  # fmt: skip


def test_a_message_has_what_its_record_says() -> None:
    (message,) = decode_messages(record(properties=b"UNIQ_KEY\x01U1\x02TAGS\x01A\x02KEYS\x01k1 k2\x02"))
    assert message == Message(
        topic="T", queue_id=3, queue_offset=7, position=74565, body=b"hello",
        properties={"UNIQ_KEY": "U1", "TAGS": "A", "KEYS": "k1 k2"}, flag=9, sys_flag=SysFlag.BORN_HOST_V6,
        reconsume_times=1, born_timestamp=1000, born_host=encode_host("::1", 5555), store_timestamp=2000,
        store_host=HOST,
    )  # fmt: skip
    assert (message.message_id, message.tag, message.keys) == ("U1", "A", ["k1", "k2"])
    assert message.offset_message_id == "C0A8000100002A9F0000000000012345"
    assert message.born_address == ("::1", 5555)


def test_without_a_unique_key_the_offset_id_stands_in() -> None:
    (message,) = decode_messages(record())
    assert (message.message_id, message.tag, message.keys) == (message.offset_message_id, None, [])


def test_bodies_are_decompressed_and_not_views() -> None:
    packed, bits = compress_body(b"hello" * 1000)
    buffer = bytearray(record(packed, sys_flag=bits) + record(b""))
    first, second = decode_messages(buffer)
    buffer[:] = bytes(len(buffer))
    assert (first.body, second.body) == (b"hello" * 1000, b"")


def test_a_wrong_byte_in_a_property_does_not_stop_the_consumer() -> None:
    (message,) = decode_messages(record(properties=b"K\x01\xff\x02"))
    assert message.properties == {"K": "�"}


def test_damage_names_the_message_and_its_place() -> None:
    good = record()
    other_magic, other_body = good[:4] + b"\0" + good[5:], good[:100] + b"\0" + good[101:]
    for bad in (good[:-1], other_magic, other_body, record(b"no zlib", sys_flag=SysFlag.COMPRESSED)):
        with pytest.raises(BodyError, match=f"message 1 at byte {len(good)}"):
            decode_messages(good + bad)


def test_checksums_are_compared_only_when_asked() -> None:
    damaged = bytearray(record())
    damaged[100] ^= 1
    assert decode_messages(damaged, verify=False)
    with pytest.raises(BodyError, match="checksum"):
        decode_messages(damaged)


@given(st.data())
def test_any_damage_gives_messages_or_a_wire_error(data: st.DataObject) -> None:
    buffer = bytearray(record(properties=b"K\x01v\x02") * 2)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(buffer) - 1))
        buffer[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        decode_messages(buffer, verify=data.draw(st.booleans()))
