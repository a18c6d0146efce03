"""The ways in which a group under chaos is led, and what of the faults each of them can stand.

What a mode does not promise is not asked of it; the names of those faults stand here, each with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["CONTROLLER", "MODES", "PROMOTING", "RAFT", "STATIC", "STATIC_ALONE", "STATIC_SOME", "GroupMode"]

_NONE: Mapping[str, str] = MappingProxyType({})

_NOBODY_ELSE = "nobody else may lead without an accepted loss: the leader has to come back"
PROMOTING = (
    "kill leader", "kill leader and leading controller", "pause leader until another leads", "stop leader",
    "wipe leader", "power cut of the leader", "disk of the leader fails", "disk of the leader is stuck",
    "cut leader from followers", "cut leader from everybody, packets dropped",
    "cut leader from everybody, packets refused", "leader with a minority of controllers", "leader hears nobody",
    "nobody hears the leader", "leader sleeps and wakes up alone", "all disks are full, and the leader dies",
)  # fmt: skip
"""Faults that end only when another broker leads."""
_NEEDS_ANOTHER: Mapping[str, str] = dict.fromkeys(PROMOTING, _NOBODY_ELSE)


@dataclass(frozen=True, slots=True)
class GroupMode:
    """One way to lead a group.

    `promotes`: a follower leads next because an operator says so, else by itself or never. `hands_over`: who stops in
    order gives leadership away, so that no send fails. `without`: faults that are not for it, and why.
    """

    name: str
    replication: Mapping[str, object]
    promotes: bool = False
    hands_over: bool = True
    without: Mapping[str, str] = field(default_factory=lambda: _NONE)

    @property
    def led_by_controllers(self) -> bool:
        """Whether the controllers say who leads and who is in sync."""
        return self.replication["mode"] == "controller"

    @property
    def static(self) -> bool:
        """Whether roles are said by hand."""
        return self.replication["mode"] == "static"


CONTROLLER = GroupMode("controller", {"mode": "controller"})
RAFT = GroupMode(
    "raft", {"mode": "raft", "controllers": []},
    without={"disk of a follower is an older copy": "it has forgotten votes and copies, which nobody else keeps"},
)  # fmt: skip
STATIC = GroupMode(
    "static", {"mode": "static", "static": {"leader": 1, "synchronous": [2]}},
    promotes=True, hands_over=False,
)  # fmt: skip
"""Sends wait for one follower, which an operator promotes when the leader is gone; he changes who is awaited, too. The
controllers record both."""
STATIC_SOME = GroupMode(
    "static-some", {"mode": "static", "controllers": [], "static": {"leader": 1, "synchronous": [2, 3], "copies": 2}},
    hands_over=False, without=_NEEDS_ANOTHER,
)  # fmt: skip
"""Sends wait for either follower. Which one of them has everything nobody knows without the leader."""
STATIC_ALONE = GroupMode(
    "static-alone", {"mode": "static", "controllers": [], "static": {"leader": 1}},
    hands_over=False, without=_NEEDS_ANOTHER,
)  # fmt: skip
"""Nobody is awaited. Who is promoted by force lacks what only the leader had: more is promised to nobody."""

MODES: Mapping[str, GroupMode] = MappingProxyType(
    {mode.name: mode for mode in (CONTROLLER, RAFT, STATIC, STATIC_SOME, STATIC_ALONE)}
)
