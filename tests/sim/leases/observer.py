"""Sees everything, and checks after every event what must hold whatever happens (`fault-testing` C5, R1, R2, R5)."""

from typing import TYPE_CHECKING

from logherd.controller.commands import Command, Elect, Grounds, PlanTransfer
from logherd.controller.machine import Machine
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch, Position
from sim.leases.broker import KEY, Broker, Entry

if TYPE_CHECKING:
    from sim.leases.controller import Controller
    from sim.leases.world import World

__all__ = ["Observer"]


class Observer:
    """Two leases never overlap; an elected master has every committed record; equal logs give equal states."""

    def __init__(self, world: "World") -> None:
        from sim.leases.world import TERMS

        self.world = world
        self.terms = TERMS
        self.elections = 0
        self.grounds: set[Grounds] = set()
        self.transfers = 0
        self.committed: list[Entry] = []
        self.led_us = 0
        self._numbers = 0
        self._images: dict[Position, bytes] = {}
        self._masters: dict[int, tuple[int, int]] = {}
        self._begun: dict[int, str] = {}

    def new_entry(self, epoch: Epoch) -> Entry:
        """A record that never was."""
        self._numbers += 1
        return (epoch, self._numbers)

    def check(self) -> None:
        """R1: two masters never both believe in their lease."""
        believers = [broker for broker in self.world.brokers.values() if broker.believes() is not None]
        assert len(believers) < 2, [(broker.name, broker.believes()) for broker in believers]
        if believers:
            self.led_us = self.world.now_us

    def on_state(self, controller: "Controller") -> None:
        """C5: an image is as good as the log."""
        known = self._images.get(controller.position)
        assert known in (None, controller.machine.save()), f"{controller.name} starts from another state"

    def on_applied(self, controller: "Controller", end: Position, command: Command, verdict: Verdict) -> None:
        """C5: the same command at the same place gives the same state everywhere."""
        image = controller.machine.save()
        if end in self._images:
            assert self._images[end] == image, f"{controller.name} differs at {end}"
            return
        self._images[end] = image
        assert Machine.load(image).save() == image
        if verdict.refusal is not None or verdict.group is None:
            return
        if isinstance(command, PlanTransfer):
            self.transfers += 1
        if isinstance(command, Elect) and verdict.events:
            self._on_elected(command, verdict)

    def _on_elected(self, command: Elect, verdict: Verdict) -> None:
        group = verdict.group
        assert group is not None
        assert group.tenure is not None
        self.elections += 1
        self.grounds.add(command.grounds)
        self.world.note("-", f"b{command.broker_id} is elected for epoch {group.epoch}: {command.grounds.value}")
        assert group.epoch not in self._masters, "one master per epoch"
        assert all(epoch < group.epoch for epoch in self._masters), "epochs rise"
        self._masters[group.epoch] = (command.broker_id, command.registration)
        for broker in self.world.brokers.values():
            assert broker.believes() is None, f"{broker.name} still believes in its lease at the election"
        assert command.grounds is not Grounds.UNCLEAN
        winner = self.world.brokers[f"b{command.broker_id}"]
        if winner.store_id == group.tenure.store_id:
            assert winner.log[: len(self.committed)] == self.committed, f"{winner.name} lacks committed records"

    def on_begin(self, broker: Broker, epoch: Epoch) -> None:
        """A master begins its epoch, once."""
        assert self._begun.setdefault(epoch, broker.incarnation) == broker.incarnation, "one process per epoch"

    def on_committed(self, broker: Broker, log: list[Entry]) -> None:
        """Records are acknowledged: they may never be lost, and come after what was acknowledged before."""
        assert log[: len(self.committed)] == self.committed, f"{broker.name} acknowledges another history"
        self.committed = list(log)

    def on_truncate(self, broker: Broker, gone: list[Entry]) -> None:
        """R4: what was acknowledged is not cut, except where a lost volume already lost it."""
        lost = set(gone) & set(self.committed)
        assert not lost, f"{broker.name} cuts committed records {sorted(lost)[:3]}"

    def on_wipe(self, broker: Broker) -> None:
        """A volume is lost: its records live on elsewhere, or an operator will have to decide."""
        self.world.note(broker.name, "loses its volume")

    def check_calm(self) -> None:
        """Without faults a group has a master, unless only an operator could make one."""
        machines = [controller.machine for controller in self.world.controllers.values()]
        group = max(machines, key=lambda machine: sum(each.epoch for each in machine)).group(KEY)
        assert group is not None
        assert group.founded, "nobody founded the group"
        at_risk = not any(self._can_lead(broker_id) for broker_id in (*group.sync.members, *group.sync.eligible))
        assert at_risk or self.world.now_us - self.led_us < 4_000_000, f"nobody leads: {group}"

    def _can_lead(self, broker_id: int) -> bool:
        return self.world.brokers[f"b{broker_id}"].registration != 0
