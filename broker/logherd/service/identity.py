"""Which broker this is, or another is: what routes, answers and registrations name."""

from typing import NamedTuple

__all__ = ["LEADER_ID", "BrokerIdentity"]

LEADER_ID = 0
"""The id under which the leader of a broker name is registered."""


class BrokerIdentity(NamedTuple):
    """A broker of a cluster by name and id, and the "host:port" at which clients reach it."""

    cluster: str
    name: str
    broker_id: int
    address: str
