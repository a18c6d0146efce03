"""Which forwarded requests a broker carries out, and what it says to the others."""

import pytest

from logherd.service.forwarding.admission import check_forwarded
from logherd.service.forwarding.roles import Following, Leading, Nobody, Role
from logherd.wire.codes import ResponseCode
from logherd.wire.headers.forwarding import ForwardedHeader, ForwardingRefusal, Refused


def marks(epoch: int, deadline_ms: int) -> ForwardedHeader:
    return ForwardedHeader(session=1, client_ip="10.0.0.1", client_port=9, epoch=epoch, deadline_ms=deadline_ms)


def test_h12_what_is_meant_for_this_leadership_is_carried_out_until_its_time_is_over() -> None:
    assert check_forwarded(marks(7, 1_000), Leading(7), now_ms=999) is None


@pytest.mark.parametrize(
    ("role", "epoch", "leader"),
    [
        (Leading(8), 8, None), (Leading(6), 6, None), (Following("b:1", 7), 7, "b:1"), (Following("b:1", 9), 9, "b:1"),
        (Nobody(), 0, None),
    ],
)  # fmt: skip
def test_h10_what_is_meant_for_another_leadership_is_refused_with_what_is_known_of_the_leader(
    role: Role, epoch: int, leader: str | None
) -> None:
    """Also what is meant for an earlier one of this broker, and whether there is time or not."""
    for now_ms in (0, 1_000):
        reply = check_forwarded(marks(7, 1_000), role, now_ms=now_ms)
        assert reply is not None
        assert reply.code == ResponseCode.FORWARDING_REFUSED
        assert reply.header == ForwardingRefusal(reason=Refused.NOT_LEADER, epoch=epoch, leader=leader)


@pytest.mark.parametrize("now_ms", [1_000, 1_001])
def test_h10_what_comes_too_late_is_refused_as_late(now_ms: int) -> None:
    reply = check_forwarded(marks(7, 1_000), Leading(7), now_ms=now_ms)
    assert reply is not None
    assert reply.header == ForwardingRefusal(reason=Refused.LATE, epoch=7, leader=None)
