"""What a lane sends again when a broker that was busy refused some of what was on its way."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from logherd.wire.batch import BATCH_MESSAGES_MAX
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.errors import BrokerRefused, Unanswered
from logherd_spark.lanes import Lane
from logherd_spark.patience import Patience

QUEUE = QueueRef("Events", "a", 0)
BODIES = [b"%d" % number for number in range(8)]
ID_LENGTH_MAX = 2 * (20 + 8)


@dataclass
class Busy:
    """A broker, and its own name server, that refuses a body as often as it is told and hangs up after another."""

    refusals: dict[bytes, list[int]] = field(default_factory=dict)
    hangs_up_after: bytes = b""
    arrived: list[bytes] = field(default_factory=list)
    stored: Counter[bytes] = field(default_factory=Counter)
    refused: Counter[bytes] = field(default_factory=Counter)
    hung_up: int = 0
    ids: int = 0
    """So many messages each body has: an answer names the id of each."""
    address: str = ""

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer_all, args=(link,), daemon=True).start()

    def answer_all(self, link: socket.socket) -> None:
        reader = FrameReader()
        with link, suppress(ConnectionError):  # a lane that gives a connection up does not read what is on it
            while data := link.recv(1 << 16):
                for request in reader.feed(data):
                    answer = self.answer(request)
                    answer.opaque, answer.flag = request.opaque, 1
                    link.sendall(encode_frame(answer))
                    if self.hangs_up_after and bytes(request.body) == self.hangs_up_after:
                        self.hangs_up_after, self.hung_up = b"", self.hung_up + 1
                        link.shutdown(socket.SHUT_WR)  # a reset would take the answers away that were given
                        while link.recv(1 << 16):
                            pass
                        return

    def answer(self, request: Frame) -> Frame:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            broker = {"brokerName": "a", "brokerAddrs": {"0": self.address}, "cluster": "c"}
            queues = {"brokerName": "a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
            route = {"brokerDatas": [broker], "queueDatas": [queues], "filterServerTable": {}}
            return Frame(0, 0, body=json.dumps(route).encode())
        body = bytes(request.body)
        self.arrived.append(body)
        if codes := self.refusals.get(body):
            self.refused[body] += 1
            return Frame(codes.pop(0), 0, remark="busy")
        self.stored[body] += 1
        return Frame(0, 0, ext={"msgId": ",".join(["A" * ID_LENGTH_MAX] * self.ids)})


@contextmanager
def running(busy: Busy) -> Iterator[Busy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        busy.address = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=busy.serve, args=(listener,))
        thread.start()
        try:
            yield busy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def send_all(busy: Busy, *, in_order: bool, total_seconds: float = 20) -> None:
    with running(busy), closing(Cluster((busy.address,), Patience(5, total_seconds))) as cluster:
        lane = Lane(cluster, in_order=in_order)
        for body in BODIES:
            make: Callable[[], Frame] = partial(Frame, RequestCode.SEND_BATCH_MESSAGE, 0, body=body)
            lane.submit(QUEUE, make, len(body))
        lane.drain()


def test_only_what_was_refused_is_sent_again_where_order_is_not_promised() -> None:
    busy = Busy({b"2": [ResponseCode.SYSTEM_BUSY] * 2, b"5": [ResponseCode.SYSTEM_BUSY]})
    send_all(busy, in_order=False)
    assert busy.refused == {b"2": 2, b"5": 1}
    assert busy.stored == dict.fromkeys(BODIES, 1)
    assert busy.arrived[8:] == [b"2", b"5", b"2"]


def test_all_after_what_was_refused_come_again_in_order_where_order_is_promised() -> None:
    busy = Busy({b"2": [ResponseCode.SYSTEM_BUSY]})
    send_all(busy, in_order=True)
    assert busy.refused == {b"2": 1}
    assert busy.arrived[-6:] == BODIES[2:]


def test_what_was_not_answered_after_a_refusal_is_sent_again() -> None:
    busy = Busy({b"2": [ResponseCode.SYSTEM_BUSY]}, hangs_up_after=b"4")
    send_all(busy, in_order=False)
    assert busy.hung_up == 1
    assert busy.refused == {b"2": 1}
    assert busy.stored[b"0"] == busy.stored[b"1"] == busy.stored[b"2"] == 1
    assert set(busy.stored) == set(BODIES)


def test_a_refusal_for_good_behind_one_that_passes_is_told() -> None:
    busy = Busy({b"2": [ResponseCode.SYSTEM_BUSY], b"5": [ResponseCode.MESSAGE_ILLEGAL]})
    with pytest.raises(BrokerRefused, match="MESSAGE_ILLEGAL"):
        send_all(busy, in_order=False)
    assert busy.refused == {b"2": 1, b"5": 1}


def test_a_broker_that_stays_busy_for_one_ends_the_patience_though_it_takes_the_others() -> None:
    busy = Busy({b"2": [ResponseCode.SYSTEM_BUSY] * 1000})
    with pytest.raises(Unanswered, match=r"last: .* answered 2: busy"):
        send_all(busy, in_order=False, total_seconds=0.5)
    assert busy.refused[b"2"] > 1
    assert set(busy.stored) == set(BODIES) - {b"2"}


def test_the_ids_of_the_largest_batch_are_no_reason_to_send_it_again() -> None:
    busy = Busy(ids=BATCH_MESSAGES_MAX)
    send_all(busy, in_order=False, total_seconds=0.5)
    assert busy.stored == dict.fromkeys(BODIES, 1)
