"""A record comes back as it was written, and no damage to it goes unseen."""

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.model.host import encode_host
from logherd.model.properties import find_property
from logherd.model.record import (
    BLANK_MAGIC,
    CHECKSUM_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    Record,
    RecordError,
    SysFlag,
    body_crc,
    decode_record,
    encode_blank,
    encode_record,
    record_size,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOST = st.builds(encode_host, st.ip_addresses().map(str), st.integers(0, 65535))
TOPIC = st.text(st.characters(exclude_categories=["Cs"]), max_size=200).map(str.encode)
PROPERTIES = st.just(b"") | st.binary(max_size=60).map(lambda text: text + b"\x02")
FIELDS = st.fixed_dictionaries({
    "queue_id": INT32, "queue_offset": INT64, "position": INT64, "store_timestamp": INT64, "store_host": HOST,
    "born_timestamp": INT64, "born_host": HOST, "flag": INT32, "sys_flag": st.integers(0, 0xFFF),
    "reconsume_times": INT32, "prepared_position": INT64,
})  # fmt: skip
PLAIN: dict[str, Any] = {
    "queue_id": 3, "queue_offset": 7, "position": 1 << 40, "store_timestamp": 2000, "born_timestamp": 1000,
    "store_host": encode_host("10.0.0.1", 10911), "born_host": encode_host("10.0.0.2", 5555),
}  # fmt: skip
V6 = PLAIN | {"born_host": encode_host("2001:db8::1", 5555)}


@given(TOPIC, st.binary(max_size=200), PROPERTIES, FIELDS)
def test_a_record_comes_back(topic: bytes, body: bytes, properties: bytes, fields: dict[str, Any]) -> None:
    encoded = encode_record(topic, body, properties, **fields)
    hosts = len(fields["born_host"]) + len(fields["store_host"])
    assert len(encoded) == record_size(len(body), len(topic), len(properties), hosts=hosts)
    record = decode_record(b"before" + encoded + b"after", 6)
    assert (record.size, record.topic.encode(), record.body, record.checksummed) == (len(encoded), topic, body, True)
    assert record.properties[:-CHECKSUM_SIZE] == properties
    for name, value in fields.items():
        if name != "sys_flag":
            assert getattr(record, name) == value
    host_bits = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
    assert record.sys_flag & ~host_bits == fields["sys_flag"] & ~host_bits


def test_the_layout_is_the_one_of_rocketmq() -> None:
    record = encode_record(b"T", b"body", b"K\x01v\x02", **PLAIN)
    assert int.from_bytes(record[0:4], "big") == len(record) == 91 + 1 + 4 + 4 + 20
    assert int.from_bytes(record[4:8], "big") == MAGIC_V1
    assert int.from_bytes(record[8:12], "big") == crc32(b"body") & 0x7FFFFFFF
    assert int.from_bytes(record[12:16], "big") == 3
    assert int.from_bytes(record[20:28], "big") == 7
    assert int.from_bytes(record[28:36], "big") == 1 << 40
    assert record[48:56] == PLAIN["born_host"]
    assert record[64:72] == PLAIN["store_host"]
    assert record[84:92] == b"\0\0\0\4body"
    assert record[92:94] == b"\1T"
    assert record[94:96] == (4 + 20).to_bytes(2, "big")


def test_the_checksum_is_the_last_property_with_the_last_digit_first() -> None:
    record = encode_record(b"T", b"body", b"K\x01v\x02", **PLAIN)
    digits = b"%010d" % (crc32(record[:-CHECKSUM_SIZE]) & 0x7FFFFFFF)
    assert record[-CHECKSUM_SIZE:] == b"__CRC32#\x01" + digits[::-1] + b"\x02"
    assert find_property(decode_record(record).properties, b"__CRC32#") == digits[::-1]


@pytest.mark.parametrize("fields", [PLAIN, V6])
def test_no_changed_bit_goes_unseen(fields: dict[str, Any]) -> None:
    record = encode_record(b"topic", b"body", b"K\x01v\x02", **fields)
    original = decode_record(record)
    for at in range(len(record)):
        for bit in range(8):
            damaged = bytearray(record)
            damaged[at] ^= 1 << bit
            try:
                decoded: Record | None = decode_record(damaged)
            except RecordError:
                decoded = None
            # Damage that hides the checksum property itself leaves a record that says so.
            assert decoded is None or (not decoded.checksummed and original.checksummed)


@given(st.data())
def test_without_verification_damage_still_gives_a_record_or_its_error(data: st.DataObject) -> None:
    record = bytearray(encode_record(b"topic", b"body", b"K\x01v\x02", **data.draw(st.sampled_from([PLAIN, V6]))))
    for _ in range(data.draw(st.integers(1, 6))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_record(record, verify=False)
    except RecordError:
        return
    assert decoded.size <= len(record)


@given(st.binary(max_size=300))
@settings(max_examples=50)
def test_garbage_is_no_record(garbage: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(garbage)


@pytest.mark.parametrize("fields", [PLAIN, V6])
def test_a_record_cut_short_is_refused(fields: dict[str, Any]) -> None:
    record = encode_record(b"topic", b"body", b"K\x01v\x02", **fields)
    for size in range(len(record)):
        with pytest.raises(RecordError):
            decode_record(record[:size])
        with pytest.raises(RecordError):
            decode_record(size.to_bytes(4, "big") + record[4:], verify=False)


@pytest.mark.parametrize(("topic", "magic"), [(b"t" * 127, MAGIC_V1), (b"t" * 128, MAGIC_V2), (b"t" * 255, MAGIC_V2)])
def test_a_topic_over_127_bytes_takes_the_second_version(topic: bytes, magic: int) -> None:
    record = encode_record(topic, b"", b"", **PLAIN)
    assert int.from_bytes(record[4:8], "big") == magic
    assert decode_record(record).topic == topic.decode()


def test_properties_fit_up_to_their_length_field() -> None:
    for size in (32767 - CHECKSUM_SIZE - 1, 32767 - CHECKSUM_SIZE):
        assert decode_record(encode_record(b"T", b"", b"p" * size, **PLAIN)).checksummed
    with pytest.raises(RecordError, match="32768"):
        encode_record(b"T", b"", b"p" * (32768 - CHECKSUM_SIZE), **PLAIN)


@pytest.mark.parametrize("size", [65535, 65536])
def test_a_topic_that_does_not_fit_is_a_record_error(size: int) -> None:
    if size == 65535:
        assert decode_record(encode_record(b"t" * size, b"", b"", **PLAIN)).topic == "t" * size
    else:
        with pytest.raises(RecordError):
            encode_record(b"t" * size, b"", b"", **PLAIN)


@pytest.mark.parametrize("claimed", [SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, 0x30, 0])
@pytest.mark.parametrize("fields", [PLAIN, V6])
def test_what_a_client_says_about_hosts_does_not_count(fields: dict[str, Any], claimed: int) -> None:
    """A record with bits that contradict its hosts could not be read back, and would look like damage."""
    record = decode_record(encode_record(b"T", b"body", b"", **fields, sys_flag=claimed | SysFlag.COMPRESSED))
    assert record.born_host == fields["born_host"]
    assert record.sys_flag == SysFlag.COMPRESSED | (SysFlag.BORN_HOST_V6 if fields is V6 else 0)


def test_a_record_of_a_plain_broker_has_no_checksum_and_is_read() -> None:
    ours = encode_record(b"T", b"body", b"K\x01v\x02", **PLAIN)
    plain = bytearray(ours[:-CHECKSUM_SIZE])
    plain[0:4] = len(plain).to_bytes(4, "big")
    plain[94:96] = (4).to_bytes(2, "big")
    record = decode_record(plain)
    assert (record.checksummed, record.properties) == (False, b"K\x01v\x02")


def test_a_topic_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(RecordError, match="UTF-8"):
        decode_record(encode_record(b"\xff", b"", b"", **PLAIN))


def test_an_empty_body_is_valid() -> None:
    assert decode_record(encode_record(b"T", b"", b"", **PLAIN)).body == b""


def test_a_body_checksum_has_no_sign_bit() -> None:
    assert all(0 <= body_crc(bytes((n,))) < 2**31 for n in range(256))


@pytest.mark.parametrize("size", [8, 9, 1 << 20])
def test_a_blank_says_how_much_is_left(size: int) -> None:
    assert encode_blank(size) == size.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")
    with pytest.raises(RecordError, match="magic"):
        decode_record(encode_blank(size) + bytes(200))


@pytest.mark.parametrize("size", [0, 7])
def test_a_blank_needs_eight_bytes(size: int) -> None:
    with pytest.raises(RecordError):
        encode_blank(size)
