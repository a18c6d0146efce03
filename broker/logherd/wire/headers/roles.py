"""LogHerd's own request to the controllers for groups in static mode: a promotion by hand is recorded."""

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = ["RolesPromoteHeader", "RolesPromoteResponse"]


class RolesPromoteHeader(Header, frozen=True, kw_only=True):
    """27002: this broker is to lead, in place of the table of roles whose number is `after`."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    after: Int32
    table: str
    """What it makes of the order, as brokers tell each other; nothing to the controllers."""


class RolesPromoteResponse(Header, frozen=True, kw_only=True):
    """The answer to it: what is recorded now. With an error it is another promotion."""

    number: Int32
    broker_id: Int64
    table: str
