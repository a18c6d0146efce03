"""A run as data: the seed, the shape that was drawn from it, and the timed faults. Recorded, replayed, shrunk, stored.

    {"sim": NAME, "why": SENTENCE, "bug": NAME, "seed": "0x2a", "shape": {...},
     "faults": [[at_ms, kind, target, lasts_ms, number], ...]}

The shape is stored whole, so that a plan goes on to mean the same when seeds are drawn in another way.
"""

import json
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

__all__ = ["Fault", "Plan"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One timed fault. `target` is the number of a process; what negative numbers stand for, each simulation says."""

    at_ms: int
    kind: str
    target: int
    lasts_ms: int
    number: int
    """Draws what else the kind needs to know, so that taking another fault away changes nothing here."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run depends on, besides the program."""

    sim: str
    seed: int
    shape: dict[str, Any]
    faults: tuple[Fault, ...]
    why: str = ""
    bug: str = field(default="", kw_only=True)
    """The seeded defect that it was recorded for, if any."""

    @property
    def digest(self) -> str:
        """Equal digests: equal runs of one program."""
        return blake2b(self.replaced(why="", bug="").as_text().encode(), digest_size=8).hexdigest()

    def replaced(self, **changes: Any) -> "Plan":
        """The same with other values."""
        return replace(self, **changes)

    def as_text(self) -> str:
        """JSON, one fault a line."""
        head = {"sim": self.sim, "why": self.why, "bug": self.bug, "seed": hex(self.seed), "shape": self.shape}
        faults = ",\n  ".join(json.dumps(astuple(fault)) for fault in self.faults)
        return json.dumps(head)[:-1] + ',\n "faults": [\n  ' + faults + "\n]}\n"

    def save(self, path: Path) -> None:
        """Write it to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.as_text())

    @classmethod
    def load(cls, path: Path) -> "Plan":
        """Read it from a file."""
        read = json.loads(path.read_text())
        faults = tuple(Fault(*fault) for fault in read["faults"])
        return cls(read["sim"], int(read["seed"], 0), read["shape"], faults, read["why"], bug=read["bug"])
