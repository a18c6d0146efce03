"""Registration bodies of older brokers: the compressed form, and how it can be damaged."""

import zlib
from struct import pack

import pytest

from logherd.model.topic import TopicConfig
from logherd.service.names.compressed import (
    TOPICS_MAX,
    RegistrationBodyError,
    decode_compressed,
    encode_compressed,
    inflate,
)
from logherd.service.names.routes import TableVersion


def piece(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


VERSION = piece(b'{"counter":3,"stateVersion":2,"timestamp":1700000000000}')
TOPICS = pack(">i", 2) + piece(b"T 4 8 6 SINGLE_TAG {}") + piece(b'U 1 1 4 SINGLE_TAG {"message.type":"FIFO"}')
TAIL = piece(b"[]") + pack(">i", 0)


def test_version_and_topics_are_read() -> None:
    version, topics = decode_compressed(zlib.compress(VERSION + TOPICS + TAIL))
    assert version == TableVersion(3, 2, 1_700_000_000_000)
    assert topics == {
        "T": TopicConfig("T", 4, 8, 6), "U": TopicConfig("U", 1, 1, 4, attributes={"message.type": "FIFO"}),
    }  # fmt: skip


def test_what_is_sent_is_what_rocketmq_sends() -> None:
    topics = [TopicConfig("T", 4, 8, 6), TopicConfig("U", 1, 1, 4, attributes={"message.type": "FIFO"})]
    body = encode_compressed(TableVersion(3, 2, 1_700_000_000_000), topics)
    assert zlib.decompress(body) == VERSION + TOPICS + TAIL


def test_topics_of_the_oldest_brokers_have_no_attributes() -> None:
    body = zlib.compress(VERSION + pack(">i", 1) + piece(b"T 4 8 6 SINGLE_TAG") + piece(b"[]"))
    assert decode_compressed(body)[1] == {"T": TopicConfig("T", 4, 8, 6)}


@pytest.mark.parametrize("length", range(len(VERSION) + len(TOPICS)))
def test_a_body_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(RegistrationBodyError):
        decode_compressed(zlib.compress((VERSION + TOPICS)[:length]))


@pytest.mark.parametrize(
    "body",
    [
        b"not zlib", zlib.compress(VERSION + TOPICS)[:-5], zlib.compress(piece(b"{") + TOPICS),
        zlib.compress(VERSION + pack(">i", 1) + piece(b"T four 8 6 SINGLE_TAG")),
        zlib.compress(VERSION + pack(">i", 1) + piece(b"\xff\xff 1 2 3 4")),
        zlib.compress(VERSION + pack(">i", 1) + pack(">i", -1)),
        zlib.compress(piece(b'{"x":' + b"[" * 10_000) + TOPICS),
        zlib.compress(VERSION + pack(">i", 1) + piece(b"T 2147483648 8 6 SINGLE_TAG")),
        zlib.compress(VERSION + pack(">i", 1) + piece(b"T 4 8 -2147483649 SINGLE_TAG")),
    ],
)  # fmt: skip
def test_a_damaged_body_is_refused(body: bytes) -> None:
    with pytest.raises(RegistrationBodyError):
        decode_compressed(body)


def test_a_body_may_grow_to_the_limit_and_not_beyond() -> None:
    assert inflate(zlib.compress(bytes(1000)), limit=1000) == bytes(1000)
    with pytest.raises(RegistrationBodyError, match="beyond 999 bytes"):
        inflate(zlib.compress(bytes(1000)), limit=999)


def test_more_topics_than_one_registration_may_have_are_not_read() -> None:
    """The shortest are 14 bytes of what the body may grow to, and each costs the loop some microseconds."""
    body = VERSION + pack(">i", TOPICS_MAX + 1) + piece(b"T 1 1 6 x") * (TOPICS_MAX + 1) + TAIL
    with pytest.raises(RegistrationBodyError, match="300001 topics, at most 300000"):
        decode_compressed(zlib.compress(body, 1))
