"""What a master does while its lease runs: write, copy to followers, acknowledge, keep the in-sync set, hand over.

The data plane is the smallest that R1-R11 speak of: followers refuse lower epochs, acknowledge what they have flushed,
and a record is committed when every member of the committed and the pending in-sync set has it, and enough are in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logherd.controller.admission import admit_sync_set
from logherd.controller.commands import AlterSyncSet, SyncMember
from logherd.controller.office import Office
from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN

if TYPE_CHECKING:
    from sim.leases.broker import Broker
    from sim.leases.controller import Controller

__all__ = ["WORK_US", "Duty"]

WORK_US = 40_000
LAG_MS = 400
LINK_MS = 1_000


@dataclass(frozen=True, slots=True)
class _Ack:
    """What one process has acknowledged, and when, by the master's clock."""

    name: str
    registration: Registration
    count: int
    at: int


class Duty:
    """One per life of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._world = broker.world
        self.led = Epoch(0)
        self.handing_over: BrokerId | None = None
        self._began_at = 0
        self._sent: list[AlterSyncSet] = []
        """Proposals at the present version that may have been, or may yet be, accepted; the last one is wanted."""
        self._acked: dict[BrokerId, _Ack] = {}
        self.history: list[AlterSyncSet] = []

    def work(self, epoch: Epoch, view: RoleView) -> None:
        """A moment of a master's life; its lease has just been looked at."""
        broker = self._broker
        if view.master_registration != broker.registration:
            return
        if epoch > self.led:
            self._begin(epoch)
        elif self.handing_over is None and not broker.full:
            log, observer = broker.volume.log, self._world.observer
            for _ in range(broker.draw.randrange(3)):
                log.append(observer.new_entry(epoch))
        self._replicate(epoch)
        self._advance(view)
        self._mind_the_set(epoch, view)
        self._hand_over(epoch)

    def learn(self, view: RoleView) -> None:
        """The controllers' view has changed, or not."""
        age = (view.epoch, view.version)
        self._sent = [command for command in self._sent if (command.epoch, command.version) >= age]

    def _begin(self, epoch: Epoch) -> None:
        """The barrier of the epoch (R13); a full disk keeps a reserve for it (H4)."""
        broker = self._broker
        self.led, self._sent, self._acked = epoch, [], {}
        volume = broker.volume
        volume.epoch_seen = max(volume.epoch_seen, epoch)
        self._world.observer.on_begin(broker, epoch)
        volume.log.append(self._world.observer.new_entry(epoch))
        self._began_at = len(volume.log)

    # ---- copying -----------------------------------------------------------------------------------------------

    def _replicate(self, epoch: Epoch) -> None:
        """Copy to whoever can be reached both ways; followers dictate by the highest epoch they have seen (D)."""
        me, now = self._broker, self._broker.now_ms()
        for other in self._world.group(me.key):
            if other is me or not other.active or other.registration == 0 or other.id == me.id:
                continue
            if other.volume.epoch_seen > epoch:
                continue
            if not (self._world.net.carries(me.name, other.name) and self._world.net.carries(other.name, me.name)):
                continue
            known = self._acked.get(other.id)
            if known is not None and known.name != other.name and now - known.at < LINK_MS:
                # Two processes of one name: the second is refused while the first one's link lives.
                continue
            self._copy_to(other, epoch)
            self._acked[other.id] = _Ack(other.name, other.registration, len(other.volume.log), now)

    def _copy_to(self, other: "Broker", epoch: Epoch) -> None:
        """The follower cuts what the master does not have, and copies some of what is missing, if it has space."""
        theirs, mine = other.volume, self._broker.volume
        theirs.epoch_seen = epoch
        same = theirs.same_as(mine.log)
        if same < len(theirs.log):
            self._world.observer.on_truncate(other, same)
            theirs.cut(same)
        if not other.full:
            theirs.log += mine.log[same : same + other.draw.randrange(1, 40)]
        theirs.committed = max(theirs.committed, min(mine.committed, len(theirs.log)))

    # ---- acknowledging -----------------------------------------------------------------------------------------

    def _advance(self, view: RoleView) -> None:
        """R6: committed is what everybody of the committed and the pending set has, if enough are in it."""
        volume = self._broker.volume
        if len(view.members) < view.min_in_sync:
            return
        reached = len(volume.log)
        for each, process in self._needed(view).items():
            if each != self._broker.id:
                reached = min(reached, self._count_of(each, process))
        # Of one's own epoch only: the barrier first.
        if reached > volume.committed and volume.log[reached - 1][0] == self.led:
            volume.committed = reached
            self._world.observer.on_committed(self._broker, volume.log[:reached])

    def _count_of(self, each: BrokerId, process: Registration) -> int:
        """What a member has acknowledged: an earlier process of its id may have had another store."""
        known = self._acked.get(each)
        if known is None or known.registration < process:
            self._world.marks.hit_if("not-counted", known)
            return 0
        return known.count

    def _needed(self, view: RoleView) -> dict[BrokerId, Registration]:
        """Whose acknowledgement counts: the set that is known, and all that may have been decided since."""
        needed = dict(zip(view.members, view.processes, strict=True))
        for command in self._sent:
            for member in command.members:
                needed[member.broker_id] = max(member.registration, needed.get(member.broker_id, Registration(0)))
        return needed

    # ---- the in-sync set ---------------------------------------------------------------------------------------

    def _mind_the_set(self, epoch: Epoch, view: RoleView) -> None:
        """One proposal at a time, sent until its outcome is known, made anew when something else is wanted (R9)."""
        wanted = self._wanted(view)
        latest = self._sent[-1] if self._sent else None
        if latest is None and wanted == view.members:
            return
        proposal = self._proposal(epoch, view, wanted)
        if latest is None or _processes(latest) != _processes(proposal):
            latest = proposal
            self._sent.append(latest)
            self.history.append(latest)
        elif self._broker.draw.random() > 0.2:
            return
        self.propose(latest)

    def propose(self, command: AlterSyncSet) -> None:
        """Send a proposal, perhaps not for the first time: a refusal says nothing of what became of it before, so only
        a later view ends it (`learn`)."""

        def work(at: "Controller", office: Office, back: Callable[[object], None]) -> None:
            admitted = admit_sync_set(office, command, at.now_ms())
            if isinstance(admitted, Refusal):
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        self._broker.ask(work, lambda answer: None)

    def _wanted(self, view: RoleView) -> tuple[BrokerId, ...]:
        """Who should be in sync: members that have been heard lately, and whoever has caught up."""
        me, now = self._broker, self._broker.now_ms()
        recent = {each for each, ack in self._acked.items() if now - ack.at < LAG_MS}
        floor = max(me.volume.committed, self._began_at)
        caught_up = {each for each in recent if self._acked[each].count >= floor}
        return tuple(sorted({me.id, *((set(view.members) & recent) | (caught_up - set(view.learners)))}))

    def _proposal(self, epoch: Epoch, view: RoleView, wanted: tuple[BrokerId, ...]) -> AlterSyncSet:
        me, volume = self._broker, self._broker.volume
        members = []
        for each in wanted:
            ack = self._acked.get(each)
            number, end = (ack.registration, volume.point(ack.count)) if ack is not None else (Registration(0), ORIGIN)
            members.append(SyncMember(broker_id=each, registration=number, end=end))
        return AlterSyncSet(
            group=me.key, broker_id=me.id, registration=me.registration, epoch=epoch, version=view.version,
            members=tuple(members), committed=volume.point(volume.committed), min_in_sync=view.min_in_sync,
            request=f"{me.incarnation}/{view.epoch}/{view.version}/{me.world.now_us}",
        )  # fmt: skip

    def _hand_over(self, epoch: Epoch) -> None:
        target = self.handing_over
        if target is None:
            return
        known = self._acked.get(target)
        if known is not None and known.count == len(self._broker.volume.log):
            self._broker.resign(epoch)


def _processes(command: AlterSyncSet) -> list[tuple[BrokerId, Registration]]:
    return [(member.broker_id, member.registration) for member in command.members]
