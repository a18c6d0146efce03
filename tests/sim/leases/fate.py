"""What the observer remembers of one group: leaders, epochs, what was acknowledged, who resigned."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logherd.controller.commands import Clean, Elect, Grounds
from logherd.controller.values import BrokerId, Group, GroupKey, Replica, SyncSet
from logherd.model.names import Epoch
from sim.leases.doubt import Doubt, Forgiven
from sim.leases.volume import Entry

if TYPE_CHECKING:
    from sim.leases.broker import Broker

__all__ = ["Fate", "Violation", "require"]


class Violation(AssertionError):
    """An invariant does not hold. The text begins with its id."""


def require(held: object, rule: str, *found: object) -> None:
    """Stop the run when a rule is broken."""
    if not held:
        raise Violation(": ".join(str(each) for each in (rule, *found)))


class Fate:
    """L1 one lease at a time; L2 epochs rise, one process each; L3 who is elected, or in the set, has all that was
    acknowledged; L4 who resigned leads no more in that epoch; R4 nothing acknowledged is cut.

    Acknowledged records may be lost only when everybody who had them went down before they had flushed them (of a
    store that may acknowledge so), or when an operator accepts it by an unclean election; or when those who had them
    lost them, or left, before a group that was forgotten as a whole was founded anew. What holds where the controllers
    have forgotten something, says `doubt`.
    """

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.processes: list[Broker] = []
        self.committed: list[Entry] = []
        self._former: list[list[Entry]] = []
        """What had been committed before each loss."""
        self.acknowledged = 0
        self.lost = 0
        self.led_us = 0
        self.elections = 0
        self.group: Group | None = None
        """As it is decided."""
        self.amnesty = False
        self.dissolved = False
        """Whether the group is forgotten, and none was founded since."""
        self.doubt = Doubt()
        self._begun: dict[int, str] = {}
        self._resigned: dict[str, Epoch] = {}

    # ---- leases ------------------------------------------------------------------------------------------------

    def was_learner(self, broker_id: int) -> bool:
        """Whether a broker began as a learner."""
        return any(broker.learner for broker in self.processes if broker.id == broker_id)

    def believers(self) -> list["Broker"]:
        """Who holds itself for the master at this moment of true time."""
        return [broker for broker in self.processes if broker.granted and broker.believes() is not None]

    def check(self, now_us: int) -> None:
        """L1, L4: at every step."""
        leading = None
        for broker in self.processes:
            if not broker.granted or (epoch := broker.believes()) is None:
                continue
            if leading is not None and not (self.doubt.standing and epoch != leading.believes()):
                raise Violation(f"L1: {broker.name} and {leading.name} both hold a lease")
            leading = broker
            if epoch <= self._resigned.get(broker.incarnation, 0):
                raise Violation(f"L4: {broker.name} leads epoch {epoch}, which it resigned")
        if leading is not None:
            self.led_us = now_us

    def on_resigned(self, broker: "Broker", epoch: Epoch) -> None:
        """A process lets go."""
        self._resigned[broker.incarnation] = max(epoch, self._resigned.get(broker.incarnation, Epoch(0)))

    def on_begin(self, broker: "Broker", epoch: Epoch) -> None:
        """L2, L3: a master begins its epoch, once, and has everything."""
        process = self._begun.setdefault(epoch, broker.incarnation)
        require(process == broker.incarnation, "L2", f"epoch {epoch} is begun by {process} and {broker.incarnation}")
        require(epoch == max(self._begun), "L2", f"{broker.name} begins epoch {epoch} after {max(self._begun)}")
        require(broker.volume.holds(self.committed), "L3", f"{broker.name} begins and lacks committed records")

    # ---- decisions ---------------------------------------------------------------------------------------------

    def on_restored(self, group: Group | None, at_us: int, now_us: int) -> None:
        """The controllers know what they knew at that time."""
        self.doubt.begin(lost=group != self.group, since_us=at_us, now_us=now_us)
        self.group = group

    def on_group(self, group: Group, command: object, now_us: int) -> None:
        """L2, L3, R5, R9: the group has changed."""
        before, self.group = self.group, group
        self.doubt.note(command, now_us)
        sync = group.sync
        old_epoch, old_version = (before.epoch, before.sync.version) if before is not None else (0, 0)
        require(group.epoch >= old_epoch, "L2", f"the epoch falls from {old_epoch} to {group.epoch}")
        require(sync.version >= old_version, "R9", f"the version falls from {old_version} to {sync.version}")
        if isinstance(command, Clean) and not command.broker_ids:
            self.dissolved = True
        changed = sync.members != (before.sync.members if before is not None else ())
        require(not changed or sync.version > old_version, "R9", f"another set in version {sync.version}")
        if isinstance(command, Elect) and group.tenure is not None and group.epoch > old_epoch:
            self._on_elected(command, group, before)
        if changed:
            self.check_set()

    def _on_elected(self, command: Elect, group: Group, before: Group | None) -> None:
        self.elections += 1
        self.doubt.settle(before, command)
        holding = [broker.name for broker in self.believers()]
        require(not holding, "L1", f"{holding} still believe in a lease when epoch {group.epoch} is given away")
        winner = self.process_of(group.replica(command.broker_id))
        if command.grounds is Grounds.DOUBTED and before is not None:
            self._check_doubted(before.sync, winner, {each: before.replica(each) for each in before.sync.doubted})
        ordered = command.grounds in (Grounds.OUTRUN, Grounds.FIRST_BY_OPERATOR) and command in self.doubt.accepted
        by_itself = command.grounds is Grounds.OUTRUN and not ordered
        refounded, self.dissolved = self.dissolved, False
        rest = (by_itself and self.doubt.more_lost) or (refounded and command.grounds is Grounds.FIRST)
        if rest and before is not None and winner is not None:
            self._check_rest(before, winner)
            self.accept_loss(winner)
            return
        given_up = refounded or command.grounds in (Grounds.DOUBTED, Grounds.UNCLEAN) or ordered
        if given_up or self.amnesty:
            self.accept_loss(winner)
        elif winner is not None:
            require(winner.volume.holds(self.committed), "L3", f"{winner.name} is elected and lacks committed records")

    def _check_rest(self, group: Group, winner: "Broker") -> None:
        """L3: what the winner lacks nobody has any more who is in the group. Whether anybody should, is not known: who
        was in sync is forgotten, and whose log was lost meanwhile."""
        most = winner.volume.same_as(self.committed)
        for replica in group.replicas:
            other = self.process_of(replica)
            more = other is not None and not replica.learner and other.volume.same_as(self.committed) > most
            require(not more, "L3", f"{winner.name} is elected, and broker {replica.broker_id} has more")

    def _check_doubted(
        self, sync: SyncSet, winner: "Broker | None", doubted: Mapping[BrokerId, Replica | None]
    ) -> None:  # fmt: skip
        """L3: nobody is left who has everything, and nobody who went down unflushed has more than the winner."""
        require(not sync.holders, "L3", f"{sync.holders} have everything, and somebody doubted is elected")
        for broker_id, replica in doubted.items():
            other = self.process_of(replica)
            if winner is not None and other is not None:
                more = other.volume.end > winner.volume.end
                require(not more, "L3", f"{winner.name} is elected, and broker {broker_id} has more")

    def accept_loss(self, winner: "Broker | None") -> None:
        """What the winner does not have is lost: an operator has accepted that, or nobody has it any more. What an
        earlier loss had left out and the winner still knows to be committed is so again."""
        self.amnesty = winner is None
        if winner is None:
            return
        volume = winner.volume
        kept = volume.same_as(self.committed)
        if kept < len(self.committed):
            self._former.append(list(self.committed))
        self.lost += len(self.committed) - kept
        self.committed[kept:] = volume.log[kept : max(kept, volume.committed)]

    def was_committed(self, log: list[Entry]) -> bool:
        """Whether all of this log is committed, or was so before a loss was accepted: who had heard of that believes it
        until a leader contradicts."""
        return any(
            len(log) <= len(history) and (not log or history[len(log) - 1] == log[-1])
            for history in (self.committed, *self._former)
        )

    def process_of(self, replica: Replica | None) -> "Broker | None":
        """The living process of a registration; None if it is gone, perhaps with its data."""
        if replica is None:
            return None
        for broker in self.processes:
            if broker.alive and broker.incarnation == replica.incarnation:
                return broker
        return None

    def check_set(self) -> None:
        """L3: whoever may be elected without loss has everything that was acknowledged."""
        group = self.group
        if group is None or self.amnesty or self.doubt.standing:
            return
        for broker_id in group.sync.holders:
            broker = self.process_of(group.replica(broker_id))
            if broker is not None:
                whole = broker.volume.holds(self.committed)
                require(whole, "L3", f"{broker.name} may be elected and lacks committed records")

    def on_committed(self, broker: "Broker", log: list[Entry]) -> None:
        """R1: records are acknowledged; they come after what was acknowledged before, and every member has them."""
        known = len(self.committed)
        same = known == 0 or (len(log) >= known and log[known - 1] == self.committed[-1])
        if self.amnesty:
            return
        later = max(self._begun, default=0) > log[-1][0]
        if self.doubt.standing and (later or not same):  # one of two histories will be given up
            raise Forgiven("who led by the record leads on")
        require(same, "R1", f"{broker.name} acknowledges another history")
        self.committed += log[known:]
        self.acknowledged += len(log) - known
        self.check_set()

    def on_truncate(self, broker: "Broker", at: int) -> None:
        """R4: what was acknowledged is not cut."""
        log = broker.volume.log
        lost = not self.amnesty and at < len(self.committed) and log[at] == self.committed[at]
        require(not lost, "R4", f"{broker.name} cuts a committed record at {at}")
