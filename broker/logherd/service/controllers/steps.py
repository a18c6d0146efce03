"""What is to be done for a request before it can be answered. The shell does it and calls `then` with the outcome.

Requests come as frames and as HTTP calls; `AnswerType` is what one is answered with, the steps are the same. A step
that cannot be carried out is answered as `Endings` says: never with success, and as unknown if it may yet have an
effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from logherd.controller.commands import Command
from logherd.controller.values import BrokerId, Group, GroupKey, Registration
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.output import Refusal as QuorumRefusal

__all__ = [
    "AwaitMaster", "Catch", "Confirm", "Decide", "Endings", "HandOver", "QuorumRefusal", "Rebuild", "Resettle", "Seat",
    "Step",
]  # fmt: skip

AnswerType = TypeVar("AnswerType")


class Seat(Struct, frozen=True):
    """A broker process that speaks on some connection."""

    group: GroupKey
    broker_id: BrokerId
    registration: Registration


class Confirm(Struct, Generic[AnswerType], frozen=True):
    """The quorum must confirm, from now on, that this controller leads it; then ask again, with the time then.

    `speaker`: the broker process that asks, if it is to be told of decisions where it speaks.
    """

    then: "Callable[[int], Step[AnswerType]]"
    speaker: Seat | None = None


@dataclass(frozen=True, slots=True)
class Catch(Generic[AnswerType]):
    """Any controller: what is applied here must be as new as what was committed when this was asked (ReadIndex)."""

    then: "Callable[[int], Step[AnswerType]]"


@dataclass(frozen=True, slots=True)
class Decide(Generic[AnswerType]):
    """Tell the office (`submitted`), propose, and answer when the command has been applied here."""

    command: Command
    then: "Callable[[Verdict, int], Step[AnswerType]]"


@dataclass(frozen=True, slots=True)
class AwaitMaster(Generic[AnswerType]):
    """Answer when the group has a master of a later epoch than `above`, or after `timeout_ms` with what it has."""

    group: GroupKey
    above: Epoch
    timeout_ms: int
    then: Callable[[Group, int], AnswerType]


@dataclass(frozen=True, slots=True)
class HandOver(Generic[AnswerType]):
    """Hand the leadership of the quorum to this identity, or to the longest log; answer when that is done."""

    target: str | None
    then: "Callable[[int], Step[AnswerType]]"


@dataclass(frozen=True, slots=True)
class Rebuild(Generic[AnswerType]):
    """An operator's decision, given to each survivor: voters that are not named never come back; see RecoverQuorum."""

    order: RecoverQuorum
    then: "Callable[[int], Step[AnswerType]]"


@dataclass(frozen=True, slots=True)
class Resettle(Generic[AnswerType]):
    """Make these identities the quorum's voters and learners; answer when that is committed."""

    voters: tuple[str, ...]
    learners: tuple[str, ...]
    then: "Callable[[int], Step[AnswerType]]"


Step: TypeAlias = (
    AnswerType | Confirm[AnswerType] | Catch[AnswerType] | Decide[AnswerType] | AwaitMaster[AnswerType]
    | HandOver[AnswerType] | Resettle[AnswerType] | Rebuild[AnswerType]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Endings(Generic[AnswerType]):
    """Answers to a step that could not be carried out.

    `refused`: nothing was begun, and the quorum says why. `unknown`: leadership was lost meanwhile (R18).
    """

    refused: Callable[[QuorumRefusal], AnswerType]
    unknown: Callable[[], AnswerType]
