"""How long things take before the planner draws a conclusion from them, in seconds and bytes."""

from dataclasses import dataclass

__all__ = ["Pace"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The same everywhere but in tests and on one machine, where nobody waits for schedulers.

    `election_rest`: after a change of leader nothing disruptive begins. `starting`: so young, nothing is wrong with it.
    `caught_up`: a learner is near for so long before it votes. `unschedulable`, `stalled`, `stuck`: then people hear.
    `routes`: after so long every client has asked for routes again. `resize`: a grown volume may take so long before a
    restart is tried. `busy`, `held`, `idle`: until the next look while something is under way, while it waits for
    somebody, and else.
    """

    election_rest: float = 10.0
    starting: float = 120.0
    caught_up: float = 30.0
    caught_up_bytes: int = 4 * _MIB
    unschedulable: float = 300.0
    stalled: float = 600.0
    stuck: float = 60.0
    resize: float = 300.0
    routes: float = 35.0
    busy: float = 2.0
    held: float = 10.0
    idle: float = 60.0
