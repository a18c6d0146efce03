"""What a recorded frame should decode to, worked out without the product's codec."""

import json
from typing import Any

from compat.remoting import binary_header, split_frame

__all__ = ["body_form", "describe"]

SERIALIZATIONS = ["JSON", "ROCKETMQ"]
RESPONSE = 1
RECORD_MAGICS = {0xDAA320A7, 0xDAA320AB}


def body_form(body: bytes, code: int) -> str:
    """none, json, fastjson (JSON with bare keys), records, batch, properties or bytes."""
    if not body:
        return "none"
    if body[:1] in b"{[":
        try:
            json.loads(body)
        except ValueError:
            return "fastjson"
        return "json"
    if len(body) > 8 and int.from_bytes(body[4:8], "big") in RECORD_MAGICS:
        return "records"
    if code == 320:
        return "batch"
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError:
        return "bytes"
    return "properties" if all("=" in line or line.startswith("#") for line in lines) else "bytes"


def describe(raw: bytes, request_code: int | None = None) -> dict[str, Any]:
    """The expectation beside a frame. `request_code` is the code of the request that a response answers."""
    kind, text, body = split_frame(raw)
    header = binary_header(text) if kind else json.loads(text)
    response = bool(header["flag"] & RESPONSE)
    return {
        "direction": "response" if response else "request",
        "code": header["code"],
        "requestCode": request_code if response else header["code"],
        "serialize": SERIALIZATIONS[kind],
        "language": header["language"],
        "version": header["version"],
        "opaque": header["opaque"],
        "flag": header["flag"],
        "remark": header.get("remark"),
        "extFields": header.get("extFields") or {},
        "bodyLength": len(body),
        "bodyForm": body_form(body, request_code if response and request_code else header["code"]),
    }
