"""An operator's order to lead in static mode, recorded at the controllers before it is in force, where there are any.

They compare and set: of two orders that replace the same table one is recorded, and the broker that was given the other
hears of it. What is recorded is decided, also if the broker that ordered it dies before it knows: whoever is refused by
it takes it as the table in force and tells it on.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from logherd.app.group.about import RolesShape, recorded_of, shape_of
from logherd.app.group.asking import ask_once, named_address
from logherd.app.group.by_roles import ByRoles
from logherd.controller.values import GroupKey
from logherd.group.table import PromotionRefusedError, Recorded, another_in_force
from logherd.net.errors import NetError
from logherd.service.controllers.asking import Asking
from logherd.service.replica_orders import Promote
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import WireError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.leases import LeaderHint
from logherd.wire.headers.roles import RolesPromoteHeader, RolesPromoteResponse

__all__ = ["ControllersBook", "PromotionBook", "promote"]

_log = Log("logherd.group")

_RECORD_SECONDS: Final = 5.0
"""Longer than the controllers take to elect a leader of their own."""
_ANSWER_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.2


class PromotionBook(Protocol):
    """Where promotions are compared."""

    async def record(self, after: int, wanted: Recorded) -> Recorded:
        """Have this stand in place of table `after`; what stands then, which is another one if somebody was faster.

        Raises: PromotionRefusedError if nobody says so; it may have been recorded then, and may be asked for again.
        """


async def promote(mode: ByRoles, book: PromotionBook | None, order: Promote) -> None:
    """Lead from now on. `book`: None where no controllers are.

    Raises: PromotionRefusedError; StoreFull, OSError of the file that keeps the table.
    """
    wanted = mode.prepare(order)
    if book is None or order.unrecorded:
        mode.enforce(wanted)
        return
    await _record(mode, book, order.after, wanted)
    while mode.lacking:
        # Before it was in force the former leader came back, and cut what nobody had acknowledged. The next table asks
        # for what is here now; if this store has lost something else, `prepare` says so.
        after = mode.recorded.table.number
        await _record(mode, book, after, mode.prepare(replace(order, after=after)))


async def _record(mode: ByRoles, book: PromotionBook, after: int, wanted: Recorded) -> None:
    """Lead by this table, once it is recorded. Raises: see promote."""
    standing = await book.record(after, wanted)
    if standing.table.number > mode.recorded.table.number:
        mode.enforce(standing)
    table = mode.recorded.table
    if (table.number, table.leader, table.synchronous, table.copies) != (
        wanted.table.number, wanted.table.leader, wanted.table.synchronous, wanted.table.copies
    ):  # fmt: skip
        raise another_in_force(table, after)


class ControllersBook:
    """The controllers of a group. One order at a time needs them, so no connection is kept."""

    def __init__(self, addresses: Sequence[Endpoint], group: GroupKey) -> None:
        self._addresses = [(each.host, each.port) for each in addresses]
        self._group = group

    async def record(self, after: int, wanted: Recorded) -> Recorded:
        """See PromotionBook. Asks until one answers: the same order is recorded once, however often it arrives."""
        header = RolesPromoteHeader(
            cluster_name=self._group.cluster, broker_name=self._group.name, broker_id=wanted.table.leader, after=after,
            table=msgspec.json.encode(shape_of(wanted)).decode(),
        )  # fmt: skip
        asking = Asking(RequestCode.ROLES_PROMOTE, header)
        over = asyncio.get_running_loop().time() + _RECORD_SECONDS
        targets, why = [*self._addresses], ""
        named: set[tuple[str, int]] = set()  # in this round: two that name each other must not do away with the pause
        while asyncio.get_running_loop().time() < over:
            target = targets.pop(0) if targets else None
            if target is None:
                targets = [*self._addresses]
                named.clear()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                answer = await ask_once(target, asking, connect_seconds=_ANSWER_SECONDS, seconds=_ANSWER_SECONDS)
            except (NetError, WireError) as error:
                why = str(error)
                continue
            if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
                why = answer.remark or "no controller leads"
                targets = [*(each for each in _named(answer) if each not in named), *targets]
                named.update(_named(answer))
            elif answer.code == ResponseCode.SYSTEM_ERROR:
                why = answer.remark or ""
            else:
                return _read(answer)
        raise PromotionRefusedError(
            f"the controllers, who record promotions, do not answer ({why}); the same order may be given again, and "
            "unrecorded if they are gone"
        )


def _named(answer: Frame) -> list[tuple[str, int]]:
    """The leader, if it is told."""
    address = named_address(decode_header(LeaderHint, answer.ext).leader_address or "")
    return [address] if address is not None else []


def _read(answer: Frame) -> Recorded:
    """What is recorded. Raises: PromotionRefusedError."""
    if "table" not in answer.ext:
        raise PromotionRefusedError(f"the controllers refuse the promotion: {answer.remark or answer.code}")
    try:
        found = decode_header(RolesPromoteResponse, answer.ext)
        recorded = recorded_of(msgspec.json.decode(found.table, type=RolesShape))
    except (WireError, ValueError, RecursionError) as error:
        raise PromotionRefusedError(f"the controllers have recorded what is no table of roles: {error}") from error
    if answer.code != ResponseCode.SUCCESS:
        _log.warning("another promotion is recorded", table=found.number, leader=found.broker_id)
    return recorded
