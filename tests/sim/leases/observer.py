"""Sees everything, and checks after every event what must hold whatever happens.

See `fate` for the rules of one group. Of the controllers: C1 one leader per term; C5 equal logs give equal states, an
image is as good as the log; C6 no decision that was answered is missing at a later leader; C7 an answer is never older
than what was decided before the question; H4 nobody is chosen who said that it is sick, or that it has no space while
another one has, or none even to lead; R10 an election is proposed from fresh reports; H17 clients are not sent to a
master whose successor leads.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logherd.controller.commands import Command, Elect, Grounds, Release
from logherd.controller.machine import Machine
from logherd.controller.reports import Granted, Report, Withheld
from logherd.controller.values import Group, GroupKey
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch, Position
from sim.leases.fate import Fate, Violation, require
from sim.leases.marks import Marks
from sim.leases.signs import Signs
from sim.leases.words import say_command, say_verdict

if TYPE_CHECKING:
    from sim.leases.broker import Broker
    from sim.leases.controller import Controller
    from sim.leases.volume import Entry
    from sim.leases.world import World

__all__ = ["Known", "Observer"]


@dataclass(frozen=True, slots=True)
class Known:
    """What was decided at a moment, and by which leaders."""

    decided_in: dict[int, Position]
    end: Position
    leaders: dict[int, str]
    groups: dict[GroupKey, Group | None]


class Observer:
    """One for a run. Its memory is its own: nothing that a simulated process forgets is forgotten here."""

    def __init__(self, world: "World", keys: list[GroupKey]) -> None:
        self.world = world
        self.marks = Marks()
        self.signs = Signs(world, self.marks)
        self.fates = {key: Fate(key) for key in keys}
        self._watched = tuple(self.fates.values())
        self._decided_in: dict[int, Position] = {}
        """The end of the latest command whose verdict the leader of a term has told anybody."""
        self._numbers = 0
        self._ends: list[Position] = []
        self._images: dict[Position, bytes] = {}
        self._leaders: dict[int, str] = {}
        self._heard: dict[str, dict[tuple[GroupKey, int, int], Report]] = {}

    @property
    def decided(self) -> Position:
        """The end of the latest command whose verdict a controller has told anybody."""
        return max(self._decided_in.values(), default=Position(0))

    def new_entry(self, epoch: Epoch) -> "Entry":
        """A record that never was."""
        self._numbers += 1
        return (epoch, self._numbers)

    def known(self) -> Known:
        """What is decided now; a majority of the controllers has it on their disks."""
        groups = {key: fate.group for key, fate in self.fates.items()}
        return Known(dict(self._decided_in), self._ends[-1] if self._ends else Position(0), dict(self._leaders), groups)

    def forget(self, known: Known, at_us: int) -> None:
        """All controllers go on from this."""
        self._decided_in, self._leaders = dict(known.decided_in), dict(known.leaders)
        self._ends = [end for end in self._ends if end <= known.end]
        self._images = {end: image for end, image in self._images.items() if end <= known.end}
        for key, group in known.groups.items():
            self.fates[key].on_restored(group, at_us, self.world.now_us)

    def check(self) -> None:
        """After every event."""
        now = self.world.now_us
        for fate in self._watched:
            fate.check(now)

    # ---- controllers -------------------------------------------------------------------------------------------

    def on_leader(self, controller: "Controller", term: int) -> None:
        """C1."""
        leader = self._leaders.setdefault(term, controller.name)
        require(leader == controller.name, "C1", f"{leader} and {controller.name} lead term {term}")

    def on_office(self, controller: "Controller", term: int) -> None:
        """C6: a leader that may serve knows every decision that anybody was told of, up to its term.

        Who has slept finds at waking the acknowledgements that let it serve, though a later term has begun meanwhile:
        what was decided in that one it need not know, because it decides nothing.
        """
        found = controller.position
        told = max((end for each, end in self._decided_in.items() if each <= term), default=0)
        require(found >= told, "C6", f"{controller.name} leads term {term} from {found}, {told} was answered")
        self._heard[controller.name] = {}
        self.signs.on_office(controller)

    def on_office_left(self, controller: "Controller", pending: list[Command]) -> None:
        """A controller leads no more; what it had proposed may be decided, or never will."""
        self.signs.on_office_left(pending)

    def on_answered(self, end: Position, term: int) -> None:
        """Somebody is told by the leader of this term that a command was decided."""
        self._decided_in[term] = max(self._decided_in.get(term, end), end)

    def on_read(self, controller: "Controller", decided: Position) -> None:
        """C7."""
        if controller.position < decided:
            raise Violation(f"C7: {controller.name} answers from {controller.position}, {decided} was answered before")

    def on_state(self, controller: "Controller") -> None:
        """C5: an image is as good as the log."""
        known = self._images.get(controller.position)
        require(known in (None, controller.machine.save()), "C5", f"{controller.name} starts from another state")

    def on_applied(self, controller: "Controller", before: Position, command: Command, verdict: Verdict) -> None:
        """C5: the same command at the same place gives the same state everywhere, and no controller leaves one out."""
        end, image = controller.position, controller.machine.save()
        if end in self._images:
            require(self._images[end] == image, "C5", f"{controller.name} differs at {end}")
            between = bisect_left(self._ends, end) - bisect_right(self._ends, before)
            require(between == 0, "C6", f"{controller.name} leaves out commands between {before} and {end}")
            return
        newest = self._ends[-1] if self._ends else 0
        require(newest <= before < end, "C6", f"{controller.name} applies {end} first, after {before} of {newest}")
        self._images[end] = image
        self._ends.append(end)
        require(Machine.load(image).save() == image, "C5", "an image is read as another state")
        self.world.note("-", f"{say_command(command)}: {say_verdict(verdict)}")
        group = verdict.group
        self.signs.on_decided(controller, command, verdict)
        if group is not None and group.key in self.fates and verdict.refusal is None:
            fate = self.fates[group.key]
            known = fate.group
            fate.on_group(group, command, self.world.now_us)
            self.signs.on_group(fate, known, command, verdict)

    # ---- what a leading controller hears and says --------------------------------------------------------------

    def on_heard(self, controller: "Controller", report: Report, who: tuple[str, int], sent: int) -> None:
        """A heartbeat has arrived; a later one that arrived before it counts."""
        if self.signs.is_late(controller, who, sent):
            return
        self._heard[controller.name][report.group, report.broker_id, report.registration] = report

    def on_renewed(self, controller: "Controller", report: Report, answer: Granted | Withheld) -> None:
        """L4: whoever has said here that it resigned is not granted that epoch, whatever arrives late."""
        self.signs.on_renewed(answer)
        heard = self._heard[controller.name].get((report.group, report.broker_id, report.registration), report)
        if isinstance(answer, Granted):
            epoch, resigned = answer.view.epoch, heard.resigned
            require(epoch > resigned, "L4", f"{controller.name} grants b{report.broker_id} epoch {epoch}, resigned")

    def on_tick(self, controller: "Controller") -> None:
        """H17: nobody sends clients to a master while another one leads in a later epoch."""
        office, now = controller.office, controller.now_ms()
        for fate in self.fates.values():
            group = controller.machine.group(fate.key)
            named = office.serving(group, now) if office is not None and group is not None else None
            if named is None or group is None or fate.doubt.standing:
                continue
            for broker in fate.believers():
                epoch = broker.believes()
                wrong = epoch is not None and epoch > group.epoch and broker.incarnation != named.incarnation
                require(not wrong, "H17", f"{controller.name} names b{named.broker_id}, {broker.name} leads {epoch}")

    def on_proposed(self, controller: "Controller", command: Command) -> None:
        """H4, R10: what the office proposes by itself is chosen from what it has heard."""
        self.marks.hit_if("release-made-up", isinstance(command, Release))
        if isinstance(command, Elect):
            heard = self._heard[controller.name].get((command.group, command.broker_id, command.registration))
            require(heard is not None, "R10", f"{controller.name} elects b{command.broker_id}, of which it never heard")
            fit = heard is not None and heard.barrier and heard.healthy
            require(fit, "H4", f"{controller.name} elects b{command.broker_id}, whose store cannot take writes")
            spacious = self._spacious(controller, command) if heard is not None and not heard.space else []
            require(not spacious, "H4", f"{controller.name} elects b{command.broker_id}, and {spacious} have space")
            self.signs.on_chosen(command, self._heard[controller.name])

    def _spacious(self, controller: "Controller", command: Elect) -> list[int]:
        """Who else could have been elected in this election, and has space; not of one in which the longest log must
        lead."""
        group = controller.machine.group(command.group)
        if group is None or command.grounds not in (Grounds.LEASE_OVER, Grounds.RELEASED):
            return []
        last = group.tenure.registration if group.tenure is not None else 0
        replicas = [each for each in map(group.replica, command.alive) if each is not None]
        heard = self._heard[controller.name]
        found = [heard.get((group.key, each.broker_id, each.registration)) for each in replicas]
        return [
            each.broker_id for each in found
            if each is not None and each.space and each.healthy and each.registration != last
        ]  # fmt: skip

    # ---- brokers -----------------------------------------------------------------------------------------------

    def fate_of(self, broker: "Broker") -> Fate:
        """What is known of a broker's group."""
        return self.fates[broker.key]

    def on_begin(self, broker: "Broker", epoch: Epoch) -> None:
        """A master begins its epoch."""
        self.world.note(broker.name, f"begins epoch {epoch} after {len(broker.volume.log)} records")
        self.fate_of(broker).on_begin(broker, epoch)

    def on_committed(self, broker: "Broker", log: list["Entry"]) -> None:
        """Records are acknowledged to whoever wrote them."""
        self.fate_of(broker).on_committed(broker, log)

    def on_truncate(self, broker: "Broker", at: int) -> None:
        """A follower cuts its log."""
        self.world.note(broker.name, f"cuts its log from {len(broker.volume.log)} to {at} records")
        self.fate_of(broker).on_truncate(broker, at)

    def on_resigned(self, broker: "Broker", epoch: Epoch) -> None:
        """A master lets go."""
        self.world.note(broker.name, f"resigns epoch {epoch}")
        self.marks.hit("resigned-sick" if broker.sick else "resigned")
        self.fate_of(broker).on_resigned(broker, epoch)

    def group(self, key: GroupKey) -> Group | None:
        """A group as it is decided."""
        return self.fates[key].group
