"""A deliberately plain client for fault tests: one socket, one request at a time, every outcome classified."""

import itertools
import socket
import time

from checkers.history import Outcome, Send
from logherd.model.record import Record, decode_record
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame

__all__ = ["BlockingClient", "NoAnswerError", "drain_queue"]

# Codes for which the broker's own tests show that nothing was appended.
NOTHING_APPENDED = frozenset({2, 13, 14, 16, 17, 29})
_PAGE = 32


class NoAnswerError(Exception):
    """The connection ended or nothing came in time: whether the request took effect is unknown."""


class BlockingClient:
    """One connection. Not thread-safe."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", timeout_seconds: float = 30.0, made: socket.socket | None = None
    ) -> None:
        """`made`: a connection that somebody else has made, perhaps in another namespace."""
        self._socket = made or socket.create_connection((host, port), timeout=timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._opaque = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Frame:
        """One request and its answer. Raises NoAnswerError."""
        opaque = next(self._opaque)
        try:
            self._socket.sendall(encode_frame(Frame(code, opaque, ext=ext, body=body)))
            while True:
                data = self._socket.recv(1 << 20)
                if not data:
                    raise NoAnswerError("the broker closed the connection")
                for frame in self._reader.feed(data):
                    if frame.is_response and frame.opaque == opaque:
                        return frame
        except OSError as error:
            raise NoAnswerError(str(error)) from error

    def send(self, topic: str, queue_id: int, value: str, *, padding: int = 0) -> Send:
        """Send one message whose body is the value and padding; never raises for what the broker does."""
        body = value.encode() + b"." * padding
        ext = {
            "producerGroup": "system",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": str(queue_id),
            "sysFlag": "0",
            "bornTimestamp": str(time.time_ns() // 1_000_000),
            "flag": "0",
            "properties": f"UNIQ_KEY\x01{value}\x02KEYS\x01{value}\x02",
            "reconsumeTimes": "0",
        }
        invoked = time.monotonic_ns()
        try:
            answer = self.ask(RequestCode.SEND_MESSAGE, ext, body)
        except NoAnswerError:
            return Send(value, Outcome.UNKNOWN, invoked)
        returned = time.monotonic_ns()
        if answer.code == 0:
            queue = (topic, int(answer.ext["queueId"]))
            return Send(value, Outcome.OK, invoked, returned, queue, int(answer.ext["queueOffset"]))
        outcome = Outcome.FAILED if answer.code in NOTHING_APPENDED else Outcome.UNKNOWN
        return Send(value, outcome, invoked, returned)

    def offset(self, code: int, topic: str, queue_id: int) -> int:
        """The minimum (31) or maximum (30) offset of a queue."""
        answer = self.ask(code, {"topic": topic, "queueId": str(queue_id)})
        if answer.code != 0:
            raise NoAnswerError(f"code {answer.code}: {answer.remark}")
        return int(answer.ext["offset"])

    def pull(
        self, topic: str, queue_id: int, offset: int, *, group: str = "TOOLS_CONSUMER"
    ) -> list[tuple[int, str]]:  # fmt: skip
        """Queue offsets and bodies of the messages at `offset` and after, as many as one answer carries."""
        return _entries(self.records(topic, queue_id, offset, group=group))

    def look(self, topic: str, queue_id: int, offset: int) -> tuple[list[tuple[int, str]], int | None]:
        """The same, and the queue's end, which an answer with messages tells and one that there are none yet."""
        answer = self.page(topic, queue_id, offset)
        told = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)
        return _entries(_records(answer)), int(answer.ext["maxOffset"]) if told else None

    def records(self, topic: str, queue_id: int, offset: int, *, group: str = "TOOLS_CONSUMER") -> list[Record]:
        """The same as records, whose checksums are verified."""
        return _records(self.page(topic, queue_id, offset, group=group))

    def page(self, topic: str, queue_id: int, offset: int, *, group: str = "TOOLS_CONSUMER") -> Frame:
        """The answer itself, whatever it is. Raises NoAnswerError."""
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(_PAGE),
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        return self.ask(RequestCode.PULL_MESSAGE, ext)


def _records(answer: Frame) -> list[Record]:
    records, at = [], 0
    while at < len(answer.body):
        record = decode_record(answer.body, at)
        records.append(record)
        at += record.size
    return records


def _entries(records: list[Record]) -> list[tuple[int, str]]:
    return [(record.queue_offset, bytes(record.body).rstrip(b".").decode()) for record in records]


def drain_queue(client: BlockingClient, topic: str, queue_id: int) -> tuple[int, list[tuple[int, str]]]:
    """(first offset, every entry from there to the maximum). Raises NoAnswerError when it cannot read to the end."""
    first = client.offset(RequestCode.GET_MIN_OFFSET, topic, queue_id)
    end = client.offset(RequestCode.GET_MAX_OFFSET, topic, queue_id)
    entries: list[tuple[int, str]] = []
    while (at := first + len(entries)) < end:
        page = client.pull(topic, queue_id, at)
        if not page:
            raise NoAnswerError(f"{topic}/{queue_id}: nothing at offset {at}, the maximum is {end}")
        entries += page
    return first, entries
