"""What is to be done for a request before it can be answered. The shell does it and calls `then` with the outcome.

A confirmation that fails, or a proposal that the quorum refuses, is answered with "not the leader"; one whose outcome
is unknown with an error that says so, never with success.
"""

from collections.abc import Callable
from dataclasses import dataclass

from logherd.controller.commands import Command
from logherd.controller.values import Group, GroupKey
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch
from logherd.service.ports import Reply

__all__ = ["AwaitMaster", "Confirm", "Decide", "Step"]


@dataclass(frozen=True, slots=True)
class Confirm:
    """The quorum must confirm, from now on, that this controller leads it; then ask again, with the time then."""

    then: "Callable[[int], Step]"


@dataclass(frozen=True, slots=True)
class Decide:
    """Tell the office (`submitted`), propose, and answer when the command has been applied here."""

    command: Command
    then: "Callable[[Verdict, int], Step]"


@dataclass(frozen=True, slots=True)
class AwaitMaster:
    """Answer when the group has a master of a later epoch than `above`, or after `timeout_ms` with what it has."""

    group: GroupKey
    above: Epoch
    timeout_ms: int
    then: Callable[[Group, int], Reply]


Step = Reply | Confirm | Decide | AwaitMaster
