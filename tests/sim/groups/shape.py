"""What one seed looks like: as in `sim.leases`, with more that can happen to a disk."""

from dataclasses import asdict, replace

from sim.consensus.streams import stream
from sim.leases.shape import KINDS as OTHERS
from sim.leases.shape import draw_faults, draw_shape, with_restore
from sim.plan import Fault, Plan

__all__ = ["FREE", "KINDS", "draw_free_plan", "draw_plan"]

NAME = "groups"
DISKS = ("stall", "exhaust", "cut-off", "retain", "leave-behind", "orphan")
CHANGES = ("retime", "half-way")
CRAMPS = ("cramp",)
KINDS = OTHERS + DISKS + CHANGES + CRAMPS
_MORE_GAP_MS = 2_000
FREE = (
    "pause", "crash", "isolate", "deafen", "mute", "split", "half-split", "clog", "full", "sick", "stop", "move",
    "bounce", *DISKS, "appoint", "renew", "usurp",
)  # fmt: skip


def draw_plan(seed: int) -> Plan:
    """The whole run of a seed: its shape, and its faults in time order."""
    shape = draw_shape(seed)
    draw = stream(seed, "groups")
    others = tuple(kind for kind in shape.kinds if draw.random() < 0.5)
    more = tuple(kind for kind in DISKS if draw.random() < 0.5)
    shape = replace(
        shape, kinds=(others + 2 * more) or shape.kinds, faulty_ms=draw.choice((10_000, 15_000)), groups=1,
        controllers=draw.choice((1, 3, 3)),
    )  # fmt: skip
    if stream(seed, "groups:all").random() < 0.15:  # must be in sync
        shape = replace(shape, min_in_sync=shape.brokers)
    plan = Plan(NAME, seed, {**asdict(shape), "kinds": list(shape.kinds)}, draw_faults(seed, shape))
    return with_restore(_with_more(plan))


def draw_free_plan(seed: int, mode: str) -> Plan:
    """A run without controllers, in `static` or `raft` mode."""
    shape = draw_shape(seed)
    draw = stream(seed, f"groups:{mode}")
    kinds = tuple(
        kind for kind in FREE if draw.random() < (0.7 if kind in ("crash", "appoint", "isolate", "usurp") else 0.4)
    )
    shape = replace(
        shape, kinds=kinds or ("crash",), faulty_ms=draw.choice((10_000, 15_000)), groups=1, controllers=0,
        brokers=draw.choice((1, 2, 3, 3, 3, 5)),
    )  # fmt: skip
    copies = draw.choice(("all", "all", "some", "none"))
    data = {**asdict(shape), "kinds": list(shape.kinds), "mode": mode, "copies": copies}
    return _with_more(Plan(f"{NAME}-{mode}", seed, data, draw_faults(seed, shape)))


def _with_more(plan: Plan) -> Plan:
    """In half of the seeds other settings come in between, now and then, and in half of them a barrier is refused."""
    return _with(_with(plan, "changes", CHANGES), "cramps", CRAMPS)


def _with(plan: Plan, name: str, kinds: tuple[str, ...]) -> Plan:
    """With faults of these kinds in half of the seeds. All else is what it would be without."""
    draw = stream(plan.seed, f"groups:{name}")
    if draw.random() < 0.5:
        return plan
    shape, more, at = plan.shape, list[Fault](), 1_000
    while (at := at + 1 + int(draw.expovariate(1 / _MORE_GAP_MS))) < shape["faulty_ms"]:
        more.append(Fault(at, draw.choice(kinds), draw.randrange(64), 500, draw.getrandbits(32)))
    faults = tuple(sorted((*plan.faults, *more), key=lambda fault: fault.at_ms))
    return plan.replaced(shape={**shape, "kinds": [*shape["kinds"], *kinds]}, faults=faults)
