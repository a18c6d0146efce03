"""What one seed looks like: as in `sim.leases`, with more that can happen to a disk."""

from dataclasses import asdict, replace

from sim.consensus.streams import stream
from sim.leases.shape import KINDS as OTHERS
from sim.leases.shape import draw_faults, draw_shape
from sim.plan import Plan

__all__ = ["KINDS", "draw_plan"]

NAME = "groups"
DISKS = ("stall", "exhaust", "cut-off", "retain", "leave-behind", "orphan")
KINDS = OTHERS + DISKS


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
    return Plan(NAME, seed, {**asdict(shape), "kinds": list(shape.kinds)}, draw_faults(seed, shape))
