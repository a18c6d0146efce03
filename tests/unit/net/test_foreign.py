"""Other protocols are named; frames never are."""

import pytest

from logherd.net.foreign import foreign_protocol
from unit.net.fakes import request


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS ClientHello"),
        (b"\x16", "TLS ClientHello"),
        (b"PROXY TCP4 10.0.0.1", "PROXY protocol v1"),
        (b"PRO", "PROXY protocol v1"),
        (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11", "PROXY protocol v2"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0", "HTTP"),
    ],
)
def test_another_protocol_is_named(start: bytes, name: str) -> None:
    assert name in str(foreign_protocol(start))


@pytest.mark.parametrize("start", [b"", request(1), request(1, body=bytes(70_000)), request(1, body=bytes(15_000_000))])
def test_a_frame_is_no_other_protocol_at_any_cut(start: bytes) -> None:
    assert [foreign_protocol(start[:length]) for length in range(12)] == [None] * 12
