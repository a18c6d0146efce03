"""An error for which a client would pass over messages is not said to it, and costs its connection nothing."""

import pytest

from logherd.net.limits import FlowLimits, NetLimits
from logherd.net.session import NetSession
from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from unit.net.fakes import Bench, Recorder
from unit.net.test_session import Parts

OLD, NEW = 401, 413
"""Java 4.9.4 and 5.0.0."""


def question(opaque: int, *, language: str = "JAVA", version: int = OLD, code: int = 14) -> bytes:
    return encode_frame(Frame(code, opaque, language=language, version=version))


def tell(session: NetSession, frame: Frame, code: int) -> None:
    parts = Parts(frame, code=code)
    session.reply(parts, parts)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE])
def test_java_before_5_hears_no_error_that_it_takes_for_a_group_without_an_offset(code: ResponseCode) -> None:
    bench = Bench(NetLimits(flow=FlowLimits(running_max=1)))
    session, transport = bench.connect()
    session.data_received(question(1) + question(2))
    tell(session, bench.handler.frames[0], code)
    bench.end_pass()
    assert [frame.opaque for frame in bench.handler.frames] == [1, 2], "the next has its turn"
    tell(session, bench.handler.frames[1], 0)
    bench.end_pass()
    assert [(frame.opaque, frame.code) for frame in transport.frames()] == [(2, 0)]
    assert (session.quiet, bench.hub.budget.used) == (True, 0)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (question(1), ResponseCode.QUERY_NOT_FOUND),
        (question(1, version=NEW), ResponseCode.SERVICE_NOT_AVAILABLE),
        (question(1, language="GO"), ResponseCode.SERVICE_NOT_AVAILABLE),
        (question(1, code=RequestCode.GET_MAX_OFFSET), ResponseCode.SERVICE_NOT_AVAILABLE),
    ],
)
def test_whoever_understands_an_error_hears_it(asked: bytes, code: ResponseCode) -> None:
    bench = Bench()
    session, transport = bench.connect()
    session.data_received(asked)
    tell(session, bench.handler.frames[0], code)
    bench.end_pass()
    assert [frame.code for frame in transport.frames()] == [code]


def test_a_broker_that_asks_for_its_client_hears_every_error() -> None:
    bench, links = Bench(), Recorder()
    session, transport = bench.connect()
    session.hand_over(links, FlowLimits())
    session.data_received(question(1))
    tell(session, links.frames[0], ResponseCode.FORWARDING_REFUSED)
    bench.end_pass()
    assert [frame.code for frame in transport.frames()] == [ResponseCode.FORWARDING_REFUSED]


def test_a_client_that_is_gone_is_left_alone() -> None:
    bench = Bench()
    session, _ = bench.connect()
    session.data_received(question(1))
    session.connection_lost(None)
    tell(session, bench.handler.frames[0], ResponseCode.SYSTEM_ERROR)
    assert bench.hub.budget.used == 0
