"""LogHerd's own fields between brokers of a group: clients' requests on their way to the leader, and back (H9 to H12).

A connection begins with FORWARDING_OPEN; what comes on it after the answer is clients' requests, each with the fields
of `ForwardedHeader` beside its own, and requests of the leader to these clients with those of `ToClientHeader`. On any
other connection these fields mean nothing, as every field that a reader does not know.

(group, epoch) names the leader that is meant: an epoch of a group has one. Times are ms on the leader's monotonic
clock, which the answer to FORWARDING_OPEN and FORWARDING_CLOCK tells: so the time left is right whatever a request
waited for on its way, and however long the leader itself stood still.
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "ForwardedHeader", "ForwardingClock", "ForwardingLeftHeader", "ForwardingOpenHeader", "ForwardingRefusal",
    "Refused", "ToClientHeader",
]  # fmt: skip


class Refused:
    """Values of `ForwardingRefusal.reason`."""

    NOT_LEADER = "not-leader"
    LATE = "late"
    OTHER_GROUP = "other-group"
    CLIENT_GONE = "client-gone"


class ForwardingOpenHeader(Header, frozen=True, kw_only=True):
    """27010. `instance` is a number that the sending process drew; `epoch` is the one in which the peer should lead."""

    cluster: str
    group: str
    epoch: Int64
    broker_id: Int64
    instance: str


class ForwardingClock(Header, frozen=True, kw_only=True):
    """The answer to 27010 and 27011."""

    clock_ms: Int64


class ForwardingLeftHeader(Header, frozen=True, kw_only=True):
    """27012."""

    session: Int64 = field(name="logherdSession")


class ForwardedHeader(Header, frozen=True, kw_only=True):
    """Beside a client's own fields. `session` is its connection's number at the forwarding broker.

    `deadline_ms`: nothing may be begun for this request from then on.
    """

    session: Int64 = field(name="logherdSession")
    client_ip: str = field(name="logherdClientIp")
    client_port: Int32 = field(name="logherdClientPort")
    epoch: Int64 = field(name="logherdEpoch")
    deadline_ms: Int64 = field(name="logherdDeadline")


class ToClientHeader(Header, frozen=True, kw_only=True):
    """Beside the fields of a leader's request to a client of the forwarding broker."""

    session: Int64 = field(name="logherdSession")
    timeout_ms: Int64 = field(name="logherdTimeout", default=0)


class ForwardingRefusal(Header, frozen=True, kw_only=True):
    """With FORWARDING_REFUSED: nothing was done. `epoch` is the highest that the refusing broker knows, `leader` the
    "host:port" that leads in it; both are hints."""

    reason: str = field(name="logherdRefused")
    epoch: Int64 = field(name="logherdEpoch", default=0)
    leader: str | None = field(name="logherdLeader", default=None)
