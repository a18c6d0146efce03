"""`static` mode's table of roles, and how an operator replaces it: by hand, compare-and-set on its number.

    table 1: broker 1 leads, 2 and 3 are synchronous    as configured
    table 2: broker 2 leads, 3 is synchronous           as promoted: after table 1, holding (epoch, position), with loss

A table is no epoch yet: each start of its leader is an epoch of its own, in which the table's number stands highest.

    bit 62 .. 43   number of the table
    bit 42 .. 24   which leadership in this table
    bit 23 ..  0   of the leader's incarnation: two that lead at once by mistake never take each other's records for
                   their own (H7), because nothing but the epoch is compared
"""

from dataclasses import dataclass

from logherd.controller.values import BrokerId
from logherd.kit.checksum import crc32
from logherd.kit.errors import LogHerdError, ensure
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point

__all__ = [
    "Promotion", "PromotionRefusedError", "Recorded", "Table", "another_in_force", "first_epoch", "found", "is_near",
    "is_worn_out", "next_epoch", "next_table", "promote", "served", "table_number",
]  # fmt: skip

_MARK_BITS, _LEADERSHIP_BITS, _TABLE_BITS = 24, 19, 20
_MARK = (1 << _MARK_BITS) - 1
_LEADERSHIP = (1 << _LEADERSHIP_BITS) - 1
_TABLE_SHIFT = _MARK_BITS + _LEADERSHIP_BITS
_LEAP_TABLES = 1 << 16
_LEAP_LEADERSHIPS = 1 << 17
"""No group gives so many orders, and no leader starts so often, between one thing that a replica hears and the next. An
epoch is kept for good: near the last one of a table or of all nobody could lead any more."""


class PromotionRefusedError(LogHerdError):
    """An operator's order was made for another table, or would lose what it does not say may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Who leads, and which followers a record must have reached before it counts. Others may follow, too.

    `copies` of a record are needed, the leader's and so many less one of the synchronous followers'. 1: asynchronous;
    what only the leader has is then lost with it. All of them: whichever synchronous follower is promoted has
    everything that was acknowledged. Anything between promises that only for the one that has most.

    `holds`: what the leader's log held when it was chosen; without that it does not lead. `forgiven`: of records that
    were committed under tables below this number an operator has accepted the loss.
    """

    number: int
    leader: BrokerId
    synchronous: tuple[BrokerId, ...] = ()
    copies: int = 1
    address: str = ""
    holds: Point = ORIGIN
    forgiven: int = 0

    def __post_init__(self) -> None:
        ensure(0 < self.number < 1 << _TABLE_BITS, "tables are numbered from 1", self)
        ensure(len({*self.synchronous}) == len(self.synchronous), "a table names each follower once", self)
        ensure(self.leader not in self.synchronous, "a leader does not follow itself", self)
        ensure(1 <= self.copies <= len(self.synchronous) + 1, "as many can have a copy as must", self)
        ensure(len(self.synchronous) == 0 or self.copies > 1, "a follower that nobody waits for is asynchronous", self)
        ensure(self.forgiven <= self.number, "a loss is accepted with a promotion", self)

    @property
    def everybody(self) -> bool:
        """Whether every synchronous follower must have a copy."""
        return self.copies == len(self.synchronous) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """An operator's order. `after`: the number of the table that it replaces. `holds`: the end of the new leader's log
    as the operator saw it. `loss`: whether what is not in that log may be lost, although it was acknowledged."""

    after: int
    leader: BrokerId
    synchronous: tuple[BrokerId, ...] = ()
    copies: int = 1
    address: str = ""
    holds: Point
    loss: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """The table in force, as whoever records promotions keeps it. `eligible`: who holds everything that was ever
    acknowledged, so that its promotion loses nothing."""

    table: Table
    eligible: tuple[BrokerId, ...]


def found(table: Table) -> Recorded:
    """The first table, as configured: nothing can be lost yet."""
    return Recorded(table, (table.leader, *table.synchronous))


def served(recorded: Recorded) -> Recorded:
    """The table's leader has served, so its barrier has a copy wherever it must, and everything before it, too."""
    table = recorded.table
    return Recorded(table, (table.leader, *table.synchronous) if table.everybody else (table.leader,))


def promote(recorded: Recorded, order: Promotion) -> Recorded:
    """Compare and set. Who was not there under each table since one served may lack something: that needs `loss`.

    Raises: PromotionRefusedError, saying why.
    """
    table = recorded.table
    if order.after != table.number:
        raise another_in_force(table, order.after)
    if order.leader not in recorded.eligible and not order.loss:
        raise PromotionRefusedError(f"broker {order.leader} may lack what was acknowledged; {recorded.eligible} do not")
    fresh = next_table(table, order)
    # Who is not needed for a copy may lack what this table's leader acknowledges, and may never hear that it serves.
    there = (fresh.leader, *fresh.synchronous) if fresh.everybody else (fresh.leader,)
    kept = (fresh.leader,) if order.loss else tuple(each for each in recorded.eligible if each in there)
    return Recorded(fresh, kept)


def another_in_force(table: Table, after: int) -> PromotionRefusedError:
    """Why a promotion that was to follow table `after` is refused."""
    return PromotionRefusedError(
        f"table {table.number} is in force: broker {table.leader} leads, in epochs from {first_epoch(table.number)} "
        f"on; the promotion was to follow table {after}"
    )


def next_table(table: Table, order: Promotion) -> Table:
    """The table that an order makes of this one."""
    number = table.number + 1
    return Table(
        number=number, leader=order.leader, synchronous=order.synchronous, copies=order.copies, address=order.address,
        holds=order.holds, forgiven=number if order.loss else table.forgiven,
    )  # fmt: skip


def table_number(epoch: Epoch) -> int:
    """The table in which an epoch is."""
    return epoch >> _TABLE_SHIFT


def first_epoch(number: int) -> Epoch:
    """The epoch of a table in which nobody leads yet: whoever has seen it refuses all leaders of earlier tables."""
    return Epoch(number << _TABLE_SHIFT)


def is_near(epoch: Epoch, seen: Epoch) -> bool:
    """Whether a group that had come to `seen` when it was heard of last can have come to `epoch`."""
    number = table_number(epoch)
    leaderships = _leaderships(number, epoch) - _leaderships(number, seen)
    return number - table_number(seen) <= _LEAP_TABLES and leaderships <= _LEAP_LEADERSHIPS


def is_worn_out(number: int, seen: Epoch) -> bool:
    """Whether the table has no epoch left for another start of its leader: another table has."""
    return _leaderships(number, seen) == _LEADERSHIP


def _leaderships(number: int, seen: Epoch) -> int:
    """How many there have been in a table of which this epoch was seen."""
    return (seen >> _MARK_BITS) & _LEADERSHIP if table_number(seen) == number else 0


def next_epoch(number: int, seen: Epoch, incarnation: str) -> Epoch:
    """The epoch that this process begins as the leader of a table, above all that it has `seen` in that table."""
    before = _leaderships(number, seen)
    ensure(before < _LEADERSHIP, "a table lasts for so many starts of its leader", number, seen)
    return Epoch((number << _TABLE_SHIFT) | (before + 1 << _MARK_BITS) | (crc32(incarnation.encode()) & _MARK))
