"""One typed struct for the header fields of each request and response, by family.

Attribute names are ours; the spelling on the wire stands beside each field or is its camel case. Units are those of the
names: timestamps in milliseconds since 1970 UTC, `queue_offset` a message number, `position` a byte of the log.
"""

from logherd.wire.headers.base import Header, decode_header, encode_header

__all__ = ["Header", "decode_header", "encode_header"]
