"""The body of a batch, taken apart and checked before anything of it is stored.

A unit's own properties win over those of the batch, so that no stored message has a name twice: RocketMQ appends the
batch's to each unit's, and what a reader then takes for the message's UNIQ_KEY depends on the reader.
"""

from typing import NamedTuple

from logherd.model.properties import Name, format_properties, parse_properties
from logherd.service.errors import RequestError
from logherd.service.send.properties import Stamper, refuse_features
from logherd.wire.batch import decode_batch
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import BodyError

__all__ = ["BatchUnit", "split_batch"]


class BatchUnit(NamedTuple):
    flag: int
    body: bytes | memoryview
    properties: bytes


def split_batch(body: bytes, batch_properties: str, stamper: Stamper) -> tuple[list[BatchUnit], str]:
    """The units in order with their stored properties, and the batch's own UNIQ_KEY ("" if it has none).

    Raises: RequestError 13 for a body that is no batch or is empty, and for properties that do not fit; 3 for features.
    """
    try:
        messages = decode_batch(body)
    except BodyError as error:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"the batch's body: {error}") from error
    shared = parse_properties(batch_properties)
    batch_key = shared.pop(Name.UNIQ_KEY, "")
    refuse_features(shared)
    names = tuple(f"{name}\x01" for name in shared)
    suffix = format_properties(shared)
    units: list[BatchUnit] = []
    for message in messages:
        text = _decode(message.properties, len(units))
        if any(name in text for name in names):
            text = format_properties(shared | parse_properties(text))
        elif suffix:
            text = f"{text}\x02{suffix}" if text and text[-1] != "\x02" else text + suffix
        units.append(BatchUnit(message.flag, message.body, stamper.stamp(text)[0]))
    return units, batch_key


def _decode(properties: bytes, number: int) -> str:
    try:
        return properties.decode()
    except UnicodeDecodeError as error:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL, f"the properties of message {number} of the batch are not UTF-8: {error}"
        ) from error
