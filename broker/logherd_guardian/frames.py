"""The report of an exit as a remoting frame, and the controller's answer. Bytes only; the codec that brokers use is too
large to be here.

    0 length u32: bytes after this field | 4 type u8, 0: JSON | 5 header length u24 | 8 header | body
"""

import json
from struct import Struct

from logherd_guardian.page import Identity
from logherd_guardian.values import Value

__all__ = ["ANSWER_BYTES_MAX", "LEASE_RELEASE", "Answer", "Exit", "decode_answer", "encode_report"]

LEASE_RELEASE = 27001
ANSWER_BYTES_MAX = 64 << 10
_START = Struct(">II")
_OPAQUE = 1
_VERSION = 479
_RESPONSE = 1


class Exit(Value):
    """The proven end of one process: whose it was, and its incarnation."""

    __slots__ = ("identity", "incarnation")

    def __init__(self, identity: Identity, incarnation: str) -> None:
        self.identity = identity
        self.incarnation = incarnation


class Answer(Value):
    """A controller's response code, its remark, and where it says that the leader is."""

    __slots__ = ("code", "leader", "remark")

    def __init__(self, code: int, leader: str | None = None, remark: str = "") -> None:
        self.code = code
        self.leader = leader
        self.remark = remark


def encode_report(exited: Exit) -> bytes:
    """The request LEASE_RELEASE: compare-and-set on (store, incarnation), so it may be sent again and to everybody."""
    fields = {
        "clusterName": exited.identity.cluster,
        "brokerName": exited.identity.group,
        "brokerId": str(exited.identity.broker_id),
        "storeId": exited.identity.store_id,
        "incarnation": exited.incarnation,
        "exited": "true",
    }
    header = {
        "code": LEASE_RELEASE, "language": "OTHER", "version": _VERSION, "opaque": _OPAQUE, "flag": 0,
        "serializeTypeCurrentRPC": "JSON", "extFields": fields,
    }  # fmt: skip
    data = json.dumps(header, separators=(",", ":")).encode()
    return _START.pack(4 + len(data), len(data)) + data


def decode_answer(data: bytes) -> Answer | None:
    """The answer to a report; None while bytes are missing. Raises: ValueError for what can be no answer."""
    if len(data) < 4:
        return None
    length = int.from_bytes(data[:4], "big")
    if not 4 <= length <= ANSWER_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes")
    if len(data) < 4 + length:
        return None
    _, header_length = _START.unpack_from(data)
    if header_length > length - 4:
        raise ValueError("a header of another kind or longer than its frame")
    try:
        header = json.loads(data[8 : 8 + header_length])
        code, remark, fields = int(header["code"]), str(header.get("remark") or ""), header.get("extFields") or {}
        if header["opaque"] != _OPAQUE or not int(header["flag"]) & _RESPONSE:
            raise ValueError("not the answer to this request")
        leader = fields.get("controllerLeaderAddress")
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError("a header without what an answer has") from error
    return Answer(code, leader if isinstance(leader, str) and leader else None, remark[:200])
