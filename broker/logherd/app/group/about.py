"""What replicas tell each other of themselves besides their names: it travels in the hello of their links, as JSON.

{"mode":"raft","address":"10.0.0.2:10911","learner":false,"election_ms":1000}
{"mode":"static","address":"...","learner":false,"roles":{"table":{"number":2,"leader":2,...},"eligible":[2]}}
"""

import msgspec

from logherd.controller.values import BrokerId
from logherd.group.table import Recorded, Table
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.telemetry.log import Log

__all__ = ["About", "RolesShape", "decode_about", "encode_about", "recorded_of", "shape_of"]

_log = Log("logherd.group")


class _TableShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    number: int
    leader: int
    synchronous: tuple[int, ...]
    copies: int
    epoch: int
    position: int
    forgiven: int


class RolesShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of roles and who holds everything, as files and messages have it. Of one that is understood only in part
    nothing is taken: it would be kept, and told on, without what a later release has put there."""

    table: _TableShape
    eligible: tuple[int, ...]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: where clients reach this broker. `election_ms`: how long it waits for a leader at least; 0 where there
    are no elections, and in releases that do not tell. `begun`: in mode static, whether anything is in its log; `end`:
    epoch and position at which that ends, committed or not, told by releases that know of it."""

    mode: str
    address: str
    learner: bool = False
    election_ms: int = 0
    roles: RolesShape | None = None
    begun: bool = False
    end: tuple[int, int] | None = None


def encode_about(about: About) -> str:
    """The text of a hello."""
    return msgspec.json.encode(about).decode()


def decode_about(text: str) -> About | None:
    """The inverse; None if nothing is told, or nothing that is understood here."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=About)
    except (msgspec.DecodeError, RecursionError) as error:
        _log.warning("a replica tells what is not understood", reason=error)
        return None


def shape_of(recorded: Recorded) -> RolesShape:
    """As it is written."""
    table = recorded.table
    shape = _TableShape(
        number=table.number, leader=table.leader, synchronous=table.synchronous, copies=table.copies,
        epoch=table.holds.epoch, position=table.holds.position, forgiven=table.forgiven,
    )  # fmt: skip
    return RolesShape(table=shape, eligible=recorded.eligible)


def recorded_of(shape: RolesShape) -> Recorded:
    """The inverse. Raises: ValueError if that can be no table."""
    told = shape.table
    try:
        table = Table(
            number=told.number, leader=BrokerId(told.leader), synchronous=tuple(map(BrokerId, told.synchronous)),
            copies=told.copies, holds=Point(Epoch(told.epoch), Position(told.position)), forgiven=told.forgiven,
        )  # fmt: skip
    except InvariantError as error:
        raise ValueError(str(error)) from error
    return Recorded(table, tuple(map(BrokerId, shape.eligible)))
