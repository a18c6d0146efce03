"""Carries out the steps of requests and HTTP calls against a desk that commits at once."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from logherd.controller.machine import Machine
from logherd.controller.settings import OfficeOptions
from logherd.service.controllers.desk import QuorumView, endings, take
from logherd.service.controllers.documents import Document
from logherd.service.controllers.pages import ask
from logherd.service.controllers.place import Place
from logherd.service.controllers.standing import Leadership, Peer, Progress, Standing
from logherd.service.controllers.steps import (
    AwaitMaster,
    Catch,
    Confirm,
    Decide,
    Endings,
    HandOver,
    QuorumRefusal,
    Rebuild,
    Resettle,
    Step,
)
from logherd.service.ports import Reply
from logherd.wire.frame import Frame
from unit.controller.desk import Desk

__all__ = ["IDENTITIES", "Caller", "HttpCaller", "Runner", "quorum_view", "standing"]

T = TypeVar("T")


class Runner:
    """The shell of a controller whose quorum agrees with everything, or refuses with `refusal`, or is `lost`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.steps: list[type] = []
        self.while_waiting: Callable[[], object] = lambda: None
        self.refusal: QuorumRefusal | None = None
        self.lost = False
        self.done: list[HandOver[object] | Resettle[object] | Rebuild[object]] = []

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
        self, step: Confirm[T] | Catch[T] | Decide[T] | AwaitMaster[T] | HandOver[T] | Resettle[T] | Rebuild[T]
    ) -> Step[T]:  # fmt: skip
        if isinstance(step, Confirm | Catch):
            return step.then(self.desk.now)
        if isinstance(step, Decide):
            return step.then(self.desk.submit(step.command), self.desk.now)
        if isinstance(step, HandOver | Resettle | Rebuild):
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
        shown={"controllerType": "LogHerd"}, peers=(("n0", "h0:9878"), ("n1", "h1:9878")), machine=lambda: machine,
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


OWN = "n0"
IDENTITIES = {name: f"{name}.{digit * 16}" for name, digit in (("n0", "a"), ("n1", "b"), ("n2", "c"), ("n3", "d"))}


def standing(leader: str | None = OWN, **more: object) -> Standing:
    """Controller n0 of n0 to n2; n3 is configured, heard of, and no member."""
    leads = leader == OWN
    peers = [
        Peer(
            node=name, identity=identity, address=f"h{name[1:]}:9878", admin=f"h{name[1:]}:8088",
            voter=None if name == "n3" else True, connected=True, heard_ms=0 if name == OWN else 30,
            match=None if not leads or name == "n3" else 900,
        )
        for name, identity in IDENTITIES.items()
    ]  # fmt: skip
    said: dict[str, object] = {
        "cluster": "ctl", "node": OWN, "identity": IDENTITIES[OWN], "pid": 7, "version": "1.2", "election_ms": 1_000,
        "leadership": Leadership(
            role="leader" if leads else "follower", term=4, leader=leader, serving=leads, heard_ms=0 if leads else 40
        ),
        "progress": Progress(applied=800, committed=850, end=1_000), "peers": tuple(peers), "settled": leads, **more,
    }  # fmt: skip
    return Standing(**said)  # type: ignore[arg-type]


class HttpCaller(Runner):
    """Calls the admin port of the leading controller, or with `leads` unset of one that does not lead."""

    leads = True

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.standing: Standing | None = None

    @property
    def place(self) -> Place:
        """The controller that is called."""
        return Place(
            machine=lambda: self.desk.machine, office=lambda: self.desk.office if self.leads else None,
            standing=lambda: self.standing or standing(OWN if self.leads else "n1"), options=OfficeOptions(),
            shown={"nodeName": OWN}, renewed_from=lambda seat: f"10.0.0.{seat.broker_id}",
        )  # fmt: skip

    def get(self, target: str) -> tuple[int, dict[str, Any]]:
        """Status and document as JSON says them."""
        return self.call("GET", target)

    def post(self, target: str, **body: object) -> tuple[int, dict[str, Any]]:
        """The same for an action."""
        return self.call("POST", target, msgspec.json.encode(body))

    def call(self, method: str, target: str, body: bytes = b"") -> tuple[int, dict[str, Any]]:
        """The same for anything."""
        asked = ask(method, target, body, self.place, self.desk.now)
        return told(self.run(asked.step, asked.endings, Document))


def told(document: Document) -> tuple[int, dict[str, Any]]:
    """A document as JSON says it."""
    return document.status, msgspec.json.decode(msgspec.json.encode(document.body))
