"""The few lines of the remoting protocol that the harness itself needs: one JSON request over a fresh connection.

Deliberately not `logherd.wire`: a test that asks the product's codec whether the product is right would prove nothing.
"""

import json
import socket
from struct import Struct
from typing import Any

__all__ = ["ask", "binary_header", "frame", "read_frame", "split_frame"]

LANGUAGES = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
]  # fmt: skip
_FIXED = Struct(">hBhii")
_LENGTH = Struct(">i")


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def read_exactly(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = stream.recv(count - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {count} bytes")
        data += piece
    return data


def read_frame(stream: socket.socket) -> bytes:
    """One whole frame, its length field included."""
    length = read_exactly(stream, 4)
    return length + read_exactly(stream, int.from_bytes(length, "big"))


def split_frame(raw: bytes) -> tuple[int, bytes, bytes]:
    """Serialisation byte, header bytes, body bytes."""
    header_end = 8 + int.from_bytes(raw[5:8], "big")
    return raw[4], raw[8:header_end], raw[header_end:]


def binary_header(data: bytes) -> dict[str, Any]:
    """Fields of a header in RocketMQ's own serialisation; like RocketMQ it takes an empty value for none."""
    code, language, version, opaque, flag = _FIXED.unpack_from(data)
    at = _FIXED.size
    (length,) = _LENGTH.unpack_from(data, at)
    at += 4
    remark = data[at : at + length].decode() if length else None
    at += length
    (length,) = _LENGTH.unpack_from(data, at)
    at += 4
    end, fields = at + length, {}
    while at < end:
        name_end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        (length,) = _LENGTH.unpack_from(data, name_end)
        if length:
            fields[data[at + 2 : name_end].decode()] = data[name_end + 4 : name_end + 4 + length].decode()
        at = name_end + 4 + length
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes left over behind the fields")
    return {
        "code": code, "language": LANGUAGES[language], "version": version, "opaque": opaque, "flag": flag,
        "remark": remark, "extFields": fields,
    }  # fmt: skip


def ask(
    port: int, code: int, fields: dict[str, str], body: bytes = b"", *, seconds: float = 5
) -> tuple[dict[str, Any], bytes]:  # fmt: skip
    """Header and body of the answer. Raises OSError."""
    header = {"code": code, "extFields": fields, "flag": 0, "language": "OTHER", "opaque": 1, "version": 479}
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as stream:
        stream.sendall(frame(header, body))
        kind, text, answer = split_frame(read_frame(stream))
    return binary_header(text) if kind else json.loads(text), answer
