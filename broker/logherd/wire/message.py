"""Messages as a consumer sees them, from the bodies of pull, query and view answers.

Such a body is records back to back, exactly as the log has them.
"""

from msgspec import Struct

from logherd.model.host import decode_host, format_offset_message_id
from logherd.model.properties import Name, parse_properties
from logherd.model.record import RecordError, decode_record
from logherd.wire.compression import PLAIN_BYTES_MAX, decompress_body
from logherd.wire.errors import BodyError, BodyTooLarge

__all__ = ["Message", "decode_messages"]


class Message(Struct, frozen=True, gc=False):
    """One stored message. Timestamps in ms since 1970 UTC; `position` is its place in the log, opaque."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    body: bytes
    properties: dict[str, str]
    flag: int
    sys_flag: int
    reconsume_times: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes

    @property
    def offset_message_id(self) -> str:
        """The id that names host and position, for a look-up at the broker itself."""
        return format_offset_message_id(self.store_host, self.position)

    @property
    def message_id(self) -> str:
        """The id that the producer gave, else the offset message id."""
        return self.properties.get(Name.UNIQ_KEY) or self.offset_message_id

    @property
    def tag(self) -> str | None:
        return self.properties.get(Name.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(Name.KEYS, "").split()

    @property
    def born_address(self) -> tuple[str, int]:
        """IP and port from which the producer sent."""
        return decode_host(self.born_host)


def decode_messages(
    body: bytes | memoryview, *, verify: bool = True, bytes_max: int = PLAIN_BYTES_MAX
) -> list[Message]:
    """All messages of a body, decompressed, in the order of the body. Nothing of `body` is kept.

    With `verify` the body checksum and, where present, the whole-record checksum are compared. `bytes_max`: of a body.

    Raises: BodyError naming the first record that is damaged or cannot be decompressed; BodyTooLarge for its size.
    """
    view = memoryview(body)
    at = 0
    messages: list[Message] = []
    while at < len(view):
        try:
            record = decode_record(view, at, verify=verify)
            plain = decompress_body(record.body, record.sys_flag, bytes_max)
        except (RecordError, BodyError) as error:
            kind = BodyTooLarge if isinstance(error, BodyTooLarge) else BodyError
            raise kind(f"message {len(messages)} at byte {at}: {error}") from error
        # As in Java, a wrong byte in a property must not stop a consumer for good.
        properties = parse_properties(record.properties.decode(errors="replace"))
        properties.pop(Name.CRC32, None)
        messages.append(
            Message(
                record.topic, record.queue_id, record.queue_offset, record.position, plain, properties, record.flag,
                record.sys_flag, record.reconsume_times, record.born_timestamp, record.born_host,
                record.store_timestamp, record.store_host,
            )
        )  # fmt: skip
        at += record.size
    return messages
