"""Hosts and offset message ids come back, and what is none is refused."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.model.host import decode_host, encode_host, format_offset_message_id, parse_offset_message_id

PORT = st.integers(0, 65535)
# An IPv4 address inside an IPv6 one is written as IPv4, so that it comes back as that.
IP = st.ip_addresses().filter(lambda ip: getattr(ip, "ipv4_mapped", None) is None).map(str)


@given(IP, PORT)
def test_a_host_comes_back(ip: str, port: int) -> None:
    encoded = encode_host(ip, port)
    assert len(encoded) == (20 if ":" in ip else 8)
    assert decode_host(encoded) == (ip, port)
    assert decode_host(memoryview(encoded)) == (ip, port)


@given(st.ip_addresses(v=4), PORT)
def test_an_ipv4_address_inside_an_ipv6_one_takes_eight_bytes(ip: ipaddress.IPv4Address, port: int) -> None:
    assert encode_host(f"::ffff:{ip}", port) == encode_host(str(ip), port)


def test_the_zone_of_a_link_local_address_is_left_out() -> None:
    assert encode_host("fe80::1%eth0", 1) == encode_host("fe80::1", 1)


def test_the_layout_is_ip_then_port() -> None:
    assert encode_host("192.168.0.1", 10911).hex() == "c0a8000100002a9f"


@given(IP, PORT, st.integers(0, 2**63 - 1))
def test_an_offset_message_id_comes_back(ip: str, port: int, position: int) -> None:
    text = format_offset_message_id(encode_host(ip, port), position)
    assert len(text) in (32, 56)
    assert text == text.upper()
    assert parse_offset_message_id(text) == (ip, port, position)


@pytest.mark.parametrize("ip", ["", "localhost", "1.2.3", "1.2.3.4.5", "gg::1"])
def test_a_name_is_no_address(ip: str) -> None:
    with pytest.raises(ValueError, match="address"):
        encode_host(ip, 1)


@pytest.mark.parametrize("length", [0, 7, 9, 16, 19, 21])
def test_a_host_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="8 or 20 bytes"):
        decode_host(bytes(length))


@pytest.mark.parametrize("text", ["", "x" * 32, "0" * 31, "0" * 30, "0" * 34, "0" * 54, "é" * 32])
def test_what_is_no_offset_message_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hex"):
        parse_offset_message_id(text)
