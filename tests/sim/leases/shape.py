"""What one seed looks like: sizes, rates, which faults exist at all; and the plan of timed faults, as data."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from sim.consensus.streams import stream
from sim.plan import Fault, Plan

__all__ = [
    "KINDS", "LEADING", "LOSING", "MASTER", "RESTORE", "Shape", "draw_faults", "draw_plan", "draw_shape", "simpler",
    "with_restore",
]  # fmt: skip

NAME = "leases"
MASTER, LEADING = -1, -2
"""Targets that stand for whoever leads then: a master, or the controllers' leader."""

PROCESSES = ("pause", "crash", "isolate", "deafen", "mute", "split", "half-split", "minority", "half-minority", "clog")
CONTROLLERS = ("double", "blackout", "controller-full", "unconfirmed", "nap", "change-leader")
BROKERS = ("full", "sick", "power", "wipe", "replace", "rollback", "twin", "stop", "old-exit", "move", "bounce")
STRAGGLERS = ("late-grant", "late-beat", "echo")
ORDERS = ("transfer", "elect", "unclean", "demote", "promote", "forget", "tune", "configure", "dissolve")
RESTORE = "restore"
"""Once in a run, if at all; `lasts_ms` says how old the state is that the controllers go on from."""
_DRAWN = PROCESSES + CONTROLLERS + BROKERS + STRAGGLERS + ORDERS
KINDS = (*_DRAWN, RESTORE)
LOSING = ("power", "wipe", "replace", "rollback", "twin", "demote", "promote", "forget", "dissolve", "configure")
"""Who loses something, or is put into another place."""
_OFTEN = ("pause", "crash", "isolate", "minority", "double", "transfer")


@dataclass(frozen=True, slots=True)
class Shape:
    """Drawn first. Times in milliseconds of virtual time."""

    groups: int
    controllers: int
    brokers: int
    learners: int
    min_in_sync: int
    faulty_ms: int
    loss: float
    late: float
    late_ms: int
    duplication: float
    extreme_clocks: bool
    image_every: int
    flush_us: int
    fault_gap_ms: int
    kinds: tuple[str, ...]
    changing_leases: bool = False
    """Controllers are restarted with leases of another length, one after the other."""
    piece_bytes: int = 1 << 20
    """In pieces of so many bytes a controller that is far behind gets an image."""


def draw_shape(seed: int) -> Shape:
    """The shape of a seed."""
    draw = stream(seed, "config")
    brokers = draw.choice((2, 3, 3, 3, 4))
    calm = draw.random() < 0.5
    kinds = tuple(kind for kind in _DRAWN if draw.random() < (0.7 if kind in _OFTEN else 0.4))
    return Shape(
        groups=draw.choice((1, 1, 1, 2)),
        controllers=draw.choice((1, 3, 3, 3, 3, 3, 3, 5)),
        brokers=brokers,
        learners=draw.choice((0, 0, 1)),
        min_in_sync=draw.choice((1, 2, 2, 2)),
        faulty_ms=draw.choice((15_000, 20_000, 30_000)),
        loss=0.0 if calm else draw.choice((0.0, 0.02, 0.1)),
        late=0.0 if calm else draw.choice((0.0, 0.02, 0.1)),
        late_ms=draw.choice((100, 800, 3_000)),
        duplication=0.0 if calm else draw.choice((0.0, 0.05, 0.3)),
        extreme_clocks=draw.random() < 0.7,
        image_every=draw.choice((5, 25, 1_000)),
        flush_us=draw.choice((200, 500, 20_000)),
        fault_gap_ms=draw.choice((300, 700, 700, 2_000)),
        kinds=kinds or ("pause",),
        changing_leases=stream(seed, "leases").random() < 0.3,
        piece_bytes=stream(seed, "pieces").choice((1 << 20, 1 << 20, 60, 300)),
    )


def draw_plan(seed: int) -> Plan:
    """The whole run of a seed: its shape, and its faults in time order."""
    shape = draw_shape(seed)
    data: dict[str, Any] = {**asdict(shape), "kinds": list(shape.kinds)}
    return with_restore(Plan(NAME, seed, data, draw_faults(seed, shape)))


def draw_faults(seed: int, shape: Shape) -> tuple[Fault, ...]:
    """The faults of a seed, in time order."""
    draw = stream(seed, "plan")
    faults: list[Fault] = []
    at = 300
    while True:
        at += 1 + int(draw.expovariate(1 / shape.fault_gap_ms))
        if at >= shape.faulty_ms:
            return tuple(faults)
        faults.append(_draw_fault(draw, shape, at))


def with_restore(plan: Plan) -> Plan:
    """Now and then all controllers lose what they decided last. All else is what it would be without, but that nobody
    loses anything, nor is anybody put into another place, in the time of which they will know nothing: that one is not
    to be trusted would be forgotten, too, and nothing could mend that. Nor do they know of longer leases."""
    draw = stream(plan.seed, "restore")
    if draw.random() >= 0.05:
        return plan
    until = plan.shape["faulty_ms"]
    at = draw.randrange(until // 3, until - 500)
    fault = Fault(at, RESTORE, draw.randrange(64), draw.choice((1_500, 3_000, 5_000)), draw.getrandbits(32))
    begin = at - fault.lasts_ms - 1_500
    rest = [each for each in plan.faults if each.kind not in LOSING or not begin <= each.at_ms <= at]
    faults = tuple(sorted((*rest, fault), key=lambda each: each.at_ms))
    return plan.replaced(shape={**plan.shape, "changing_leases": False}, faults=faults)


def _draw_fault(draw: Random, shape: Shape, at: int) -> Fault:
    kind = draw.choice(shape.kinds)
    chance = draw.random()
    target = MASTER if chance < 0.4 else LEADING if chance < 0.5 else draw.randrange(64)
    return Fault(at, kind, target, draw.choice((50, 500, 1_500, 4_000)), draw.getrandbits(32))


def simpler(plan: Plan) -> Iterator[Plan]:
    """Plans of simpler shapes: fewer groups, brokers, controllers; a better network; a shorter run."""
    shape = plan.shape
    last = max((fault.at_ms + fault.lasts_ms for fault in plan.faults), default=0) + 2_000
    wanted: list[tuple[str, list[Any]]] = [
        ("groups", [1]), ("learners", [0]), ("controllers", [1, 3]), ("brokers", [2, 3]), ("loss", [0.0]),
        ("late", [0.0]), ("duplication", [0.0]), ("image_every", [1_000]), ("flush_us", [200]), ("faulty_ms", [last]),
        ("changing_leases", [False]),
    ]  # fmt: skip
    for name, values in wanted:
        for value in values:
            if value < shape.get(name, value) or (name == "image_every" and value != shape[name]):
                yield plan.replaced(shape={**shape, name: value})
