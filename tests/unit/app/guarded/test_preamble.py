"""What a guardian writes is read back; what nobody should write is refused early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.app.guarded.preamble import PREAMBLE_BYTES_MAX, Preamble, PreambleError, read_preamble
from logherd_guardian.proxy import PROXY_SIGNATURE, proxy_header

V4 = proxy_header(("10.1.2.3", 40_000), ("192.168.0.9", 10_911), "remoting")
V6 = proxy_header(("2001:db8::1", 1), ("fe80::2%eth0", 65_535), "names")
LOCAL = proxy_header(("somewhere", 1), ("10.0.0.1", 2), "names")
HEADERS = [
    (V4, Preamble(("10.1.2.3", 40_000), "remoting", len(V4))),
    (V6, Preamble(("2001:db8::1", 1), "names", len(V6))),
    (LOCAL, Preamble(None, "names", len(LOCAL))),
]


@pytest.mark.parametrize(("header", "expected"), HEADERS)
def test_what_a_guardian_writes_is_read_at_any_cut(header: bytes, expected: Preamble) -> None:
    for end in range(len(header)):
        assert read_preamble(header[:end]) is None
    for more in (b"", b"\0", b"x" * 5000):
        assert read_preamble(header + more) == expected


def with_rest(rest: bytes, *, command: int = 0x20, family: int = 0) -> bytes:
    return PROXY_SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2, "big") + rest


def test_fields_of_other_types_are_skipped() -> None:
    fields = b"\x04\x00\x03abc" + b"\xe0\x00\x05names"
    assert read_preamble(with_rest(fields)) == Preamble(None, "names", 16 + len(fields))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1", "no PROXY v2 signature"),
        (b"\r\n\r\nX", "no PROXY v2 signature"),
        (with_rest(b"", command=0x11), "version and command 0x11"),
        (with_rest(b"", command=0x22), "version and command 0x22"),
        (PROXY_SIGNATURE + b"\x21\x11\xff\xff", "65535 bytes of header, at most 512 are read"),
        (PROXY_SIGNATURE + b"\x21\x11\x02\x01", "513 bytes of header, at most 512 are read"),
        (with_rest(b"/tmp/x", command=0x21, family=0x31), "address family and transport 0x31"),
        (with_rest(b"1234", command=0x21, family=0x11), "addresses of 4 bytes"),
        (with_rest(b"\xe0\x00"), "half a field"),
        (with_rest(b"\xe0\x00\x09names"), "a field longer than the header"),
        (with_rest(b"\xe0\x00\x01\xff"), "a name that is not ASCII"),
        (with_rest(b"\x04\x00\x01a"), "no name of a listening socket"),
    ],
)
def test_what_no_guardian_writes_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(PreambleError, match=why):
        read_preamble(data)


@given(st.one_of(st.binary(), st.binary().map(lambda rest: with_rest(rest, command=0x21, family=0x11))))
def test_no_bytes_do_anything_else_and_none_are_waited_for_for_ever(data: bytes) -> None:
    try:
        found = read_preamble(data)
    except PreambleError:
        return
    assert found is not None or len(data) < PREAMBLE_BYTES_MAX
