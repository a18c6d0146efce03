"""The answer to a send as ready bytes: most of it never changes, and sends are most of the traffic.

A frame with a JSON header, which every client reads whatever encoding it sent. The fields MSG_REGION and TRACE_ON must
be there: the Java client reads them without looking whether they are.
"""

from struct import Struct

import msgspec

from logherd.wire.frame import VERSION

__all__ = ["SendAnswers"]

_pack_start = Struct(">II").pack
_encode = msgspec.json.Encoder().encode


class SendAnswers:
    """Builds answers for one broker."""

    def __init__(self, *, store_host: bytes, region: str, trace_on: bool) -> None:
        self._host = store_host.hex().upper().encode()
        # `%` in a configured text would be taken for a placeholder.
        fixed = b'"MSG_REGION":%b,"TRACE_ON":"%b"' % (_encode(region), b"true" if trace_on else b"false")
        head = b'{"code":0,"extFields":{%b,"msgId":"' % fixed.replace(b"%", b"%%")
        place = b'","queueId":"%d","queueOffset":"%d"'
        tail = b'},"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION
        self._ordinary = head + self._host + b"%016X" + place + b',"transactionId":"%b"' + tail
        self._with_key = head + b"%b" + place + b',"transactionId":%b' + tail
        self._without_key = head + b"%b" + place + tail

    def message_id(self, position: int) -> bytes:
        """The offsetMsgId of the record at this position."""
        return b"%b%016X" % (self._host, position)

    def of_one(self, position: int, queue_id: int, queue_offset: int, unique_key: bytes, opaque: int) -> bytes:
        """The whole frame for one message, which lies at `position`."""
        # isalnum takes what JSON would not have to escape, and what every stock client sends.
        if not unique_key.isalnum():
            return self.frame(self.message_id(position), queue_id, queue_offset, unique_key=unique_key, opaque=opaque)
        header = self._ordinary % (position, queue_id, queue_offset, unique_key, opaque)
        length = len(header)
        return _pack_start(4 + length, length) + header

    def of_run(self, placed: list[tuple[int, int]], facts: list[tuple[int, bytes, int]]) -> list[bytes]:
        """`of_one` for each (position, queue offset) with its (queue id, unique key, opaque)."""
        template, pack_start = self._ordinary, _pack_start
        answers: list[bytes] = []
        # There may be more facts: of messages that were not stored.
        for (position, offset), (queue_id, unique_key, opaque) in zip(placed, facts, strict=False):
            if unique_key.isalnum():
                header = template % (position, queue_id, offset, unique_key, opaque)
                length = len(header)
                answers.append(pack_start(4 + length, length) + header)
            else:
                answers.append(self.of_one(position, queue_id, offset, unique_key, opaque))
        return answers

    def frame(self, message_id: bytes, queue_id: int, queue_offset: int, *, unique_key: bytes, opaque: int) -> bytes:
        """The whole frame. `message_id` is one id or a comma-separated list."""
        if unique_key:
            header = self._with_key % (message_id, queue_id, queue_offset, _encode(unique_key.decode()), opaque)
        else:
            header = self._without_key % (message_id, queue_id, queue_offset, opaque)
        length = len(header)
        return _pack_start(4 + length, length) + header
