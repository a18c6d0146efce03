"""Small steps that every handler takes: the header it was promised, and an answer that waits for the metadata."""

from typing import Final, TypeVar

import msgspec

from logherd.kit.errors import ensure
from logherd.service.ports import Answer, Reply, ReplyAfter, Request
from logherd.wire.bodies import encode_body
from logherd.wire.codes import ResponseCode

__all__ = ["LEAVING", "after", "body_reply", "header_of", "settled"]

HeaderType = TypeVar("HeaderType", bound=msgspec.Struct)
LEAVING: Final = Reply(ResponseCode.FLOW_CONTROL, remark="this broker is about to stop; pull again")
"""Of a pull that would wait. The client for Go has a pause of three seconds then, Java's one of 20 ms."""


def header_of(request: Request, cls: type[HeaderType]) -> HeaderType:
    """The request's header, which the dispatcher decoded by the table of `wire`.

    Raises: InvariantError if the table names another header for this code than the handler expects.
    """
    header = request.header
    ensure(isinstance(header, cls), "a handler gets the header that the request table names", request.code, cls)
    return header  # type: ignore[return-value]


def body_reply(body: object, header: msgspec.Struct | None = None) -> Reply:
    """A successful answer with a JSON body."""
    return Reply(header=header, body=encode_body(body))


def after(position: int, reply: Reply | None = None) -> ReplyAfter:
    """A successful answer that leaves when the log is durable up to `position`."""
    return ReplyAfter(position, reply or Reply())


def settled(unsettled: int, reply: Reply) -> Answer:
    """An answer that tells what the metadata holds, or that something is not in it: it leaves when the log is committed
    up to `unsettled`, the end of the newest change that it may tell of; at once for 0, whatever else waits."""
    return ReplyAfter(unsettled, reply) if unsettled else reply
