"""The page: what a child tells its guardian, in memory that both have open. Bytes only; no I/O.

Two slots of 2048 bytes; the writer fills the one that is not current, so a writer killed or paused in the middle spoils
only what was not yet said. The reader takes the sound slot with the higher sequence number. Big-endian:

     0 magic "LHGP" | 4 version u16 | 6 flags u16 (1 ready, 2 registered) | 8 sequence u64 | 16 epoch u64
    24 lease end i64, ms on CLOCK_BOOTTIME, 0: none held | 32 length of identity u16
    34 identity: JSON object of strings, UTF-8 | crc32 u32 over everything before it
"""

import json
from binascii import crc32
from struct import Struct

from logherd_guardian.values import Value

__all__ = ["IDENTITY_BYTES_MAX", "PAGE_BYTES", "SLOT_BYTES", "Identity", "Page", "decode_page", "encode_slot"]

PAGE_BYTES = 4096
SLOT_BYTES = PAGE_BYTES // 2
_MAGIC = b"LHGP"
_VERSION = 1
_READY = 1
_REGISTERED = 2
_HEAD = Struct(">4sHHQQqH")
_CRC = Struct(">I")
IDENTITY_BYTES_MAX = SLOT_BYTES - _HEAD.size - _CRC.size


class Identity(Value):
    """Who a broker is to the controllers; addresses are no part of it."""

    __slots__ = ("broker_id", "cluster", "group", "store_id")

    def __init__(self, *, cluster: str, group: str, broker_id: int, store_id: str) -> None:
        self.cluster = cluster
        self.group = group
        self.broker_id = broker_id
        self.store_id = store_id


class Page(Value):
    """What a child says at one moment. `lease_end_ms` is 0 while it holds no lease, or has noted that it is over."""

    __slots__ = ("epoch", "identity", "lease_end_ms", "ready", "registered", "sequence")

    def __init__(
        self, *, sequence: int = 0, ready: bool = False, registered: bool = False, epoch: int = 0,
        lease_end_ms: int = 0, identity: Identity | None = None,
    ) -> None:  # fmt: skip
        self.sequence = sequence
        self.ready = ready
        self.registered = registered
        self.epoch = epoch
        self.lease_end_ms = lease_end_ms
        self.identity = identity


def encode_slot(page: Page) -> bytes:
    """The bytes of one slot. Raises: ValueError if the identity is longer than IDENTITY_BYTES_MAX."""
    identity = b"" if page.identity is None else _identity_bytes(page.identity)
    if len(identity) > IDENTITY_BYTES_MAX:
        raise ValueError(f"an identity of {len(identity)} bytes, allowed are {IDENTITY_BYTES_MAX}")
    flags = (_READY if page.ready else 0) | (_REGISTERED if page.registered else 0)
    head = _HEAD.pack(_MAGIC, _VERSION, flags, page.sequence, page.epoch, page.lease_end_ms, len(identity))
    return head + identity + _CRC.pack(crc32(head + identity))


def decode_page(data: bytes) -> Page | None:
    """What a page says; None if it says nothing yet. Raises: nothing for any content."""
    found = [_decode_slot(data[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    return max((page for page in found if page is not None), key=lambda page: page.sequence, default=None)


def _decode_slot(slot: bytes) -> Page | None:
    if len(slot) < _HEAD.size + _CRC.size or not slot.startswith(_MAGIC):
        return None
    _, version, flags, sequence, epoch, lease_end_ms, length = _HEAD.unpack_from(slot)
    end = _HEAD.size + length
    if version != _VERSION or end + _CRC.size > len(slot) or _CRC.unpack_from(slot, end)[0] != crc32(slot[:end]):
        return None
    return Page(
        sequence=sequence, ready=bool(flags & _READY), registered=bool(flags & _REGISTERED), epoch=epoch,
        lease_end_ms=lease_end_ms, identity=_identity(slot[_HEAD.size : end]),
    )  # fmt: skip


def _identity_bytes(identity: Identity) -> bytes:
    fields = {
        "cluster": identity.cluster,
        "group": identity.group,
        "brokerId": str(identity.broker_id),
        "storeId": identity.store_id,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _identity(data: bytes) -> Identity | None:
    try:
        fields = json.loads(data)
        return Identity(
            cluster=str(fields["cluster"]), group=str(fields["group"]), broker_id=int(fields["brokerId"]),
            store_id=str(fields["storeId"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
