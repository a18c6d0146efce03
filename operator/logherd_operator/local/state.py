"""What one machine remembers of a group: how many places there are, and what was started where.

It is written before anything is started and after anything has changed, so that whoever keeps the group can be
replaced: by a later `logherd up`, or by `logherd down`.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from logherd_operator.local.addresses import Ports
from logherd_operator.observed.slots import Component

__all__ = ["FORMAT", "Began", "GroupState", "PlaceState", "Process", "from_json", "to_json"]

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Process:
    """`ticks` is the kernel's start time: with the pid it names one process for good."""

    pid: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceState:
    """One controller or broker: its guardian, and what the process behind that was started from.

    `started_at`: seconds since 1970 of the guardian's start, or of the last order to start anew. `log_begin`: bytes of
    the log file before that. `starts`: how often the guardian was started since it last did well.
    `ended`: the exit code of the former one, where it is known. `learner`: it was added to a group that had data.
    `told`: the process that was told to stop so that another one begins; it may live yet. `leaving`: the place is being
    taken away.
    """

    component: Component
    ordinal: int
    revision: str
    learner: bool = False
    guardian: Process | None = None
    started_at: float = 0.0
    log_begin: int = 0
    starts: int = 0
    ended: int | None = None
    told: Process | None = None
    leaving: bool = False

    @property
    def name(self) -> str:
        """What the place is called: brokers are counted from 1, controllers from 0, as in all messages."""
        return f"broker {self.ordinal + 1}" if self.component == "broker" else f"controller c{self.ordinal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """How a group began. `mode` says who leads, as in the spec. `founders`: with so many brokers, 0 if that was not
    kept. `founded`: it has had a leader.
    """

    mode: str = "Controller"
    founders: int = 0
    founded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The group that owns a folder. Counts are None before anything was made; they stay after `down`, as the data does.

    `generation` counts the accepted changes of the spec. `keeper` is the `logherd up` that looks after it now.
    """

    group: str
    host: str
    ports: Ports
    file: str
    cluster: str = ""
    name_servers: tuple[str, ...] = ()
    brokers: int | None = None
    controllers: int | None = None
    began: Began = field(default_factory=Began)
    generation: int = 1
    keeper: Process | None = None
    places: tuple[PlaceState, ...] = ()

    def place(self, component: Component, ordinal: int) -> PlaceState | None:
        """What is known of a place."""
        return next((each for each in self.places if (each.component, each.ordinal) == (component, ordinal)), None)

    def having(self, place: PlaceState) -> "GroupState":
        """With this in place of what was known of that place."""
        others = [each for each in self.places if (each.component, each.ordinal) != (place.component, place.ordinal)]
        # Controllers first: that is the order in which they are started, and shown.
        places = sorted([*others, place], key=lambda each: (each.component == "broker", each.ordinal))
        return replace(self, places=tuple(places))

    def with_nobody(self) -> "GroupState":
        """The same without any process: none of them lives."""
        places = tuple(replace(each, guardian=None, told=None, starts=0) for each in self.places)
        return replace(self, places=places, keeper=None)

    def without(self, place: PlaceState) -> "GroupState":
        """Without that place."""
        return replace(self, places=tuple(each for each in self.places if each != place))


def to_json(state: GroupState) -> str:
    """The text of the state's file."""
    return json.dumps({"format": FORMAT, **asdict(state)}, indent=2)


def from_json(document: dict[str, Any]) -> GroupState:
    """The reverse, without `format`. Raises: KeyError, TypeError, ValueError, AttributeError for anything else."""
    places = tuple(_place(each) for each in document.pop("places"))
    keeper = _process(document.pop("keeper"))
    ports = Ports(**document.pop("ports"))
    name_servers = tuple(document.pop("name_servers"))
    # Until there were groups that lead themselves, only this was kept.
    began = Began(founded=bool(document.pop("founded"))) if "founded" in document else Began(**document.pop("began"))
    return GroupState(
        **document, places=places, keeper=keeper, ports=ports, name_servers=name_servers, began=began
    )  # fmt: skip


def _place(document: dict[str, Any]) -> PlaceState:
    return PlaceState(**{**document, "guardian": _process(document["guardian"]), "told": _process(document["told"])})


def _process(document: dict[str, int] | None) -> Process | None:
    return None if document is None else Process(**document)
