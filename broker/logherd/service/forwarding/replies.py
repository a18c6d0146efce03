"""What a client hears when its request did not reach a leader: codes that stock clients treat rightly, with a remark.

Not carried out: 14, which a stock producer answers with another attempt and everybody else with a later one. Unknown:
1, the only thing that may be said of what was written and not answered (H10). A pull gets 215, after which stock
consumers pull again within 20 ms without moving their offset, unless it is refused for want of room.
"""

from typing import Final

from logherd.service.forwarding.errand import Errand
from logherd.service.forwarding.handling import Kind
from logherd.service.ports import Reply
from logherd.wire.codes import ResponseCode

__all__ = ["commit_refused", "expired", "overloaded", "unknown"]

_NOTHING: Final = "nothing was stored or changed, send it again"


def expired(errand: Errand) -> Reply:
    """Held for as long as it may be, or refused by the leader because its time was over."""
    waited = errand.deadline_ms - errand.arrived_ms
    code = ResponseCode.FLOW_CONTROL if errand.handling.kind is Kind.PULL else ResponseCode.SERVICE_NOT_AVAILABLE
    return Reply(code, remark=f"no leader of this broker group took the request within {waited} ms; {_NOTHING}")


def commit_refused() -> Reply:
    """An offset commit when there is no leader to take it at once: the consumer commits again in a few seconds."""
    return Reply(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        remark="no leader of this broker group takes the offset now and it is not kept; commit it again",
    )


def overloaded(waiting: int, size: int) -> Reply:
    """As much is held as may be."""
    return Reply(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        remark=f"[OVERLOAD] {waiting} requests of {size} bytes wait for a leader of this broker group; {_NOTHING}",
    )


def unknown(errand: Errand, why: str) -> Reply:
    """Written to a leader that did not answer."""
    if errand.handling.kind is Kind.PULL:
        return Reply(ResponseCode.FLOW_CONTROL, remark=f"{why}; pull again")
    return Reply(
        ResponseCode.SYSTEM_ERROR, remark=f"unknown: {why}; the request may have been carried out or may still be"
    )
