"""What the operator remembers of a group between looks. Losing it costs requests, never anything else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logherd_operator.observed.slots import Component
from logherd_operator.resources.group_objects import Rendered
from logherd_operator.resources.pinning import Pinned
from logherd_operator.spec.group import BrokerGroup

__all__ = ["Drawn", "Memory", "Parsed", "Sizes", "Written"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A spec that was read, of one generation."""

    generation: int
    group: BrokerGroup


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was rendered from `of`, and the hash of each object by its path: it is not rendered again for each look."""

    of: tuple[Any, ...]
    rendered: Rendered
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Written:
    """A status that was written over a certain version of the object: what the watch has still to bring."""

    over: str
    document: Mapping[str, Any]
    at: float


@dataclass(slots=True, kw_only=True)
class Sizes:
    """Counts that cannot be asked for again. `controllers`: of the group that is referred to, which may be away for a
    while. `founders`: with how many brokers a group began that leads itself. `first_learner`: as it was told last, for
    while nobody tells.
    """

    controllers: int = 3
    founders: int | None = None
    first_learner: int | None = None


@dataclass(slots=True, kw_only=True)
class Memory:
    """Of one group with one uid.

    `pinned` is None before it was read. `applied`: hashes of objects as they were last applied, by path, with the time;
    `refusals`: what the API server said as it refused an object, by its kind and name, with the time. `leading`: the
    controller that led last, by ordinal.
    `refused`: settings that a broker's process (by pod uid) was told and refused, while the spec is as it was then.
    `taken`: pods (by name, uid) that were told to stop, until the watch shows it.
    """

    uid: str
    parsed: Parsed | None = None
    pinned: dict[Component, Pinned] | None = None
    applied: dict[str, tuple[str, float]] = field(default_factory=dict)
    refusals: dict[str, tuple[str, float]] = field(default_factory=dict)
    token: str = ""
    leading: int = 0
    refused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    written: Written | None = None
    drawn: Drawn | None = None
    sizes: Sizes = field(default_factory=Sizes)
