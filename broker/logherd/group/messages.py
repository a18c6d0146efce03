"""What replicas of a group say to each other besides shipping. They travel in the same envelopes."""

from dataclasses import dataclass

from logherd.replication.epochs import Point

__all__ = ["Contradicted", "Presence", "Summons"]


@dataclass(frozen=True, slots=True)
class Summons:
    """I lead this epoch: say where you are."""


@dataclass(frozen=True, slots=True)
class Presence:
    """I follow whoever leads, and know that everything up to `committed` is committed.

    `leaving`: this process is about to stop, or its store does not work, so the set should not wait for it.
    """

    committed: Point
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Contradicted:
    """What you know to be committed is not in my log: you cannot follow me with the log that you have.

    Comes only after an operator has accepted a loss.
    """

    committed: Point
