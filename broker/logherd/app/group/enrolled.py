"""Asks the controllers which brokers of a group have registered, for a process that does not report to them."""

from collections.abc import Sequence
from typing import Final

from logherd.app.group.asking import ask_once, named_address
from logherd.controller.values import GroupKey
from logherd.net.errors import NetError
from logherd.service.controllers.asking import Enrolled, Redirected, enrolled, enrolling
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.errors import WireError

__all__ = ["ask_enrolled"]

_log = Log("logherd.group")

_CONNECT_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 4.0
"""Longer than they wait for somebody to lead the group."""


async def ask_enrolled(addresses: Sequence[Endpoint], group: GroupKey) -> Enrolled | None:
    """Ask each controller once, and whom it names as the leader; None if none of them knows."""
    targets = [(each.host, each.port) for each in addresses]
    asked: set[tuple[str, int]] = set()
    while targets and len(asked) < 2 * len(addresses):  # they could name ever others
        target = targets.pop(0)
        if target in asked:
            continue
        asked.add(target)
        try:
            frame = await ask_once(
                target, enrolling(group), connect_seconds=_CONNECT_SECONDS, seconds=_ANSWER_SECONDS
            )  # fmt: skip
            answer = enrolled(frame, group)
        except (NetError, WireError) as error:
            _log.debug("a controller does not say who belongs to the group", reason=error)
            continue
        if isinstance(answer, Enrolled):
            return answer
        leader = named_address(answer.address or "") if isinstance(answer, Redirected) else None
        if leader is not None:
            targets.insert(0, leader)
    return None
