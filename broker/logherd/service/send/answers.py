"""The answer to a send as ready bytes: most of it never changes, and sends are most of the traffic.

A frame with a JSON header, which every client reads whatever encoding it sent. The fields MSG_REGION and TRACE_ON must
be there: the Java client reads them without looking whether they are.
"""

from struct import Struct

import msgspec

from logherd.wire.frame import VERSION

__all__ = ["SendAnswers"]

_U32X2 = Struct(">II")
_encode = msgspec.json.Encoder().encode


class SendAnswers:
    """Builds answers for one broker."""

    def __init__(self, *, store_host: bytes, region: str, trace_on: bool) -> None:
        self._host = store_host.hex().upper()
        # `%` in a configured text would be taken for a placeholder.
        fixed = f'"MSG_REGION":{_text(region)},"TRACE_ON":"{"true" if trace_on else "false"}"'.replace("%", "%%")
        head = f'{{"code":0,"extFields":{{{fixed},"msgId":"%s","queueId":"%d","queueOffset":"%d"'
        tail = f'}},"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        self._without_key = head + tail
        self._with_key = head + ',"transactionId":%s' + tail
        self._one = self._host + "%016X"

    def message_id(self, position: int) -> str:
        """The offsetMsgId of the record at this position."""
        return self._one % position

    def frame(self, message_id: str, queue_id: int, queue_offset: int, *, unique_key: str, opaque: int) -> bytes:
        """The whole frame. `message_id` is one id or a comma-separated list."""
        if unique_key:
            # isalnum takes what JSON would not have to escape, and what every stock client sends.
            key = f'"{unique_key}"' if unique_key.isascii() and unique_key.isalnum() else _text(unique_key)
            header = (self._with_key % (message_id, queue_id, queue_offset, key, opaque)).encode()
        else:
            header = (self._without_key % (message_id, queue_id, queue_offset, opaque)).encode()
        length = len(header)
        return _U32X2.pack(4 + length, length) + header


def _text(value: str) -> str:
    return _encode(value).decode()
