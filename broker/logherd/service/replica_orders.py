"""Orders about who leads that a broker of a group takes itself, on its admin port, where no controllers do.

Mode raft: POST /replica/hand-over. Mode static: POST /replica/promote, GET /replica/roles. Keys are camelCase.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["HandOver", "HandingOver", "Promote", "RolesPage"]

_Broker = Annotated[int, Meta(ge=1, le=999)]


class _Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class HandOver(_Shape, frozen=True, kw_only=True):
    """To a leader: let `broker_id` lead, or whoever has most. Refused in another epoch than `expected_epoch`."""

    expected_epoch: int
    broker_id: _Broker | None = None


class HandingOver(_Shape, frozen=True, kw_only=True):
    """It has begun; another leads when its /status says so, and the leader goes on if it comes to nothing."""

    epoch: int


class Promote(_Shape, frozen=True, kw_only=True):
    """To the broker that is to lead: it does so in place of table `after`.

    `synchronous`: whom a send waits for from then on; not given: nobody. `copies` not given: all of them. `loss`:
    what only others have may be lost, although it was acknowledged.
    """

    after: int
    synchronous: tuple[_Broker, ...] = ()
    copies: int | UnsetType = UNSET
    loss: bool = False


class RolesPage(_Shape, frozen=True, kw_only=True):
    """The latest table of roles that a broker knows. `eligible`: promoting this broker now loses nothing."""

    broker_id: int
    table: int
    leader: int
    synchronous: tuple[int, ...]
    copies: int
    eligible: bool
    why: str = ""
    """If it is not."""
