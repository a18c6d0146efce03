"""Sends that come together are stored and answered as if each had come alone."""

from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logherd.app.requests import Port, WaitingAnswers
from logherd.model.topic import TopicConfig
from logherd.net.session import NetSession
from logherd.service.ports import Reply, Request
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Flag, Frame
from unit.service.rig import Rig, short_header

PLAIN = "UNIQ_KEY\x01C0A80001123418B4AAC27F0A0B0C%04X\x02WAIT\x01true\x02"
PROPERTIES = [
    PLAIN, PLAIN, PLAIN,
    PLAIN + "TAGS\x01A\x02",
    PLAIN + "KEYS\x01one two\x02",
    "TAGS\x01B\x02" + PLAIN,
    "UNIQ_KEY\x01with-dash-%d\x02",
    PLAIN + "DELAY\x013\x02",
    "UNIQ_KEY\x01\u4e2d%d\x02",
    PLAIN + "X\x01" + "y" * 32_650 + "\x02",
]  # fmt: skip
FAULTS = [{}, {}, {}, {}, {"e": 99}, {"f": 4}, {"f": 16}, {"b": "other"}, {"b": "%RETRY%g"}, {"e": -1}, {"m": "true"}]


class Client:
    """A session that keeps what it is sent."""

    def __init__(self, rig: Rig) -> None:
        self.remote_host = rig.session.remote_host
        self.answers: dict[int, object] = {}
        self.order: list[int] = []
        self._waiting = WaitingAnswers(rig.store)
        self._port = Port(rig.dispatcher, self._waiting, on_pass=lambda: None, on_close=lambda _: None)
        self._rig = rig

    def reply(self, request: Request, reply: Reply) -> None:
        self.answers[request.frame.opaque] = (reply.code, reply.remark)

    def send_encoded(self, frames: list[Frame], answers: list[bytes]) -> None:
        for frame, answer in zip(frames, answers, strict=True):
            [decoded] = FrameReader().feed(answer)
            assert decoded.opaque == frame.opaque
            self.answers[frame.opaque] = (decoded.code, decoded.ext)
            self.order.append(frame.opaque)

    def send(self, frames: list[Frame]) -> None:
        self._port.on_frames(cast("NetSession", self), frames)

    def commit(self) -> None:
        assert not self.order, "nothing is answered before the commit"
        self._rig.end_pass()
        self._waiting.release(self._rig.store.committed_position)


def frames_of(requests: list[Frame]) -> list[Frame]:
    """As they come off the wire."""
    return FrameReader(typed_sends=True).feed(b"".join(encode_frame(request) for request in requests))


def request(number: int, properties: str, fault: dict[str, object], body: bytes = b"x") -> Frame:
    fields = {"e": number % 3, "i": properties % number if "%" in properties else properties, "j": number % 2, **fault}
    ext = {key: str(value) for key, value in short_header(**fields).items() if value is not None}
    return Frame(310, number, ext=ext, body=body * (number % 5))


def stored(rig: Rig) -> list[object]:
    found = []
    for topic in ("orders", "other"):
        for queue in range(4):
            units = [rig.store.unit(rig.store.queue(topic, queue), n) for n in range(len(rig.records(topic, queue)))]
            found.append((units, [bytes(record.properties) for record in rig.records(topic, queue)]))
    keys = [PLAIN.split("\x01")[1].split("\x02")[0] % number for number in range(40)]
    found.append([rig.store.query_index("orders", key, max_count=9, begin=0, end=1 << 60) for key in (*keys, "one")])
    return found


@pytest.mark.timeout(120)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.sampled_from(range(len(PROPERTIES))), st.sampled_from(FAULTS)), min_size=4, max_size=40))
def test_together_or_alone_is_the_same(tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[int, dict]]):
    requests = [request(number, PROPERTIES[index], fault) for number, (index, fault) in enumerate(chosen)]
    results = []
    for together in (True, False):
        rig = Rig(Path(tmp_path_factory.mktemp("store")))
        for topic in ("orders", "other"):
            rig.metadata.topics.put(TopicConfig(topic, 4, 4, 6))
        rig.end_pass()
        client = Client(rig)
        # Targets know a queue after its first message.
        for topic in ("orders", "other"):
            client.send(frames_of([request(1000 + n, PLAIN, {"b": topic}) for n in range(3)]))
        frames = frames_of(requests)
        for slice_ in [frames] if together else [[frame] for frame in frames]:
            client.send(slice_)
        client.commit()
        assert client.order[6:] == sorted(client.order[6:]), "answers keep the order of their requests"
        results.append((client.answers, stored(rig), rig.stats.put_calls, rig.stats.put_bytes))
        rig.store.close()
    assert results[0] == results[1]


def test_a_refused_message_in_the_middle_is_answered_alone_and_the_others_are_stored(tmp_path: Path):
    rig = Rig(tmp_path)
    client = Client(rig)
    client.send(frames_of([request(n, PLAIN, {}) for n in range(3)]))
    runs: list[int] = []
    handle_run = client._port._handle_run

    def counted(frames, at, session):
        run = handle_run(frames, at, session)
        runs.append(0 if run is None else len(run.answers))
        return run

    client._port._handle_run = counted
    client.send(frames_of([request(10 + n, PLAIN, {"f": 4} if n == 7 else {}) for n in range(20)]))
    assert client.answers.keys() == {17}
    assert client.answers[17][0] == 3
    assert runs == [7, 0, 12]
    client.commit()
    assert client.order == [0, 1, 2, *(n for n in range(10, 30) if n != 17)]
    assert sum(len(rig.records("orders", queue)) for queue in range(3)) == 22


def test_a_run_ends_at_the_batch_and_goes_on_after_it(tmp_path: Path):
    rig = Rig(tmp_path)
    client = Client(rig)
    client.send(frames_of([request(n, PLAIN, {}) for n in range(3)]))
    client.send(frames_of([request(10 + n, PLAIN, {}, b"z" * 200_000) for n in range(24)]))
    client.commit()
    assert {code for code, _ in client.answers.values()} == {0}
    assert sum(len(rig.records("orders", queue)) for queue in range(3)) == 27


def test_below_the_reserve_or_too_far_ahead_of_the_disk_every_message_is_refused(tmp_path: Path):
    rig = Rig(tmp_path, sends={"unwritten_bytes_max": 4_000})
    client = Client(rig)
    client.send(frames_of([request(n, PLAIN, {}) for n in range(3)]))
    for start in (10, 20, 30):
        client.send(frames_of([request(start + n, PLAIN, {}) for n in range(10)]))
    assert {code for code, _ in client.answers.values()} == {2}
    assert set(range(30, 40)) <= client.answers.keys()


def test_oneway_sends_among_others_are_stored_and_not_answered(tmp_path: Path):
    rig = Rig(tmp_path)
    client = Client(rig)
    requests = [request(n, PLAIN, {}) for n in range(12)]
    requests[5].flag = Flag.ONEWAY
    client.send(frames_of([request(100 + n, PLAIN, {}) for n in range(3)]))
    client.send(frames_of(requests))
    client.commit()
    assert 5 not in client.answers
    assert sum(len(rig.records("orders", queue)) for queue in range(3)) == 15
