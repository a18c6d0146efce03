"""Orders about who leads that a broker of a group takes itself, on its admin port, where no controllers do.

Mode raft: POST /replica/hand-over, POST /replica/rebuild, GET /replica/votes. Mode static: POST /replica/promote, GET
/replica/roles. Keys are camelCase.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["HandOver", "HandingOver", "Promote", "Rebuild", "RolesPage", "Survivor", "VotesPage"]

_Broker = Annotated[int, Meta(ge=1, le=999)]
_Reset = Annotated[int, Meta(ge=1, lt=1 << 32)]
_Epoch = Annotated[int, Meta(ge=1, lt=1 << 62)]
"""What replicas can say to each other, with room for more of them: what is ordered once is kept for good."""


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
    what only others have may be lost, although it was acknowledged. `unrecorded`: without asking the controllers, who
    are gone; two such orders may then contradict each other.
    """

    after: int
    synchronous: tuple[_Broker, ...] = ()
    copies: int | UnsetType = UNSET
    loss: bool = False
    unrecorded: bool = False


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


class VotesPage(_Shape, frozen=True, kw_only=True):
    """What a replica knows of who votes, and how far its own log goes."""

    broker_id: int
    identity: str
    reset: int
    """How often an operator has rebuilt the group."""
    epoch: int
    leader: int | None
    """Who is heard to lead."""
    voters: tuple[str, ...]
    """By identity, which begins with the broker's number."""
    last_epoch: int
    last_position: int


class Survivor(_Shape, frozen=True, kw_only=True):
    """A replica that goes on, and the end of its log."""

    identity: str
    epoch: int
    position: int


class Rebuild(_Shape, frozen=True, kw_only=True):
    """To each survivor, with the same words: they alone vote from now on, and whoever has most of them leads.

    `give_up` names all other voters, by their brokers. `loss`: what only those have is lost, although it was
    acknowledged. Refused where a leader is heard, and of a group that still has its majority.
    """

    reset: _Reset
    epoch: _Epoch
    survivors: tuple[Survivor, ...]
    give_up: tuple[_Broker, ...]
    loss: bool = False
