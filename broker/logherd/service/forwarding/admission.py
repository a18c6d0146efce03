"""The leader's look at a forwarded request, before anything of it is done (H10, H12)."""

from logherd.service.forwarding.roles import Following, Leading, Role
from logherd.service.ports import Reply
from logherd.wire.codes import ResponseCode
from logherd.wire.headers.forwarding import ForwardedHeader, ForwardingRefusal, Refused

__all__ = ["check_forwarded", "not_leader", "refused"]


def check_forwarded(marks: ForwardedHeader, role: Role, *, now_ms: int) -> Reply | None:
    """A refusal, or None if the request may be carried out: here, now, and never sent on.

    The epoch is the exact one. A broker that leads again in a later epoch refuses what was meant for its earlier one:
    what came after it on the same connection may already have gone another way.
    """
    if not isinstance(role, Leading) or role.epoch != marks.epoch:
        return not_leader(role)
    if now_ms >= marks.deadline_ms:
        return refused(Refused.LATE, role)
    return None


def not_leader(role: Role) -> Reply:
    """This broker does not lead in the epoch that was asked for."""
    return refused(Refused.NOT_LEADER, role)


def refused(reason: str, role: Role) -> Reply:
    """Nothing was done, for `reason`; with what this broker knows of the leader."""
    epoch = role.epoch if isinstance(role, Leading | Following) else 0
    leader = role.address if isinstance(role, Following) else None
    header = ForwardingRefusal(reason=reason, epoch=epoch, leader=leader)
    return Reply(ResponseCode.FORWARDING_REFUSED, header, remark=f"not carried out: {reason}")
