"""A socket address as records carry it: 4 or 16 bytes of IP, then the port as a signed 32-bit number."""

from ipaddress import ip_address
from struct import Struct

__all__ = ["decode_host", "encode_host", "format_offset_message_id", "parse_offset_message_id"]

_PORT = Struct(">i")
_POSITION = Struct(">q")


def encode_host(ip: str, port: int) -> bytes:
    """8 bytes for IPv4, 20 for IPv6; an IPv4 address mapped into IPv6 is written as IPv4.

    Raises: ValueError if `ip` is not an IP address.
    """
    address = ip_address(ip.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).packed + _PORT.pack(port)


def decode_host(encoded: bytes | memoryview) -> tuple[str, int]:
    """IP text and port of an 8- or 20-byte host. Raises ValueError for another length."""
    if len(encoded) not in (8, 20):
        raise ValueError(f"a host has 8 or 20 bytes, not {len(encoded)}")
    return str(ip_address(bytes(encoded[:-4]))), _PORT.unpack(encoded[-4:])[0]


def format_offset_message_id(host: bytes, position: int) -> str:
    """The offsetMsgId of a record: upper-case hex of the store host and the log position; 32 or 56 characters."""
    return (host + _POSITION.pack(position)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """(ip, port, position) of an offsetMsgId. Raises ValueError if it is none."""
    raw = bytes.fromhex(text)
    if len(raw) not in (16, 28):
        raise ValueError(f"an offset message id has 32 or 56 hex digits, not {len(text)}")
    ip, port = decode_host(raw[:-8])
    return ip, port, _POSITION.unpack(raw[-8:])[0]
