"""The body of a batch, taken apart and checked before anything of it is stored.

A unit's own properties win over those of the batch, so that no stored message has a name twice: RocketMQ appends the
batch's to each unit's, and what a reader then takes for the message's UNIQ_KEY depends on the reader.
"""

from logherd.model.properties import Name, format_properties, parse_properties
from logherd.model.record import SysFlag
from logherd.service.errors import RequestError
from logherd.service.send.properties import STORED_BYTES_MAX, Stamper, refuse_features
from logherd.wire.batch import BATCH_MESSAGES_MAX, decode_batch
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import BodyError

__all__ = ["BatchUnit", "split_batch", "split_rows", "unpack_batch"]


_UNIQUE = f"{Name.UNIQ_KEY}\x01".encode()

BatchUnit = tuple[int, bytes, bytes]
"""(flag, body, stored properties), as `MessageStore.append_all` takes them."""


def unpack_batch(body: bytes, sys_flag: int, bytes_max: int) -> tuple[bytes, int]:
    """The body as `split_batch` takes it, and the flags of its messages.

    The C++ client, which Python's has beneath it, compresses a batch of more than 4 KiB as a whole. RocketMQ 5.3.3
    stores an empty message in place of it and calls that a success.

    Where each message is compressed for itself the flag is theirs. No compressed stream begins as a length that fits.

    Raises: RequestError 13 if it cannot be unpacked or grows beyond `bytes_max`.
    """
    if not sys_flag & SysFlag.COMPRESSED or int.from_bytes(body[:4]) <= len(body):
        return body, sys_flag
    from logherd.wire.compression import decompress_body  # its libraries, megabytes, are for few brokers

    try:
        return decompress_body(body, sys_flag, bytes_max), sys_flag & ~(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK)
    except BodyError as error:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"the compressed batch: {error}") from error


def split_batch(
    body: bytes, batch_properties: str, stamper: Stamper, *, count_max: int = BATCH_MESSAGES_MAX
) -> tuple[list[BatchUnit], str]:
    """The units in order with their stored properties, and the batch's own UNIQ_KEY ("" if it has none).

    Raises: RequestError 13 for a body that is no batch, is empty or has more than `count_max` messages, and for
    properties that do not fit; 3 for features.
    """
    messages = _messages(body, min(count_max, BATCH_MESSAGES_MAX))
    shared = parse_properties(batch_properties)
    batch_key = shared.pop(Name.UNIQ_KEY, "")
    refuse_features(shared)
    names = tuple(f"{name}\x01" for name in shared)
    suffix = format_properties(shared)
    units = list[BatchUnit]()
    known = dict[tuple[bytes, bytes], tuple[bytes, bytes]]()
    for flag, content, properties in messages:
        before, _, rest = properties.partition(_UNIQUE)
        key, mark, after = rest.partition(b"\x02")
        ordinary = mark and key.isalnum()
        around = known.get((before, after)) if ordinary else None
        if around is not None and len(stored := _UNIQUE.join((around[0], key + around[1]))) <= STORED_BYTES_MAX:
            units.append((flag, content, stored))
            continue
        text = _decode(properties, len(units))
        if any(name in text for name in names):
            text = format_properties(shared | parse_properties(text))
        elif suffix:
            text = f"{text}\x02{suffix}" if text and text[-1] != "\x02" else text + suffix
        stored = stamper.stamp(text)[0]
        units.append((flag, content, stored))
        if ordinary and format_properties(parse_properties(text)) == text:
            _remember(known, (before, after), stored, key)
    return units, batch_key


def _remember(
    known: dict[tuple[bytes, bytes], tuple[bytes, bytes]], around: tuple[bytes, bytes], stored: bytes, key: bytes
) -> None:  # fmt: skip
    """The messages of a batch differ by their key, if at all: what stands around it is stored as it was before."""
    stored_before, _, rest = stored.partition(_UNIQUE)
    if rest.startswith(key + b"\x02") and _UNIQUE not in rest and _UNIQUE not in around[1]:
        known[around] = stored_before, rest[len(key) :]


def split_rows(body: bytes, stamper: Stamper) -> list[BatchUnit]:
    """The units of a batch of an idempotent writer, in order. They get no UNIQ_KEY: (queue, offset) tells them apart,
    and what their writer stored is known by its chunks. Raises as `split_batch`."""
    known = dict[bytes, bytes]()
    units = list[BatchUnit]()
    for flag, content, properties in _messages(body, BATCH_MESSAGES_MAX):
        stored = known.get(properties)
        if stored is None:
            stored = known[properties] = stamper.complete(_decode(properties, len(units)))
        units.append((flag, content, stored))
    return units


def _messages(body: bytes, count_max: int) -> list[tuple[int, bytes, bytes]]:
    try:
        return decode_batch(body, count_max=count_max)
    except BodyError as error:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"the batch's body: {error}") from error


def _decode(properties: bytes, number: int) -> str:
    try:
        return properties.decode()
    except UnicodeDecodeError as error:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL, f"the properties of message {number} of the batch are not UTF-8: {error}"
        ) from error
