"""Where the observer sees that a rare state was reached. Checks nothing."""

from typing import TYPE_CHECKING

from logherd.controller.commands import (
    AlterSyncSet,
    CancelTransfer,
    Clean,
    Command,
    Configure,
    Elect,
    Grounds,
    Move,
    PlanTransfer,
    Register,
    Release,
    SetLearner,
    Tune,
)
from logherd.controller.reports import Granted, Report, Withheld
from logherd.controller.values import Group, GroupKey
from logherd.controller.verdicts import MasterEnded, Refusal, Registered, Verdict
from sim.leases.fate import Fate
from sim.leases.marks import Marks

if TYPE_CHECKING:
    from sim.leases.controller import Controller
    from sim.leases.world import World

__all__ = ["Signs"]

_GROUNDS = {
    Grounds.LEASE_OVER: "lease-waited-out",
    Grounds.RELEASED: "released",
    Grounds.DOUBTED: "doubted",
    Grounds.OUTRUN: "outrun",
    Grounds.UNCLEAN: "unclean",
    Grounds.FIRST_BY_OPERATOR: "first-by-operator",
}


class Signs:
    """`on_decided` sees every command once, in the order of the log, whatever came of it."""

    def __init__(self, world: "World", marks: Marks) -> None:
        self._world = world
        self._marks = marks
        self._newest: dict[tuple[str, str, int], int] = {}

    # ---- controllers -------------------------------------------------------------------------------------------

    def on_office(self, controller: "Controller") -> None:
        """A controller begins to lead: it has heard nothing yet."""
        self._newest = {place: sent for place, sent in self._newest.items() if place[0] != controller.name}
        offices = [each for each in self._world.controllers.values() if each.office is not None and each.alive]
        self._marks.hit_if("two-offices", len(offices) > 1)
        self._marks.hit_if("leader-lost-transferring", any(group.transfer for group in controller.machine))

    def on_office_left(self, pending: list[Command]) -> None:
        """A controller leads no more."""
        self._marks.hit_if("leader-lost-electing", any(isinstance(each, Elect) for each in pending))
        self._marks.hit_if("leader-lost-altering", any(isinstance(each, AlterSyncSet) for each in pending))

    # ---- heartbeats --------------------------------------------------------------------------------------------

    def is_late(self, controller: "Controller", who: tuple[str, int], sent: int) -> bool:
        """Whether a later heartbeat of the same process came before this one."""
        place = (controller.name, *who)
        newest = self._newest.get(place)
        self._marks.hit_if("beat-twice", newest == sent)
        self._marks.hit_if("beat-late", newest is not None and newest > sent)
        if newest is None or newest < sent:
            self._newest[place] = sent
            return False
        return True

    def on_renewed(self, answer: Granted | Withheld) -> None:
        """A heartbeat is answered."""
        if isinstance(answer, Withheld):
            self._marks.hit_if("withheld-electing", answer.refusal is Refusal.RUNNING)
            self._marks.hit_if("resigned-refused", answer.refusal is Refusal.RESIGNED)

    def on_chosen(self, command: Elect, heard: dict[tuple[GroupKey, int, int], Report]) -> None:
        """An office proposes somebody."""
        others = [each for each in heard.values() if each.group == command.group]
        process = (command.broker_id, command.registration)
        (chosen,) = [each for each in others if (each.broker_id, each.registration) == process]
        alive = [each for each in others if each.broker_id in command.alive]
        self._marks.hit_if("no-space-passed-over", any(not each.space for each in alive))
        self._marks.hit_if("led-without-space", not chosen.space)
        shorter = [each for each in alive if each.end < chosen.end]
        self._marks.hit_if("longest-of-many", shorter and min(command.alive, default=0) != command.broker_id)

    # ---- decisions ---------------------------------------------------------------------------------------------

    def on_decided(self, controller: "Controller", command: Command, verdict: Verdict) -> None:
        """The verdict on a command, refused or not."""
        refusal = verdict.refusal
        if isinstance(command, Tune):
            self._marks.hit("tune-refused" if refusal else "tuned")
        elif refusal is None:
            return
        elif isinstance(command, AlterSyncSet):
            self._marks.hit_refusal("alter", refusal)
        elif isinstance(command, Elect):
            self._marks.hit_refusal("elect", refusal)
        elif isinstance(command, Release):
            self._marks.hit_if("release-stale", refusal is Refusal.FENCED_PROCESS)
        elif isinstance(command, SetLearner):
            self._marks.hit_if("demote-refused", refusal in (Refusal.BELOW_MINIMUM, Refusal.IN_SYNC))
        elif isinstance(command, Clean):
            self._marks.hit_if("forget-refused", refusal is Refusal.IN_SYNC)

    def on_group(self, fate: Fate, before: Group | None, command: Command, verdict: Verdict) -> None:
        """A command has been accepted; `fate` knows the group as it is now, `before` as it was."""
        group, hit_if = fate.group, self._marks.hit_if
        assert group is not None
        if isinstance(command, Elect) and before is not None and group.epoch > before.epoch:
            self._on_elected(fate, before, command)
        elif isinstance(command, Register):
            self._on_registered(fate, before, command, verdict)
        elif isinstance(command, Release):
            self._on_released(before, command, verdict)
        elif isinstance(command, AlterSyncSet) and before is not None:
            self._on_altered(fate, before, group)
        elif isinstance(command, PlanTransfer):
            hit_if("transfer-planned", verdict.events)
            hit_if("transfer-preferred", verdict.events and command.request.startswith("prefer "))
        elif isinstance(command, CancelTransfer):
            self._marks.hit("transfer-cancelled")
        elif isinstance(command, SetLearner):
            hit_if("demoted", command.learner)
        elif isinstance(command, Configure) and before is not None:
            hit_if("rules-changed", before.rules.min_in_sync != group.rules.min_in_sync)
        elif isinstance(command, Clean):
            self._marks.hit("forgotten" if command.broker_ids else "dissolved")
        elif isinstance(command, Move):
            self._marks.hit("moved")
        hit_if("at-risk", group.founded and not group.sync.holders)

    def _on_elected(self, fate: Fate, before: Group, command: Elect) -> None:
        hit_if, grounds = self._marks.hit_if, command.grounds
        hit_if(_GROUNDS.get(grounds, ""), grounds in _GROUNDS)
        hit_if("transfer-done", before.transfer is not None and before.transfer.target == command.broker_id)
        hit_if("elected-eligible", command.broker_id in before.sync.eligible)
        deposed = [each for each in fate.processes if before.tenure and each.incarnation == before.tenure.incarnation]
        asleep = [each for each in deposed if each.alive and not each.active]
        hit_if("woke-deposed", asleep)
        if grounds is Grounds.LEASE_OVER and deposed:
            bound = self._world.terms.bound_ppm
            fast = any(self._world.rate_of(name) == bound for name, c in self._world.controllers.items() if c.office)
            hit_if("slow-master", fast and self._world.rate_of(deposed[0].name) == -bound)

    def _on_registered(self, fate: Fate, before: Group | None, command: Register, verdict: Verdict) -> None:
        hit_if = self._marks.hit_if
        events = [event for event in verdict.events if isinstance(event, Registered)]
        hit_if("lost-store", any(event.lost for event in events))
        hit_if("learner", events and command.learner)
        hit_if("bounced", any(isinstance(event, MasterEnded) and not event.released for event in verdict.events))
        found = before.replica(command.broker_id) if before is not None else None
        others = [each for each in fate.processes if found and each.alive and each.incarnation == found.incarnation]
        hit_if("twin-registered", found and found.store_id not in ("", command.store_id) and others)

    def _on_released(self, before: Group | None, command: Release, verdict: Verdict) -> None:
        ended = any(isinstance(event, MasterEnded) for event in verdict.events)
        tenure = before.tenure if before is not None else None
        known = tenure is not None and tenure.incarnation == command.incarnation
        self._marks.hit_if("guardian-release", ended and command.exited)
        self._marks.hit_if("release-late", command.exited and not ended and (not known or (tenure and tenure.ended)))

    def _on_altered(self, fate: Fate, before: Group, group: Group) -> None:
        hit_if = self._marks.hit_if
        old, new = set(before.sync.members), set(group.sync.members)
        hit_if("alter-repeated", before.sync.version == group.sync.version)
        hit_if("alter-withdrawn", before.sync.version < group.sync.version and old == new)
        hit_if("grown", new - old)
        hit_if("promoted", any(fate.was_learner(each) for each in new - old))
        if old - new:
            self._marks.hit("shrunk")
            master = fate.process_of(group.master)
            hit_if("shrunk-while-pending", master and len(master.volume.log) > len(fate.committed))
            hit_if("below-minimum", group.sync.eligible)
