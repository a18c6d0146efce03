"""A connection between its bytes and its handler: delivery, one write a pass, back-pressure, ends with one line."""

import socket
import struct

import pytest

from logherd.net.intake import HEADER_SIZE, SLICE_FRAMES_MAX
from logherd.net.limits import FlowLimits, NetLimits, PatienceLimits
from logherd.net.session import NetSession
from logherd.wire.codec import encode_frame
from logherd.wire.frame import Flag, Frame
from logherd.wire.limits import DEFAULT_LIMITS, WireLimits
from unit.net.fakes import Bench, FakeTransport, Recorder, answer_to, request

MIB = 1024 * 1024


def flow(**limits: int) -> NetLimits:
    return NetLimits(flow=FlowLimits(**limits))


class Parts:
    """What a service gives to `reply` and `park`, by shape."""

    def __init__(
        self, frame: Frame, *, code: int = 0, body: bytes | list[memoryview] = b"", remark: str = "done"
    ) -> None:
        self.frame = frame
        self.code = code
        self.header = {"queueId": "3"}
        self.body = body
        self.remark = remark


def test_the_peer_is_known_before_the_first_frame() -> None:
    bench = Bench()
    session, _ = bench.connect("10.1.2.3", 4567)
    assert (session.remote_ip, session.remote_port) == ("10.1.2.3", 4567)
    assert session.remote_host == bytes([10, 1, 2, 3]) + struct.pack(">i", 4567)
    assert bench.handler.opened == [session]
    assert not session.closed


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 50])
def test_requests_arrive_in_order_at_any_cut(cut: int) -> None:
    bench = Bench()
    session, _ = bench.connect()
    data = b"".join(request(n) for n in range(5))
    for at in range(0, len(data), cut):
        session.data_received(data[at : at + cut])
    assert [frame.opaque for frame in bench.handler.frames] == [0, 1, 2, 3, 4]


def test_all_answers_of_a_pass_leave_in_one_write() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    session.data_received(request(1) + request(2))
    session.data_received(request(3))
    assert transport.writes == []
    bench.end_pass()
    assert len(transport.writes) == 1
    assert [(frame.opaque, frame.flag) for frame in transport.frames()] == [(1, 1), (2, 1), (3, 1)]


def test_what_is_written_within_a_pass_leaves_once_and_nothing_is_read_on_before_its_end() -> None:
    bench = Bench(flow(running_max=2))
    session, transport = bench.connect()
    session.data_received(request(1) + request(2) + request(3))
    assert len(bench.handler.frames) == 2
    for frame in list(bench.handler.frames):
        session.send_answer(frame, answer_to(frame))
    bench.hub.write()
    assert [frame.opaque for frame in transport.frames()] == [1, 2]
    assert (len(transport.writes), len(bench.handler.frames)) == (1, 2)
    bench.end_pass()
    assert (len(transport.writes), len(bench.handler.frames)) == (1, 3)
    bench.hub.write()
    assert len(transport.writes) == 1


def test_who_does_not_read_is_cut_above_the_limit_also_within_a_pass() -> None:
    bench = Bench(flow(unsent_bytes_max=1000))
    session, transport = bench.connect()
    transport.stuck = True
    session.data_received(request(1) + request(2))
    for frame in list(bench.handler.frames):
        session.send_answer(frame, answer_to(frame, body=b"x" * 100_000))
    bench.hub.write()
    assert transport.aborted
    bench.end_pass()
    assert len(transport.writes) == 1


def test_reply_echoes_opaque_and_encoding_and_carries_its_parts() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(77))
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0], code=19, body=b"abc"))
    bench.end_pass()
    [answer] = transport.frames()
    assert (answer.code, answer.opaque, answer.flag, answer.ext) == (19, 77, Flag.RESPONSE, {"queueId": "3"})
    assert (answer.body, answer.remark) == (b"abc", "done")


@pytest.mark.parametrize("letter", ["x", "\u20ac", "\U0001f600"])
def test_a_remark_is_cut_to_what_every_peer_reads(letter: str) -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1))
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0], remark=letter * 40_000))
    bench.end_pass()
    assert transport.frames()[0].remark == letter * 1000 + "..."


@pytest.mark.parametrize("impossible", [{"remark": "\ud800"}, {"body": [memoryview(bytes(17 * MIB))]}])
def test_an_answer_that_cannot_be_sent_becomes_an_error(impossible: dict[str, object]) -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1))
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0], **impossible))  # type: ignore[arg-type]
    bench.end_pass()
    assert [(frame.code, frame.opaque) for frame in transport.frames()] == [(1, 1)]
    assert bench.hub.budget.used == 0
    assert [message for message, _ in bench.lines.warnings] == ["answer cannot be sent"]


def test_slices_are_sent_as_they_are() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1))
    slices = [memoryview(b"a" * 10_000), memoryview(b"b" * 20_000)]
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0], body=slices))
    bench.end_pass()
    assert transport.buffers == 3
    assert transport.frames()[0].body == b"a" * 10_000 + b"b" * 20_000


def test_a_oneway_request_gets_no_answer() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1, flag=Flag.ONEWAY) + request(2))
    for frame in bench.handler.frames:
        session.reply(Parts(frame), Parts(frame))
    bench.end_pass()
    assert [frame.opaque for frame in transport.frames()] == [2]


def test_replies_after_the_client_left_are_dropped_silently() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1))
    session.connection_lost(None)
    assert session.closed
    assert bench.handler.closed == [session]
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0]))
    session.notify(40, None)
    bench.end_pass()
    assert transport.writes == []
    assert bench.lines.warnings == []
    assert bench.hub.budget.used == 0


@pytest.mark.parametrize(("sent", "reading"), [(9, True), (10, False), (11, False)])
def test_reading_stops_at_the_running_limit_and_goes_on_below_it(sent: int, reading: bool) -> None:
    bench = Bench(flow(running_max=10))
    session, transport = bench.connect()
    session.data_received(b"".join(request(n) for n in range(sent)))
    assert len(bench.handler.frames) == min(sent, 10)
    assert transport.reading is reading
    session.send_answer(bench.handler.frames[0], answer_to(bench.handler.frames[0]))
    bench.end_pass()
    assert len(bench.handler.frames) == sent
    assert transport.reading is (sent < 11)


@pytest.mark.parametrize(("parked", "reading"), [(4, True), (5, False), (6, False)])
def test_reading_stops_at_the_parked_limit(parked: int, reading: bool) -> None:
    bench = Bench(flow(running_max=2, parked_max=5))
    session, transport = bench.connect()
    for n in range(parked):
        session.data_received(request(n, code=11))
        if len(bench.handler.frames) == n + 1:
            session.park(Parts(bench.handler.frames[n]))
            bench.end_pass()
    assert len(bench.handler.frames) == min(parked, 5)
    session.data_received(b"")
    assert transport.reading is reading


def test_parked_requests_do_not_count_as_running() -> None:
    bench = Bench(flow(running_max=2))
    session, transport = bench.connect()
    for n in range(10):
        session.data_received(request(n, code=11))
        session.park(Parts(bench.handler.frames[n]))
    assert transport.reading
    for frame in tuple(bench.handler.frames):
        session.send_answer(frame, answer_to(frame))
    bench.end_pass()
    assert len(transport.frames()) == 10
    assert bench.hub.budget.used == 0


@pytest.mark.parametrize(("size", "reading"), [(8999, True), (9000, False), (9001, False)])
def test_reading_stops_at_the_limit_of_request_bytes(size: int, reading: bool) -> None:
    bench = Bench(flow(request_bytes_max=9000 + HEADER_SIZE))
    session, transport = bench.connect()
    session.data_received(request(1, body=bytes(size)))
    assert len(bench.handler.frames) == 1  # one that is too large for the rest passes alone
    assert transport.reading is reading


def test_large_headers_count_in_full() -> None:
    bench = Bench(flow(request_bytes_max=60_000))
    session, transport = bench.connect()
    session.data_received(_with_header_of(30_000, 1))
    assert transport.reading
    session.data_received(_with_header_of(30_000, 2))
    assert not transport.reading
    for frame in tuple(bench.handler.frames):
        session.send_answer(frame, answer_to(frame))
    bench.end_pass()
    assert transport.reading
    assert bench.hub.budget.used == 0


def _with_header_of(size: int, opaque: int) -> bytes:
    from logherd.wire.codec import encode_frame

    return encode_frame(Frame(310, opaque, ext={"i": "x" * size}))


@pytest.mark.parametrize(("unsent", "closed"), [(MIB - 1, False), (MIB, False), (MIB + 1, True)])
def test_a_client_that_does_not_read_its_answers_is_cut_above_the_limit(unsent: int, closed: bool) -> None:
    bench = Bench(flow(unsent_bytes_max=MIB, unsent_bytes_soft=MIB * 2))
    session, transport = bench.connect()
    session.data_received(request(1))
    transport.stuck = True
    answer = answer_to(bench.handler.frames[0])
    head_size = len(_encoded(answer, b""))
    session.send_answer(bench.handler.frames[0], answer, [memoryview(bytes(unsent - head_size))])
    bench.end_pass()
    assert transport.aborted is closed
    reasons = [fields["reason"] for _, fields in bench.lines.warnings]
    assert reasons == (["answers are not read"] if closed else [])


def test_half_of_what_may_lie_unsent_is_left_to_others_and_is_there_again_once_it_was_read() -> None:
    bench = Bench(flow(unsent_bytes_max=MIB, unsent_bytes_soft=MIB * 2))
    session, transport = bench.connect()
    assert session.has_room(4 * MIB)  # the only one
    session.data_received(request(1))
    transport.stuck = True
    session.reply(Parts(bench.handler.frames[0]), Parts(bench.handler.frames[0], body=[memoryview(bytes(MIB // 4))]))
    assert not session.has_room(MIB // 4)  # it counts before it is written, too
    bench.end_pass()
    left = MIB // 2 - transport.unsent
    assert session.has_room(left)
    assert not session.has_room(left + 1)
    transport.unsent = 0  # of which nobody tells
    assert session.has_room(MIB)


def _encoded(answer: Frame, body: bytes) -> bytes:
    from logherd.wire.codec import encode_frame

    return encode_frame(Frame(answer.code, answer.opaque, flag=answer.flag, body=body))


def test_many_large_answers_to_one_burst_are_made_only_as_the_client_takes_them() -> None:
    """200 queues of a consumer that catches up: 200 pulls in one read, 256 KiB each."""
    bench = Bench()
    session, transport = bench.connect()
    transport.stuck = True
    body = [memoryview(bytes(256 * 1024))]

    def answer_slices(_: object, frames: list[Frame]) -> None:
        for frame in frames:
            session.send_answer(frame, answer_to(frame), body)

    bench.handler.on_frames = answer_slices  # type: ignore[method-assign]
    session.data_received(b"".join(request(n, code=11) for n in range(200)))
    most = 0
    for _ in range(100):
        bench.end_pass()
        most = max(most, transport.unsent)
        transport.unsent = 0
        session.resume_writing()
    assert not transport.aborted
    assert most < 16 * MIB
    assert len(transport.frames()) == 200
    assert transport.reading
    assert bench.hub.budget.used == 0


def test_reading_stops_while_the_client_takes_nothing() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    session.data_received(request(1))
    session.pause_writing()
    session.data_received(request(2))
    assert not transport.reading
    assert [frame.opaque for frame in bench.handler.frames] == [1]
    session.resume_writing()
    assert [frame.opaque for frame in bench.handler.frames] == [1, 2]
    assert transport.reading


@pytest.mark.parametrize(("held", "reading"), [(-1, True), (0, False), (1, False)])
def test_nobody_is_read_at_the_limit_of_the_process_and_everybody_below(held: int, reading: bool) -> None:
    total = 10 * HEADER_SIZE
    bench = Bench(flow(total_bytes_max=total))
    first, first_transport = bench.connect(port=1)
    second, second_transport = bench.connect(port=2)
    first.data_received(request(1, body=bytes(total - HEADER_SIZE + held)))
    assert first_transport.reading is reading
    second.data_received(request(2, body=b""))
    assert (len(bench.handler.frames) == 2) is reading
    assert second_transport.reading is False
    first.send_answer(bench.handler.frames[0], answer_to(bench.handler.frames[0]))
    bench.end_pass()
    assert first_transport.reading
    assert second_transport.reading
    assert len(bench.handler.frames) == 2


def test_half_frames_fill_the_budget_and_are_cut_by_their_clock() -> None:
    bench = Bench(flow(total_bytes_max=50_000))
    _, idle_transport = bench.connect(port=1)
    hostile, transport = bench.connect(port=2)
    hostile.data_received(request(1) + request(2, body=bytes(60_000))[:55_000])
    assert bench.hub.budget.used > 50_000
    assert not transport.reading
    bench.sweep_after(0.5)
    bench.sweep_after(10)
    assert transport.aborted
    hostile.connection_lost(None)
    assert bench.hub.budget.used == 0
    assert idle_transport.reading


def fill(bench: Bench, port: int, answers: int) -> tuple[NetSession, FakeTransport]:
    """A client that has asked so many times for 10,000 bytes and takes none of them."""
    session, transport = bench.connect(port=port)
    transport.stuck = True
    for number in range(answers):
        session.data_received(request(number))
        frame = bench.handler.frames[-1]
        session.send_answer(frame, answer_to(frame, body=bytes(10_000)))
    bench.end_pass()
    session.count_unsent()
    return session, transport


def test_who_takes_no_answers_is_let_go_when_they_fill_the_memory_of_all() -> None:
    bench = Bench(flow(total_bytes_max=100_000))
    _, small = fill(bench, 1, 1)
    _, large = fill(bench, 2, 5)
    _, middle = fill(bench, 3, 4)
    _, reader_transport = bench.connect(port=4)
    bench.sweep_after(0.5)
    bench.sweep_after(0.5)
    assert not any(each.aborted for each in (small, large, middle)), "for a moment anybody may be slow"
    bench.sweep_after(0.5)
    assert [each.aborted for each in (small, large, middle)] == [False, True, False], "so many as it takes, no more"
    assert not reader_transport.aborted
    assert [(line["reason"], line["unsent"] > 50_000) for _, line in bench.lines.warnings] == [
        ("answers are not read, and fill the memory of all", True)
    ]


def test_who_takes_some_of_its_answers_is_kept() -> None:
    bench = Bench(flow(total_bytes_max=100_000))
    _, transport = fill(bench, 1, 12)
    for _ in range(10):
        transport.unsent -= 100
        bench.sweep_after(0.5)
    assert not transport.aborted


def test_who_takes_no_answers_is_kept_while_there_is_memory() -> None:
    bench = Bench(flow(total_bytes_max=200_000))
    _, transport = fill(bench, 1, 12)
    for _ in range(10):
        bench.sweep_after(0.5)
    assert not transport.aborted


def test_another_broker_that_reads_nothing_for_a_while_is_kept() -> None:
    bench = Bench(flow(total_bytes_max=100_000))
    session, transport = fill(bench, 1, 12)
    session.hand_over(bench.handler, FlowLimits())
    for _ in range(10):
        bench.sweep_after(0.5)
    assert not transport.aborted


def test_an_answer_that_may_wait_has_room_while_half_of_all_memory_is_free() -> None:
    bench = Bench(flow(total_bytes_max=100_000))
    session, _ = fill(bench, 1, 1)
    other, _ = fill(bench, 2, 1)
    unused, _ = bench.connect(port=3)
    assert other.has_room(25_000)
    assert not other.has_room(35_000)
    assert unused.has_room(60_000), "the only one always has"
    fill(bench, 4, 3)
    assert not session.has_room(1)


def test_the_application_can_stop_all_reading() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    bench.hub.budget.held = True
    session.data_received(request(1))
    assert bench.handler.frames == []
    assert not transport.reading
    bench.hub.budget.held = False
    bench.hub.feed_starved()
    assert len(bench.handler.frames) == 1
    assert transport.reading


GARBAGE = [
    pytest.param(b"\x16\x03\x01\x00\xa5", "not a remoting client", "TLS", id="tls"),
    pytest.param(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "not a remoting client", "PROXY protocol v1", id="proxy 1"),
    pytest.param(b"\r\n\r\n\0\r\nQUIT\n\x21", "not a remoting client", "PROXY protocol v2", id="proxy 2"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", "not a remoting client", "HTTP", id="http"),
    pytest.param(b"\xff" * 50, "bytes that are no frame", "4294967299", id="garbage"),
    pytest.param(struct.pack(">II", 16 * MIB - 3, 10), "bytes that are no frame", "16777217", id="oversized"),
    pytest.param(struct.pack(">II", 20, 2 << 24 | 10) + bytes(20), "bytes that are no frame", "type is 2", id="type"),
    pytest.param(struct.pack(">II", 12, 8) + b"{nojson}", "bytes that are no frame", "JSON", id="no json"),
    pytest.param(struct.pack(">II", 12, 300), "bytes that are no frame", "header length is 300", id="long header"),
]


@pytest.mark.parametrize(("data", "reason", "detail"), GARBAGE)
def test_hostile_input_ends_its_connection_with_one_line_that_says_why(data: bytes, reason: str, detail: str) -> None:
    bench = Bench(answer_at_once=True)
    hostile, hostile_transport = bench.connect(port=1)
    good, good_transport = bench.connect(port=2)
    hostile.data_received(data)
    hostile.data_received(data)
    bench.end_pass()
    assert hostile_transport.closing
    assert hostile.closed
    [(message, fields)] = bench.lines.warnings
    assert (message, fields["reason"], fields["remote"]) == ("connection closed by us", reason, "10.0.0.1:1")
    assert detail in str(fields["detail"])
    good.data_received(request(5))
    bench.end_pass()
    assert [frame.opaque for frame in good_transport.frames()] == [5]
    assert not good_transport.closing


def test_a_flood_of_garbage_writes_few_lines_and_then_how_many_more_there_were() -> None:
    bench = Bench()
    for port in range(1, 1001):
        hostile, _ = bench.connect(port=port)
        hostile.data_received(b"GET / HTTP/1.1\r\n\r\n")
        hostile.connection_lost(None)
    assert len(bench.lines.warnings) == 10
    bench.sweep_after(60)
    [(message, fields)] = bench.lines.warnings[10:]
    assert message == "connection closed by us"
    assert fields == {"reason": "not a remoting client", "left_out": 990, "seconds": 60}


def test_requests_that_fill_the_memory_while_they_wait_are_handled_all_the_same() -> None:
    """Many clients speak while few requests run: what waits is more than there may be, and nothing else makes room."""
    bench = Bench(flow(total_bytes_max=4 * HEADER_SIZE))
    sessions = [bench.connect(port=port)[0] for port in range(1, 9)]
    for session in sessions:
        session.data_received(b"".join(request(opaque) for opaque in range(5)))
    assert len(bench.handler.frames) == 5
    bench.handler.answer_at_once = True
    for frame in bench.handler.frames:
        sessions[0].send_answer(frame, answer_to(frame))
    bench.end_pass()
    assert len(bench.handler.frames) == 40
    assert all(session.quiet for session in sessions)
    assert bench.hub.budget.used == 0


def test_answers_that_nobody_takes_are_not_added_to_while_they_fill_the_memory() -> None:
    """They make room by themselves: they are taken, or their client is let go."""
    bench = Bench(flow(total_bytes_max=100_000))
    _, stuck = fill(bench, 1, 10)
    bench.handler.frames.clear()
    bench.handler.answer_at_once = True
    sessions = [bench.connect(port=port)[0] for port in range(2, 5)]
    for session in sessions:
        session.data_received(request(1) + request(2))
        bench.end_pass()
    bench.sweep_after(0.5)
    bench.end_pass()
    assert bench.handler.frames == []
    bench.sweep_after(0.5)
    bench.sweep_after(0.5)
    assert stuck.aborted
    assert stuck.session is not None
    stuck.session.connection_lost(None)
    bench.sweep_after(0.5)
    assert len(bench.handler.frames) == 6


def test_clients_that_wait_for_memory_take_turns() -> None:
    bench = Bench(flow(total_bytes_max=4 * HEADER_SIZE))
    sessions = [bench.connect(port=port)[0] for port in range(1, 4)]
    bench.hub.budget.held = True
    for session in sessions:
        session.data_received(b"".join(request(opaque) for opaque in range(2 * SLICE_FRAMES_MAX)))
    bench.hub.budget.held = False
    bench.hub.feed_starved()
    served = []
    while bench.handler.given:
        assert len(bench.handler.given) == 1, "one at a time, while they take more than there is"
        ((number, frames),) = bench.handler.given.items()
        bench.handler.given.clear()
        served.append(number)
        for frame in frames:
            next(each for each in sessions if each.id == number).send_answer(frame, answer_to(frame))
        bench.end_pass()
    assert served == [1, 2, 3, 1, 2, 3]
    assert bench.hub.budget.used == 0


@pytest.mark.parametrize("spoken", [False, True])
def test_a_client_that_needs_its_connection_no_more_is_no_reason_to_warn(spoken: bool) -> None:
    """Java clients connect to every name server and ask one of them."""
    limits = NetLimits(patience=PatienceLimits(first_frame_seconds=120))
    bench = Bench(limits, answer_at_once=True)
    session, transport = bench.connect()
    if spoken:
        session.data_received(request(1))
        bench.end_pass()
    bench.sweep_after(0.5)
    bench.sweep_after(120)
    assert transport.aborted
    assert bench.lines.warnings == []
    assert bench.lines.told == [
        ("connection closed by us", {"remote": "10.0.0.1:4000", "reason": "idle for 120 s"})
    ]  # fmt: skip


def test_a_client_that_leaves_answers_unread_is_warned_of_when_it_is_silent() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    transport.stuck = True
    session.data_received(request(1))
    bench.end_pass()
    bench.sweep_after(0.5)
    bench.sweep_after(120)
    assert transport.aborted
    [(message, fields)] = bench.lines.warnings
    assert (message, fields["reason"]) == ("connection closed by us", "idle for 120 s")
    assert bench.lines.told == []


def test_frames_before_the_damage_are_answered() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    session.data_received(request(1) + request(2) + b"\xff" * 20)
    assert [frame.opaque for frame in transport.frames()] == [1, 2]
    assert transport.closing


@pytest.mark.parametrize(("extra", "closed"), [(-1, False), (0, False), (1, True)])
def test_the_frame_limit_is_that_of_the_settings(extra: int, closed: bool) -> None:
    bench = Bench(NetLimits(wire=WireLimits(frame_bytes_max=300_000)))
    session, transport = bench.connect()
    overhead = len(request(1, body=b""))
    session.data_received(request(1, body=bytes(300_000 - overhead + extra)))
    assert transport.closing is closed
    assert len(bench.handler.frames) == (not closed)


def test_a_slow_first_frame_is_cut() -> None:
    bench = Bench()
    session, transport = bench.connect()
    data = request(1, body=bytes(50_000))
    for at in range(0, 9_000, 1_000):
        session.data_received(data[at : at + 1_000])
        bench.sweep_after(0.5)
    assert not transport.aborted
    session.data_received(data[9_000:10_000])
    bench.sweep_after(0.5)
    assert transport.aborted
    [(_, fields)] = bench.lines.warnings
    assert fields["reason"] == "no frame within 5 s"


def test_a_client_that_sends_a_byte_a_second_is_cut() -> None:
    bench = Bench()
    session, transport = bench.connect()
    for byte in request(1)[:4]:
        assert not transport.aborted
        session.data_received(bytes([byte]))
        bench.sweep_after(1)
    assert transport.aborted
    assert "a begun frame grew by 3 bytes in 3 s" in str(bench.lines.warnings)


def test_a_truncated_frame_is_cut_after_its_time() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(request(1) + request(2)[:-1])
    bench.sweep_after(0.5)
    bench.sweep_after(3.0)
    assert transport.aborted
    assert "a begun frame grew by 0 bytes in 3 s" in str(bench.lines.warnings)


def test_a_frame_that_the_peer_truncates_is_one_line() -> None:
    bench = Bench()
    session, _ = bench.connect()
    session.data_received(request(1) + request(2)[:30])
    session.connection_lost(None)
    [(message, fields)] = bench.lines.warnings
    assert (message, fields["partial"]) == ("connection ended inside a frame", 30)


def test_responses_and_unknown_opaques_are_ignored() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    session.data_received(request(1, flag=Flag.RESPONSE) + request(1, flag=3) + request(2) + request(2))
    bench.end_pass()
    assert [frame.opaque for frame in transport.frames()] == [2, 2]
    assert not transport.closing


def test_a_call_ends_with_its_answer() -> None:
    bench = Bench()
    session, transport = bench.connect()
    outcomes: list[Frame | None] = []
    session.call(307, None, b"ask", timeout_ms=1000, on_answer=outcomes.append)
    bench.end_pass()
    [asked] = transport.frames()
    assert (asked.code, asked.flag, asked.body) == (307, 0, b"ask")
    session.data_received(request(asked.opaque, flag=Flag.RESPONSE, body=b"told"))
    bench.sweep_after(2)
    assert [outcome and outcome.body for outcome in outcomes] == [b"told"]


@pytest.mark.parametrize(("seconds", "ended"), [(0.9, False), (1.0, True), (1.1, True)])
def test_a_call_ends_with_its_deadline(seconds: float, ended: bool) -> None:
    bench = Bench()
    session, _ = bench.connect()
    outcomes: list[Frame | None] = []
    session.call(307, None, b"", timeout_ms=1000, on_answer=outcomes.append)
    bench.sweep_after(seconds)
    assert outcomes == ([None] if ended else [])


def test_a_call_ends_when_the_client_leaves_or_has_left() -> None:
    bench = Bench()
    session, _ = bench.connect()
    outcomes: list[Frame | None] = []
    session.call(307, None, b"", timeout_ms=1000, on_answer=outcomes.append)
    session.connection_lost(None)
    assert outcomes == [None]
    session.call(307, None, b"", timeout_ms=1000, on_answer=outcomes.append)
    bench.end_pass()
    assert outcomes == [None, None]


def test_a_call_that_no_frame_holds_ends_once_and_without_an_answer() -> None:
    """A handler that was told by an exception would answer its own client for it, and again when the time is over."""
    bench = Bench()
    session, transport = bench.connect()
    outcomes: list[Frame | None] = []
    session.call(309, None, bytes(DEFAULT_LIMITS.frame_bytes_max), timeout_ms=1000, on_answer=outcomes.append)
    assert outcomes == []
    bench.end_pass()
    bench.sweep_after(2)
    assert (outcomes, transport.frames()) == ([None], [])


def test_notify_is_oneway() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.notify(40, None, b"x")
    bench.end_pass()
    [frame] = transport.frames()
    assert (frame.code, frame.flag, frame.body) == (40, Flag.ONEWAY, b"x")


def test_what_no_frame_holds_is_not_said() -> None:
    """It comes from another connection, whose frames may be as large, or from what is kept: nobody there may fail."""
    bench = Bench()
    session, transport = bench.connect()
    session.notify(40, None, bytes(DEFAULT_LIMITS.frame_bytes_max))
    session.notify(40, {"consumerGroup": "\ud800"})
    bench.end_pass()
    assert transport.frames() == []
    assert [message for message, _ in bench.lines.warnings] == ["request cannot be sent"] * 2


def test_slices_given_to_the_handler_are_short_so_that_answers_are_weighed_between_them() -> None:
    bench = Bench(flow(running_max=1000))
    session, _ = bench.connect()
    session.data_received(b"".join(request(n) for n in range(SLICE_FRAMES_MAX * 2 + 1)))
    assert bench.handler.batches == [SLICE_FRAMES_MAX, SLICE_FRAMES_MAX, 1]


def test_a_connection_that_lingers_after_its_end_is_cut_by_the_next_sweep() -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.end("tested")
    assert isinstance(transport, FakeTransport)
    assert not transport.aborted
    bench.sweep_after(0.5)
    assert transport.aborted
    assert len(bench.lines.warnings) == 1


def test_a_connection_that_is_handed_over_has_another_handler_and_other_limits() -> None:
    bench = Bench(limits=flow(running_max=1))
    session, _ = bench.connect()
    session.data_received(request(1))
    other = Recorder()
    session.hand_over(other, FlowLimits(running_max=10))
    session.data_received(request(2) + request(3))
    assert [frame.opaque for frame in bench.handler.frames] == [1]
    assert [frame.opaque for frame in other.frames] == [2, 3]
    session.connection_lost(None)
    assert (other.closed, bench.handler.closed) == ([session], [])


def test_a_connection_that_is_handed_over_gets_sends_as_ordinary_frames() -> None:
    bench = Bench()
    bench.hub.typed_sends = True
    session, _ = bench.connect()
    other = Recorder()
    session.hand_over(other, FlowLimits())
    ext = dict.fromkeys("abcdefgh", "1")
    session.data_received(encode_frame(Frame(310, 1, ext=ext)))
    assert [type(frame) for frame in other.frames] == [Frame]


def test_a_resting_connection_reads_nothing_until_it_is_woken_and_answers_go_on() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    session.data_received(request(1))
    assert session.rest()
    assert not session.rest()
    assert not transport.reading
    bench.end_pass()
    assert [frame.opaque for frame in transport.frames()] == [1]
    session.wake()
    assert transport.reading
    session.wake()


def test_a_connection_that_rests_is_not_read_while_its_limits_stop_it_nor_stopped_by_resting_twice() -> None:
    bench = Bench(flow(running_max=1))
    session, transport = bench.connect()
    session.data_received(request(1))  # as many as may run: it is paused
    assert not transport.reading
    assert session.rest()
    session.wake()
    assert not transport.reading
    assert session.rest()
    session.send_answer(bench.handler.frames[0], answer_to(bench.handler.frames[0]))
    bench.end_pass()  # room again, but it rests
    assert not transport.reading
    session.wake()
    assert transport.reading


def test_a_connection_that_is_about_to_end_neither_rests_nor_is_read_again() -> None:
    bench = Bench()
    session, transport = bench.connect()
    assert session.rest()
    session.stop_reading()
    session.wake()
    assert not transport.reading
    other, wire = bench.connect(port=4001)
    assert other.rest()
    other.connection_lost(None)
    other.wake()
    assert not wire.reading
    assert not other.rest()


async def test_a_woken_connection_is_read_when_as_much_has_come_as_the_last_time_and_then_at_any_byte() -> None:
    bench = Bench(answer_at_once=True)
    session, transport = bench.connect()
    with socket.socket() as wire:
        transport.wire = wire

        def wakes_for() -> int:
            return wire.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

        data = request(1) + request(2)
        session.data_received(data)
        assert session.rest()
        session.wake()
        assert wakes_for() == len(data)
        session.data_received(request(3) + request(4))
        assert wakes_for() == 1
        assert session.rest()
        session.wake()
        assert wakes_for() == len(data)
        session.connection_lost(None)
        assert wakes_for() == len(data)  # by now the descriptor may be another's
