"""The PROXY v2 header that tells a peer whose connection it is given, and the greeting that it answers to. Pure.

    0 signature, 12 bytes | 12 version 2 and command PROXY: 0x21 | 13 family and TCP: 0x11 v4, 0x21 v6
    14 length of the rest u16 | 16 source address | destination address | source port u16 | destination port u16
    then one field: type 0xE0 | length u16 | name of the listening socket that the client connected to, ASCII

Source: haproxy/haproxy: doc/proxy-protocol.txt, section 2.2; 0xE0 to 0xEF are for fields of one's own
"""

import socket
from struct import Struct

__all__ = ["GREETING", "PROXY_NAME", "PROXY_SIGNATURE", "proxy_header"]

GREETING = b"\x00LHRLY\x00\x01"
"""What a child sends first on each connection to its peer port. The last byte is the version of this agreement."""

PROXY_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
PROXY_NAME = 0xE0
"""Type of the field with the socket's name."""
_HEAD = Struct(">12sBBH")
_PORTS = Struct(">HH")
_FIELD = Struct(">BH")
_LOCAL = 0x20
_PROXY = 0x21
_TCP4 = 0x11
_TCP6 = 0x21
_MAPPED = bytes(10) + b"\xff\xff"


def proxy_header(source: tuple[str, int], destination: tuple[str, int], name: str) -> bytes:
    """The header for a connection from `source` to `destination`, which are (address, port), at the socket `name`.

    An IPv4 address in IPv6's clothes is shown as IPv4. What is no pair of addresses of one family becomes a LOCAL
    header: the peer then sees the guardian as the client.
    """
    first, second = _packed(source[0]), _packed(destination[0])
    field = _FIELD.pack(PROXY_NAME, len(name)) + name.encode()
    if len(first) != len(second) or not first:
        return _HEAD.pack(PROXY_SIGNATURE, _LOCAL, 0, len(field)) + field
    rest = first + second + _PORTS.pack(source[1], destination[1]) + field
    return _HEAD.pack(PROXY_SIGNATURE, _PROXY, _TCP4 if len(first) == 4 else _TCP6, len(rest)) + rest


def _packed(address: str) -> bytes:
    """4 or 16 bytes; none if it is not an address."""
    try:
        if ":" not in address:
            return socket.inet_pton(socket.AF_INET, address)
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return b""
    return packed.removeprefix(_MAPPED) if packed.startswith(_MAPPED) else packed
