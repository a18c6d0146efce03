"""The few lines of the remoting protocol that the harness itself needs: one JSON request over a fresh connection.

Deliberately not `logherd.wire`: a test that asks the product's codec whether the product is right would prove nothing.
"""

import json
import socket
from typing import Any

__all__ = ["ask", "frame", "read_frame", "split_frame"]


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


def ask(port: int, code: int, fields: dict[str, str], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Header and body of the answer. Raises OSError."""
    header = {"code": code, "extFields": fields, "flag": 0, "language": "OTHER", "opaque": 1, "version": 479}
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(frame(header, body))
        kind, text, answer = split_frame(read_frame(stream))
    if kind:
        raise ValueError(f"a request in JSON was answered in serialisation {kind}")
    return json.loads(text), answer


