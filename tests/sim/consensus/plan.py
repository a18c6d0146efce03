"""The plan of a run as data: the shape, the timed faults, and what the clients ask. Kept as JSON it replays exactly.

Every fault and every action carries its own number, from which it draws what else it needs, so that one may be taken
away without changing another. The noise (network, disks, clocks, ties) comes from the seed and stays.
"""

import json
from dataclasses import asdict, dataclass
from random import Random

from sim.consensus.shape import Shape, draw_shape
from sim.consensus.streams import stream

__all__ = ["Action", "Fault", "Plan", "decode_plan", "draw_plan", "encode_plan"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One timed fault. `target` is the number of a process, or -1 for whoever leads then."""

    at_ms: int
    kind: str
    target: int
    lasts_ms: int
    number: int
    """Draws what else the kind needs to know."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a client asks: to write, to read, or to read by the lease. `number` chooses of whom, and how much."""

    at_us: int
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A run is a pure function of this. `files`: over the controllers' store, on simulated disks."""

    seed: int
    files: bool
    shape: Shape
    faults: tuple[Fault, ...]
    actions: tuple[Action, ...]


def draw_plan(seed: int, *, files: bool = False) -> Plan:
    """The plan of a seed."""
    shape = draw_shape(seed)
    return Plan(seed, files, shape, tuple(_draw_faults(seed, shape)), tuple(_draw_actions(seed, shape)))


def _draw_faults(seed: int, shape: Shape) -> list[Fault]:
    draw = stream(seed, "plan")
    faults: list[Fault] = []
    at = 1_500
    while shape.kinds:
        at += 1 + int(draw.expovariate(1 / shape.fault_gap_ms))
        if at >= shape.faulty_ms:
            break
        faults.append(_draw_fault(draw, shape, at))
    return faults


def _draw_fault(draw: Random, shape: Shape, at: int) -> Fault:
    kind = draw.choice(shape.kinds)
    target = -1 if draw.random() < 0.4 else draw.randrange(shape.founders + shape.spares)
    lasts = draw.choice((5, 50, 300, 1_200, 3_000, 6_000))
    return Fault(at, kind, target, lasts, draw.getrandbits(32))


def _draw_actions(seed: int, shape: Shape) -> list[Action]:
    """Half are writes; a quarter each read with and without the lease."""
    actions: list[Action] = []
    for client in range(shape.clients):
        draw = stream(seed, f"client:{client}")
        at = 1_000_000 + draw.randrange(50_000)
        while at < (shape.faulty_ms + 500) * 1000:
            kind = draw.choice(("write", "write", "read", "lease"))
            actions.append(Action(at, kind, draw.getrandbits(32)))
            at += 1 + int(draw.expovariate(1 / (shape.op_gap_ms * 1000)))
    return sorted(actions, key=lambda action: action.at_us)


def encode_plan(plan: Plan, note: str) -> str:
    """JSON, a fault or an action a line; `note` says what the plan is kept for."""
    lines = [
        f'"note": {json.dumps(note)}',
        f'"seed": {plan.seed}',
        f'"files": {json.dumps(plan.files)}',
        f'"shape": {json.dumps(plan.shape.as_data())}',
    ]
    for name, rows in (("faults", plan.faults), ("actions", plan.actions)):
        rows_text = ",".join(f"\n  {json.dumps(list(asdict(row).values()))}" for row in rows)
        lines.append(f'"{name}": [{rows_text}]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def decode_plan(text: str) -> Plan:
    """The inverse; the note is for people."""
    data = json.loads(text)
    lists = {name: tuple(data["shape"].get(name, ())) for name in ("kinds", "patience")}
    shape = Shape(**{**data["shape"], **lists})
    faults = tuple(Fault(*row) for row in data["faults"])
    actions = tuple(Action(*row) for row in data["actions"])
    return Plan(data["seed"], data["files"], shape, faults, actions)
