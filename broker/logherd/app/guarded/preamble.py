"""What a guardian sends before a client's bytes: a PROXY v2 header with the name of the socket. Pure; bytes only.

The layout stands in `logherd_guardian.proxy`. Fields of other types are skipped, as the protocol wants it.
"""

import socket
from struct import Struct
from typing import NamedTuple

from logherd.kit.errors import LogHerdError
from logherd_guardian.child import PROXY_NAME, PROXY_SIGNATURE

__all__ = ["PREAMBLE_BYTES_MAX", "Preamble", "PreambleError", "read_preamble"]

_HEAD = Struct(">BBH")
_FIELD = Struct(">BH")
_BEGIN = len(PROXY_SIGNATURE) + _HEAD.size
_REST_BYTES_MAX = 512
PREAMBLE_BYTES_MAX = _BEGIN + _REST_BYTES_MAX
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESSES = {0x11: (socket.AF_INET, 4), 0x21: (socket.AF_INET6, 16)}
_PORT_BYTES = 2


class PreambleError(LogHerdError):
    """Not what a guardian sends."""


class Preamble(NamedTuple):
    """Whose connection it is, and where it was meant to go."""

    client: tuple[str, int] | None
    """Address and port; None: the guardian could not tell, and stands for it."""
    name: str
    """Of the listening socket."""
    size: int
    """Bytes of the header; the client's follow."""


def read_preamble(data: bytes) -> Preamble | None:
    """The header that `data` begins with; None while bytes are missing.

    Raises: PreambleError as soon as `data` cannot become one; so no more than PREAMBLE_BYTES_MAX are ever waited for.
    """
    if not data.startswith(PROXY_SIGNATURE[: len(data)]):
        raise PreambleError("no PROXY v2 signature")
    if len(data) < _BEGIN:
        return None
    command, family, length = _HEAD.unpack_from(data, len(PROXY_SIGNATURE))
    if command not in {_LOCAL, _PROXY}:
        raise PreambleError(f"version and command {command:#04x}")
    if length > _REST_BYTES_MAX:
        raise PreambleError(f"{length} bytes of header, at most {_REST_BYTES_MAX} are read")
    if len(data) < _BEGIN + length:
        return None
    rest = data[_BEGIN : _BEGIN + length]
    client = None
    if command == _PROXY:
        client, rest = _client(family, rest)
    return Preamble(client, _name(rest), _BEGIN + length)


def _client(family: int, rest: bytes) -> tuple[tuple[str, int], bytes]:
    """The source, and what follows the addresses."""
    if family not in _ADDRESSES:
        raise PreambleError(f"address family and transport {family:#04x}")
    kind, width = _ADDRESSES[family]
    size = 2 * (width + _PORT_BYTES)
    if len(rest) < size:
        raise PreambleError(f"addresses of {len(rest)} bytes")
    port = int.from_bytes(rest[2 * width : 2 * width + _PORT_BYTES], "big")
    return (socket.inet_ntop(kind, rest[:width]), port), rest[size:]


def _name(fields: bytes) -> str:
    while fields:
        if len(fields) < _FIELD.size:
            raise PreambleError("half a field")
        kind, length = _FIELD.unpack_from(fields)
        value, fields = fields[_FIELD.size : _FIELD.size + length], fields[_FIELD.size + length :]
        if len(value) < length:
            raise PreambleError("a field longer than the header")
        if kind == PROXY_NAME:
            if not value.isascii():
                raise PreambleError("a name that is not ASCII")
            return value.decode("ascii")
    raise PreambleError("no name of a listening socket")
