"""The body of 1001 as a broker of LogHerd sends it: RocketMQ's in-sync set, and which processes are meant."""

from collections.abc import Sequence

from msgspec import field

from logherd.wire.bodies.base import Body, Int32, Int64

__all__ = ["AlteringBody", "AlteringMember"]


class AlteringMember(Body, frozen=True, kw_only=True, gc=False):
    """A process that the master has heard acknowledge, and up to where."""

    broker_id: Int64
    registration: Int64
    end_epoch: Int64
    end_position: Int64


class AlteringBody(Body, frozen=True, kw_only=True, gc=False):
    """The body of 1001: RocketMQ's set and version, and ours of it."""

    members: Sequence[Int64] = field(name="syncStateSet", default_factory=list)
    version: Int32 = field(name="syncStateSetEpoch", default=0)
    processes: Sequence[AlteringMember] = field(name="logherdMembers", default_factory=list)
