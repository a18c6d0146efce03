"""JSON bodies of requests and answers, by family.

Attribute names are ours; the spelling on the wire stands beside each field or is its camel case. Collections may be
given as any sequence or mapping; decoded ones are lists and dicts. Unknown keys are ignored, missing ones get Java's
defaults, nulls count as missing.
"""

from logherd.wire.bodies.base import Body, MessageQueue, decode_body, encode_body, parse_queue_key, queue_key

__all__ = ["Body", "MessageQueue", "decode_body", "encode_body", "parse_queue_key", "queue_key"]
