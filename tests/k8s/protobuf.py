"""The little of Kubernetes' protobuf that Helm insists on: Secrets, in which it keeps releases, and Namespaces."""

import base64
from collections.abc import Iterator
from typing import Any

__all__ = ["CONTENT_TYPE", "read"]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def read(body: bytes) -> dict[str, Any]:
    """The object as JSON would have it. Other kinds than those two, and most fields of metadata, are left out."""
    assert body.startswith(_MAGIC)
    outer = dict(_fields(body.removeprefix(_MAGIC)))
    kind = dict(_fields(outer[1]))
    document: dict[str, Any] = {"apiVersion": kind[1].decode(), "kind": kind[2].decode(), "metadata": {}}
    for number, value in _fields(outer[2]):
        if number == 1:
            document["metadata"] = _metadata(value)
        elif kind[2] == b"Secret" and number == 2:
            entry = dict(_fields(value))
            document.setdefault("data", {})[entry[1].decode()] = base64.b64encode(entry[2]).decode()
        elif kind[2] == b"Secret" and number == 3:
            document["type"] = value.decode()
    return document


def _metadata(value: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, part in _fields(value):
        if number in (1, 3) and part:
            found["name" if number == 1 else "namespace"] = part.decode()
        elif number in (11, 12):
            entry = dict(_fields(part))
            found.setdefault("labels" if number == 11 else "annotations", {})[entry[1].decode()] = entry[2].decode()
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of what has a length; the others are passed over."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        size, after = _varint(message, at)
        if key & 7 == 0:
            at = after
            continue
        assert key & 7 == 2, "Kubernetes' objects have varints and lengths"
        yield key >> 3, message[after : after + size]
        at = after + size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
