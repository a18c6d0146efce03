"""Carries out the steps of requests and HTTP calls against a desk that commits at once."""

from collections.abc import Callable
from typing import TypeVar

from logherd.controller.machine import Machine
from logherd.controller.settings import OfficeOptions
from logherd.service.controllers.desk import QuorumView, endings, take
from logherd.service.controllers.steps import (
    AwaitMaster,
    Catch,
    Confirm,
    Decide,
    Endings,
    HandOver,
    QuorumRefusal,
    Resettle,
    Step,
)
from logherd.service.ports import Reply
from logherd.wire.frame import Frame
from unit.controller.desk import Desk

__all__ = ["Caller", "Runner", "quorum_view"]

T = TypeVar("T")


class Runner:
    """The shell of a controller whose quorum agrees with everything, or refuses with `refusal`, or is `lost`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.steps: list[type] = []
        self.while_waiting: Callable[[], object] = lambda: None
        self.refusal: QuorumRefusal | None = None
        self.lost = False
        self.done: list[HandOver[object] | Resettle[object]] = []

    def run(self, step: Step[T], ends: Endings[T], kind: type[T]) -> T:
        """The answer, after all steps that it takes."""
        self.steps = []
        while not isinstance(step, kind):
            self.steps.append(type(step))
            if self.refusal is not None:
                return ends.refused(self.refusal)
            if self.lost:
                return ends.unknown()
            step = self.carry_out(step)  # type: ignore[arg-type]
        return step

    def carry_out(
        self, step: Confirm[T] | Catch[T] | Decide[T] | AwaitMaster[T] | HandOver[T] | Resettle[T]
    ) -> Step[T]:  # fmt: skip
        if isinstance(step, Confirm | Catch):
            return step.then(self.desk.now)
        if isinstance(step, Decide):
            return step.then(self.desk.submit(step.command), self.desk.now)
        if isinstance(step, HandOver | Resettle):
            self.done.append(step)  # type: ignore[arg-type]
            return step.then(self.desk.now)
        self.while_waiting()
        group = self.desk.machine.group(step.group)
        assert group is not None
        return step.then(group, self.desk.now)


def quorum_view(machine: Machine, own: str = "n0", leader: str | None = "n1") -> QuorumView:
    """Three controllers n0 to n2."""
    return QuorumView(
        group="ctl", own_id=own, leader_id=leader, leader_address=f"h{leader[1:]}:9878" if leader else None,
        shown={"controllerType": "LogHerd"}, peers=(("n0", "h0:9878"), ("n1", "h1:9878")), machine=machine,
        options=OfficeOptions(),
    )  # fmt: skip


class Caller(Runner):
    """Sends frames to the leading controller, or with `leads` unset to one that does not lead."""

    leads = True

    def __call__(self, code: int, body: bytes = b"", **ext: object) -> Reply:
        texts = {
            name: ("true" if value else "false") if isinstance(value, bool) else str(value)
            for name, value in ext.items()
        }
        return self.send(Frame(code, 1, ext=texts, body=body))

    def send(self, frame: Frame) -> Reply:
        """The answer to a whole frame."""
        view = quorum_view(self.desk.machine)
        step = take(frame, self.desk.office if self.leads else None, view, self.desk.now)
        return self.run(step, endings(view), Reply)
