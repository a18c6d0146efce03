"""One simulated broker process with its guardian: it registers, heartbeats, holds a lease, and leads while it may."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from logherd.controller.admission import admit_register
from logherd.controller.commands import Command, Register, Release
from logherd.controller.holder import LeaseHolder
from logherd.controller.office import Office
from logherd.controller.reports import Granted, Report, RoleView, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch
from sim.leases.duty import WORK_US, Duty
from sim.leases.process import Process
from sim.leases.volume import Volume

if TYPE_CHECKING:
    from sim.leases.controller import Controller
    from sim.leases.world import World

__all__ = ["Broker"]

BEAT_US = 200_000
Back = Callable[[object], None]


class Broker(Process):
    """A process under an id. A twin is a second living process with the same id."""

    def __init__(self, world: "World", key: GroupKey, name: str, number: int, *, learner: bool = False) -> None:
        super().__init__(world, name)
        self.key = key
        self.id = BrokerId(number)
        self.learner = learner
        self.address = name
        self.volumes = 0
        self.full = self.sick = False
        self.exits: list[Release] = []
        self.new_volume()
        self.started()

    def new_volume(self) -> None:
        """An empty disk."""
        self.volumes += 1
        self.volume = Volume(f"{self.name}.s{self.volumes}")
        self.trusted = True

    def started(self) -> None:
        """A new incarnation, fenced."""
        self.incarnation = f"{self.name}.{self.life}.{self.volumes}"
        self.registration = Registration(0)
        self.holder = LeaseHolder()
        self.granted = False
        self.beats = self.answered = 0
        self.sick = False
        self.view: RoleView | None = None
        self.known_at = 0
        """When the controllers' view changed last here."""
        self.duty = Duty(self)
        self._target = self.draw.choice(list(self.world.controllers))
        self.soon(self.draw.randrange(BEAT_US), self._beat)
        self.soon(self.draw.randrange(WORK_US), self._work)

    # ---- its end -----------------------------------------------------------------------------------------------

    def ended(self) -> None:
        """The guardian may see the exit and report it: at once, or late, or again and again."""
        command = self._release(exited=True)
        self.exits.append(command)
        chance = self.draw.random()
        if chance < 0.6:
            wait = 0 if chance < 0.4 else self.draw.randrange(5_000_000)
            self.world.after(wait, lambda: self.report_exit(command, 4))

    def report_exit(self, command: Release, tries: int) -> None:
        """The guardian lives on: it asks one controller after another."""
        if tries == 0:
            return
        name = self.draw.choice(list(self.world.controllers))
        at = self.world.controllers[name]
        self.world.net.send(self.name, name, lambda: at.soon(0, lambda: at.propose(command, lambda verdict: None)))
        again = self.draw.choice((150_000, 150_000, 3_000_000))
        self.world.after(again, lambda: self.report_exit(command, tries - 1))

    def _release(self, *, exited: bool) -> Release:
        return Release(
            group=self.key, broker_id=self.id, store_id=self.volume.store_id, incarnation=self.incarnation,
            exited=exited, committed=self.volume.point(self.volume.committed),
            epoch=UNSET if exited else self.holder.resigned,
        )  # fmt: skip

    def resign(self, epoch: Epoch) -> None:
        """Let go of the leadership, first here, then at the controllers."""
        self.holder.resign(epoch)
        self.world.observer.on_resigned(self, epoch)
        self.submit(self._release(exited=False))

    def believes(self) -> Epoch | None:
        """The epoch in which this process holds itself for the master now, paused or not."""
        return self.holder.epoch_at(self.now_ms()) if self.alive else None

    # ---- talking to controllers --------------------------------------------------------------------------------

    def ask(self, work: "Callable[[Controller, Office, Back], None]", done: Back) -> None:
        """Send a request to the controller that is held for the leader; no answer means another one next time."""
        at, life = self.world.controllers[self._target], self.life
        if self.draw.random() < 0.05:
            # A connection that is lost, or nothing heard for a while.
            self._target = self.draw.choice(list(self.world.controllers))

        def back(answer: object) -> None:
            if answer is None:
                hint = at.leader_hint if at.active else ""
                self._target = hint or self.draw.choice(list(self.world.controllers))
            elif self.life == life and self.alive:
                self.world.net.send(at.name, self.name, lambda: self._take(life, lambda: done(answer)))

        def arrive() -> None:
            if at.alive and at.office is not None:
                work(at, at.office, back)
            else:
                back(None)

        self.world.net.send(self.name, at.name, lambda: at.soon(0, arrive) if at.alive else back(None))

    def submit(self, command: Command) -> None:
        """Have a command decided; whether it was shows in the next view."""
        self.ask(lambda at, office, back: at.propose(command, back), lambda answer: None)  # type: ignore[arg-type]

    def _take(self, life: int, action: Callable[[], None]) -> None:
        if self.life == life and self.alive:
            self.soon(0, action)

    def _beat(self) -> None:
        if self.registration == 0:
            self._register()
        else:
            self._heartbeat()
        self.soon(BEAT_US, self._beat)

    def _register(self) -> None:
        founders = self.world.shape.brokers
        command = Register(
            group=self.key, broker_id=self.id, store_id=self.volume.store_id, incarnation=self.incarnation,
            address=self.address, end=self.volume.end, epoch_seen=Epoch(self.volume.epoch_seen), trusted=self.trusted,
            learner=self.learner,
            rules=Rules(replicas=founders, min_in_sync=min(self.world.shape.min_in_sync, founders)),
        )  # fmt: skip

        def work(at: "Controller", office: Office, back: Back) -> None:
            admitted = admit_register(office, command, at.now_ms())
            if isinstance(admitted, Refusal):
                at.marks.hit("id-taken")
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        self.ask(work, self._registered)

    def _registered(self, answer: object) -> None:
        if isinstance(answer, Verdict) and answer.refusal is None and answer.group is not None:
            replica = answer.group.replica(self.id)
            if replica is not None and replica.incarnation == self.incarnation:
                self.registration = replica.registration
                self.trusted = True

    def report(self) -> Report:
        """What it would tell the controllers now."""
        volume, led = self.volume, self.view is not None and self.view.master is not None
        return Report(
            group=self.key, broker_id=self.id, registration=self.registration, address=self.address, end=volume.end,
            committed=volume.point(volume.committed), resigned=self.holder.resigned, healthy=not self.sick,
            space=not self.full, number=self.beats, answered=self.answered,
            epoch_ends=() if led else volume.epoch_ends,
        )  # fmt: skip

    def _heartbeat(self) -> None:
        self.beats += 1
        sent, report = self.now_ms(), self.report()
        who = (self.name, self.life)
        answered_by: list[Office] = []

        def work(at: "Controller", office: Office, back: Back) -> None:
            # A connection brings nothing twice: of a copy of what one office has answered no other one hears.
            if not answered_by or office in answered_by:
                at.hear_beat(report, who, sent, lambda answer: answered(office, answer, back))

        def answered(office: Office, answer: object, back: Back) -> None:
            if answer is not None:
                answered_by.append(office)
            back(answer)

        def heard(answer: object) -> None:
            self.answered = max(self.answered, report.number)
            self._hear(answer, sent)

        self.ask(work, heard)

    def _hear(self, answer: object, sent: int) -> None:
        view = answer.view if isinstance(answer, (Granted, Withheld)) else None
        if view is not None and self._is_forgotten(view, sent):
            self._begin_again()
            return
        if isinstance(answer, Granted):
            self.granted = True
            self.world.marks.hit_if("old-grant", sent + answer.holder_ms <= self.now_ms())
            self.holder.granted(answer, sent=sent)
            self.duty.handing_over = answer.hand_over
        elif isinstance(answer, Withheld) and answer.view is None:
            self.registration = Registration(0)
        if view is not None and (
            self.view is None or (view.epoch, view.version) >= (self.view.epoch, self.view.version)
        ):
            if self.view is None or (view.epoch, view.version) > (self.view.epoch, self.view.version):
                self.known_at = self.now_ms()
            self.view = view
            self.duty.learn(view)

    def _is_forgotten(self, view: RoleView, sent: int) -> bool:
        """As `Liaison` finds out that the controllers have lost what they decided."""
        known = self.view
        older = known is not None and (view.epoch, view.version) < (known.epoch, known.version)
        return older and sent > self.known_at

    def _begin_again(self) -> None:
        """What they say from now on is the latest, but for the epoch."""
        assert self.view is not None
        self.volume.epoch_seen = max(self.volume.epoch_seen, self.view.epoch)
        self.holder.resign(self.view.epoch)
        self.registration, self.view = Registration(0), None

    def _work(self) -> None:
        epoch, view = self.holder.epoch_at(self.now_ms()), self.view
        if epoch is not None and view is not None and view.epoch == epoch and view.master == self.id:
            if self.sick:
                self.resign(epoch)
            else:
                self.duty.work(epoch, view)
        self.soon(WORK_US, self._work)
