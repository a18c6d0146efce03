"""The limits on the number of connections."""

import pytest

from logherd.kit.errors import InvariantError
from logherd.net.admission import Admission
from logherd.net.limits import AdmissionLimits, FlowLimits, NetLimits
from logherd.net.session import NetSession
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from unit.net.fakes import Bench, Recorder, request

LIMITS = AdmissionLimits(connections_max=4, connections_per_address_max=2)


def test_the_defaults_are_those_of_the_limits_table() -> None:
    assert AdmissionLimits() == AdmissionLimits(connections_max=5_000, connections_per_address_max=200)


def test_the_total_is_admitted_up_to_the_limit_and_not_beyond() -> None:
    admission = Admission(LIMITS)
    assert [admission.admit(f"10.0.0.{n}") for n in range(4)] == [None] * 4
    assert admission.admit("10.0.0.9") == "4 connections are open, at most 4 may be"
    admission.release("10.0.0.0")
    assert admission.admit("10.0.0.9") is None


def test_an_address_is_admitted_up_to_its_limit_and_others_are_not_disturbed() -> None:
    admission = Admission(LIMITS)
    assert admission.admit("10.0.0.1") is None
    assert admission.admit("10.0.0.1") is None
    assert admission.admit("10.0.0.1") == "2 connections of this address are open, at most 2 may be"
    assert admission.admit("10.0.0.2") is None
    admission.release("10.0.0.1")
    assert admission.admit("10.0.0.1") is None
    assert admission.total == 3


def test_beside_the_total_brokers_are_admitted_from_addresses_that_have_none() -> None:
    admission = Admission(LIMITS, peers=2)
    for n in range(4):
        assert admission.admit(f"10.0.0.{n}") is None
        assert not admission.crowded(f"10.0.0.{n}")
    for n in (4, 5):
        assert admission.admit(f"10.0.0.{n}") is None
        assert admission.crowded(f"10.0.0.{n}")
    assert admission.admit("10.0.0.6") == "6 connections are open, at most 4 may be"


def test_what_was_not_admitted_cannot_be_released() -> None:
    with pytest.raises(InvariantError):
        Admission(LIMITS).release("10.0.0.1")


@pytest.mark.parametrize("limit", [1, 3])
def test_a_connection_beyond_the_limit_is_cut_with_one_line_and_the_handler_never_sees_it(limit: int) -> None:
    bench = Bench(NetLimits(admission=AdmissionLimits(connections_max=limit)))
    for n in range(limit):
        _, transport = bench.connect(port=5000 + n)
        assert not transport.closing
    late, transport = bench.connect(port=6000)
    assert transport.aborted
    assert late not in bench.handler.opened
    [(message, fields)] = bench.lines.warnings
    assert message == "connection refused"
    assert fields["remote"] == "10.0.0.1:6000"
    assert f"at most {limit}" in str(fields["reason"])
    late.connection_lost(None)
    assert bench.hub.admission.total == limit
    assert bench.handler.closed == []


OPEN = int(RequestCode.FORWARDING_OPEN)


class Guests(Recorder):
    """Takes every connection for a broker's that asks to be one, if `willing`."""

    def __init__(self, *, willing: bool) -> None:
        super().__init__(answer_at_once=True)
        self.willing = willing
        self.links = Recorder()

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        super().on_frames(session, frames)
        if self.willing and any(frame.code == OPEN for frame in frames):
            session.hand_over(self.links, FlowLimits())


BY_ADDRESS, BY_TOTAL = AdmissionLimits(connections_per_address_max=1), AdmissionLimits(connections_max=1)


def crowded(*, willing: bool, limits: AdmissionLimits = BY_ADDRESS) -> Bench:
    """A server with one connection where one may be, and room for two brokers beside it."""
    bench = Bench(NetLimits(admission=limits), peers=2)
    bench.handler = bench.hub.handler = Guests(willing=willing)
    bench.connect(port=5000)
    return bench


@pytest.mark.parametrize("limits", [BY_ADDRESS, BY_TOTAL], ids=["of an address", "of all"])
def test_beyond_the_limit_a_broker_is_taken_and_served(limits: AdmissionLimits) -> None:
    bench = crowded(willing=True, limits=limits)
    assert isinstance(bench.handler, Guests)
    session, transport = bench.connect(port=6000)
    session.data_received(request(1, code=OPEN))
    session.data_received(request(2))
    bench.end_pass()
    assert [frame.opaque for frame in transport.frames()] == [1]
    assert [frame.opaque for frame in bench.handler.links.frames] == [2]
    assert not transport.closing
    assert bench.hub.admission.refused == 0


@pytest.mark.parametrize(
    ("data", "carried_out"),
    [
        (request(1), 0),
        (request(1, flag=2), 0),
        (request(1) + request(2, code=OPEN), 0),
        (request(1, code=OPEN) + request(2), 0),
        (request(1, code=OPEN), 1),
    ],
    ids=["a request", "oneway", "before it asks", "behind it", "refused"],
)
def test_beyond_the_limit_of_an_address_nobody_else_is_heard(data: bytes, carried_out: int) -> None:
    bench = crowded(willing=False)
    session, transport = bench.connect(port=6000)
    session.data_received(data)
    bench.end_pass()
    assert transport.closing
    assert len(bench.handler.frames) == len(transport.frames()) == carried_out
    assert bench.hub.admission.refused == 1
    session.connection_lost(None)
    assert bench.handler.closed == [session]
    assert bench.hub.admission.total == 1


def test_beyond_the_limit_of_all_a_client_is_turned_away() -> None:
    bench = crowded(willing=False, limits=BY_TOTAL)
    session, transport = bench.connect(port=6000)
    session.data_received(request(1))
    bench.end_pass()
    assert transport.closing
    assert (bench.handler.frames, bench.hub.admission.refused) == ([], 1)


def test_who_says_nothing_beyond_the_limit_of_an_address_takes_a_place_for_a_moment_only() -> None:
    bench = crowded(willing=True)
    waiting = [bench.connect(port=port)[1] for port in (6000, 6001)]
    _, transport = bench.connect(port=6002)
    assert transport.aborted
    bench.sweep_after(5)
    assert all(each.aborted for each in waiting)


def test_below_its_limit_an_address_is_asked_for_no_proof() -> None:
    bench = Bench(NetLimits(admission=LIMITS), peers=2)
    for port in (5000, 5001):
        session, transport = bench.connect(port=port)
        session.data_received(request(1))
        assert not transport.closing
    assert len(bench.handler.frames) == 2
