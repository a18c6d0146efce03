"""The limits on the number of connections."""

import pytest

from logherd.kit.errors import InvariantError
from logherd.net.admission import Admission
from logherd.net.limits import AdmissionLimits, NetLimits
from unit.net.fakes import Bench

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
