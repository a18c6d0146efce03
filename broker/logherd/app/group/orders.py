"""What an operator may order of a broker itself: to hand leadership over, or to go on without a lost majority (raft);
to take leadership (static)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from logherd.app.admin_routes import Action, Page
from logherd.app.group.by_roles import ByRoles
from logherd.app.group.by_votes import ByVotes
from logherd.app.group.engine import GroupEngine
from logherd.app.group.promoting import ControllersBook, PromotionBook, promote
from logherd.app.group.rebuilding import rebuild, votes_page
from logherd.controller.values import BrokerId
from logherd.group.inputs import HandOver
from logherd.group.table import PromotionRefusedError
from logherd.service import replica_orders as shapes

__all__ = ["Orders"]

_Shape = TypeVar("_Shape")


class Orders:
    """The pages and actions of a replica's admin port, by its mode. Only a promotion waits, until it is recorded."""

    def __init__(self, engine: GroupEngine) -> None:
        self._engine = engine
        self._promoting = asyncio.Lock()

    def pages(self) -> Mapping[str, Page]:
        """What may be read."""
        mode = self._engine.mode
        if isinstance(mode, ByVotes):
            return {"/replica/votes": lambda: votes_page(mode)}
        return {"/replica/roles": lambda: (200, _page(mode))} if isinstance(mode, ByRoles) else {}

    def actions(self) -> Mapping[str, Action]:
        """What may be ordered."""
        mode = self._engine.mode
        if isinstance(mode, ByRoles):
            book = ControllersBook(mode.recorders, mode.seat.group) if mode.recorders else None
            return {"/replica/promote": _taking(shapes.Promote, partial(self._promote, mode, book))}
        if not isinstance(mode, ByVotes):
            return {}
        return {
            "/replica/hand-over": _taking(shapes.HandOver, self._hand_over),
            "/replica/rebuild": _taking(shapes.Rebuild, partial(self._rebuild, mode)),
        }

    async def _rebuild(self, mode: ByVotes, order: shapes.Rebuild) -> tuple[int, object]:
        return rebuild(mode, order)

    async def _hand_over(self, order: shapes.HandOver) -> tuple[int, object]:
        machine, mode = self._engine.mode.machine, self._engine.mode
        if machine.leads is None:
            leader = mode.leader
            return 409, {"error": f"this broker does not lead; {f'broker {leader} does' if leader else 'nobody does'}"}
        if machine.leads != order.expected_epoch:
            return 409, {"error": f"this broker leads epoch {machine.leads}, not {order.expected_epoch}"}
        voters = mode.members().members
        if order.broker_id is not None and (order.broker_id not in voters or order.broker_id == mode.seat.broker_id):
            return 409, {"error": f"broker {order.broker_id} cannot take over; in sync are {[*voters]}"}
        epoch = int(machine.leads)
        self._engine.replica.step(HandOver(None if order.broker_id is None else BrokerId(order.broker_id)))
        return 202, shapes.HandingOver(epoch=epoch)

    async def _promote(self, mode: ByRoles, book: PromotionBook | None, order: shapes.Promote) -> tuple[int, object]:
        try:
            async with self._promoting:
                await promote(mode, book, order)
        except PromotionRefusedError as error:
            return 409, {"error": str(error)}
        except Exception as error:  # the table could not be kept: nothing that this replica says may be believed
            self._engine.fail(error)
            return 500, {"error": f"the table could not be kept: {error}"}
        return 200, _page(mode)


def _page(mode: ByRoles) -> shapes.RolesPage:
    recorded, why = mode.recorded, mode.why_not
    table = recorded.table
    return shapes.RolesPage(
        broker_id=mode.seat.broker_id, table=table.number, leader=table.leader, synchronous=table.synchronous,
        copies=table.copies, eligible=not why, why=why,
    )  # fmt: skip


def _taking(shape: type[_Shape], act: Callable[[_Shape], Awaitable[tuple[int, object]]]) -> Action:
    """An action that takes a document of this shape."""

    async def action(document: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
        del parts
        try:
            order = msgspec.convert(document, shape)
        except msgspec.ValidationError as error:
            return 400, {"error": str(error)}
        return await act(order)

    return action
