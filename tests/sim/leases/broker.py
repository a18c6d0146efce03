"""One simulated broker: a guardian, a lease, and a log of (epoch, number) that a master copies to its followers.

The data plane is the smallest that R1-R11 speak of: followers refuse lower epochs, acknowledge what they have flushed,
and a record is committed when every member of the committed and the pending in-sync set has it, and enough are in it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from logherd.controller.admission import admit_register, admit_sync_set
from logherd.controller.commands import AlterSyncSet, Register, Release, SyncMember
from logherd.controller.holder import LeaseHolder
from logherd.controller.office import Office
from logherd.controller.reports import Granted, Report, RoleView, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point
from sim.consensus.streams import stream
from sim.leases.process import Process

if TYPE_CHECKING:
    from sim.leases.controller import Controller
    from sim.leases.world import World

__all__ = ["KEY", "Broker", "Entry"]

KEY = GroupKey("c", "bg")
BEAT_US = 200_000
WORK_US = 40_000
LAG_MS = 400

Entry = tuple[int, int]
"""(epoch, number in the whole run): two records are the same if these are."""


class Broker(Process):
    """Everything in its log is flushed; what is told to the controllers is its end."""

    def __init__(self, world: "World", number: int) -> None:
        super().__init__(world, f"b{number}")
        self.id = BrokerId(number)
        self.draw = stream(world.seed, f"broker:{number}")
        self.stores = 0
        self._new_store()
        self.started()

    def _new_store(self) -> None:
        self.stores += 1
        self.store_id = f"{self.name}.s{self.stores}"
        self.log: list[Entry] = []
        self.committed = 0
        self.epoch_seen = 0

    def started(self) -> None:
        """A new incarnation, fenced."""
        self.incarnation = f"{self.name}.{self.life}.{self.stores}"
        self.registration = Registration(0)
        self.holder = LeaseHolder()
        self.view: RoleView | None = None
        self._led = Epoch(0)
        self._pending: AlterSyncSet | None = None
        self._handing_over: BrokerId | None = None
        self.acked: dict[BrokerId, tuple[Registration, int, int]] = {}
        self._target = self.draw.choice(list(self.world.controllers))
        self.soon(self.draw.randrange(BEAT_US), self._beat)
        self.soon(self.draw.randrange(WORK_US), self._work)

    def ended(self) -> None:
        """The guardian may see the exit and report it; the volume may be lost."""
        if self.draw.random() < 0.5:
            self._report_exit(self.store_id, self.incarnation, 4)
        if self.draw.random() < 0.1:
            self.world.observer.on_wipe(self)
            self._new_store()

    def _report_exit(self, store_id: str, incarnation: str, tries: int) -> None:
        """The guardian lives on: it asks one controller after another."""
        if tries == 0:
            return
        command = Release(group=KEY, broker_id=self.id, store_id=store_id, incarnation=incarnation, exited=True)
        name = self.draw.choice(list(self.world.controllers))
        at = self.world.controllers[name]
        self.world.send(self.name, name, lambda: at.soon(0, lambda: at.propose(command, lambda verdict: None)))
        again = self.draw.choice((150_000, 150_000, 3_000_000))
        self.world.after(again, lambda: self._report_exit(store_id, incarnation, tries - 1))

    def believes(self) -> Epoch | None:
        """The epoch in which this process holds itself for the master now, paused or not."""
        return self.holder.epoch_at(self.now_ms()) if self.alive else None

    @property
    def end(self) -> Point:
        """The end of the log; the position is the count."""
        return self._point(len(self.log))

    def _point(self, count: int) -> Point:
        return Point(Epoch(self.log[count - 1][0]), Position(count)) if count else ORIGIN

    # ---- talking to controllers --------------------------------------------------------------------------------

    def _ask(
        self, work: "Callable[[Controller, Office, Callable[[object], None]], None]", done: Callable[[object], None]
    ) -> None:
        """Send a request to the controller that is held for the leader; no answer means another one next time."""
        at, life = self.world.controllers[self._target], self.life
        if self.draw.random() < 0.05:
            # A connection that is lost, or nothing heard for a while.
            self._target = self.draw.choice(list(self.world.controllers))

        def back(answer: object) -> None:
            if answer is None:
                self._target = self.draw.choice(list(self.world.controllers))
            elif self.life == life and self.alive:
                self.world.send(at.name, self.name, lambda: self._take(life, lambda: done(answer)))

        def arrive() -> None:
            if at.alive and at.office is not None:
                work(at, at.office, back)
            else:
                back(None)

        self.world.send(self.name, at.name, lambda: at.soon(0, arrive) if at.alive else back(None))

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
        command = Register(
            group=KEY, broker_id=self.id, store_id=self.store_id, incarnation=self.incarnation, address=self.name,
            end=self.end, epoch_seen=Epoch(self.epoch_seen),
            rules=Rules(replicas=len(self.world.brokers), min_in_sync=min(2, len(self.world.brokers))),
        )  # fmt: skip

        def work(at: "Controller", office: Office, back: Callable[[object], None]) -> None:
            admitted = admit_register(office, command, at.now_ms())
            if isinstance(admitted, Refusal):
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        def done(answer: object) -> None:
            if isinstance(answer, Verdict) and answer.refusal is None and answer.group is not None:
                replica = answer.group.replica(self.id)
                if replica is not None and replica.incarnation == self.incarnation:
                    self.registration = replica.registration

        self._ask(work, done)

    def _heartbeat(self) -> None:
        sent = self.now_ms()
        report = Report(
            group=KEY, broker_id=self.id, registration=self.registration, address=self.name, end=self.end,
            committed=self._point(min(self.committed, len(self.log))), resigned=self.holder.resigned,
        )  # fmt: skip

        def work(at: "Controller", office: Office, back: Callable[[object], None]) -> None:
            refusal = office.hear(report, at.now_ms())
            if refusal is not None:
                back(Withheld(None, refusal))
                return
            at.confirm(lambda office: back(office.renew(report, at.now_ms()) if office is not None else None))

        self._ask(work, lambda answer: self._hear(answer, sent))

    def _hear(self, answer: object, sent: int) -> None:
        if isinstance(answer, Granted):
            self.holder.granted(answer, sent=sent)
            self._handing_over = answer.hand_over
        elif isinstance(answer, Withheld) and answer.view is None:
            self.registration = Registration(0)
        view = answer.view if isinstance(answer, (Granted, Withheld)) else None
        if view is not None and (
            self.view is None or (view.epoch, view.version) >= (self.view.epoch, self.view.version)
        ):
            self.view = view
            if self._pending is not None and (view.epoch, view.version) > (self._pending.epoch, self._pending.version):
                self._pending = None

    # ---- the master's work -------------------------------------------------------------------------------------

    def _work(self) -> None:
        epoch = self.holder.epoch_at(self.now_ms())
        view = self.view
        if epoch is not None and view is not None and view.epoch == epoch and view.master == self.id:
            if epoch > self._led:
                self._begin(epoch)
            elif self._handing_over is None:
                self.log += [self.world.observer.new_entry(epoch) for _ in range(self.draw.randrange(3))]
            self._replicate(epoch)
            self._advance(view)
            self._mind_the_set(epoch, view)
            self._hand_over(epoch)
        self.soon(WORK_US, self._work)

    def _begin(self, epoch: Epoch) -> None:
        """The barrier of the epoch (R13)."""
        self._led, self._pending, self.acked = epoch, None, {}
        self.epoch_seen = max(self.epoch_seen, epoch)
        self.log.append(self.world.observer.new_entry(epoch))
        self.world.observer.on_begin(self, epoch)

    def _replicate(self, epoch: Epoch) -> None:
        """Copy to whoever can be reached both ways; followers dictate by the highest epoch they have seen (D)."""
        for other in self.world.brokers.values():
            both = self.world.carries(self.name, other.name) and self.world.carries(other.name, self.name)
            if other is self or not both or not other.alive or other.paused_until > self.world.now_us:
                continue
            if other.epoch_seen > epoch or other.registration == 0:
                continue
            other.follow(self, epoch)
            self.acked[other.id] = (other.registration, len(other.log), self.now_ms())

    def follow(self, master: "Broker", epoch: Epoch) -> None:
        """Cut what the master does not have, copy some of what is missing."""
        self.epoch_seen = epoch
        same = 0
        for mine, theirs in zip(self.log, master.log, strict=False):
            if mine != theirs:
                break
            same += 1
        if same < len(self.log):
            self.world.observer.on_truncate(self, self.log[same:])
            del self.log[same:]
        self.log += master.log[same : same + self.draw.randrange(1, 40)]
        self.committed = max(self.committed, min(master.committed, len(self.log)))

    def _advance(self, view: RoleView) -> None:
        """R6: committed is what everybody of the committed and the pending set has, if enough are in it."""
        if len(view.members) < view.min_in_sync:
            return
        ends = [self.acked[each][1] if each in self.acked else 0 for each in self._needed(view) if each != self.id]
        reached = min([len(self.log), *ends])
        # Of one's own epoch only: the barrier first.
        if reached > self.committed and self.log[reached - 1][0] == self._led:
            self.committed = reached
            self.world.observer.on_committed(self, self.log[:reached])

    def _needed(self, view: RoleView) -> set[int]:
        """Whose acknowledgement counts: the set that is known, and the one that may have been decided."""
        return {*view.members, *(member.broker_id for member in (self._pending.members if self._pending else ()))}

    def _mind_the_set(self, epoch: Epoch, view: RoleView) -> None:
        now = self.now_ms()
        if self._pending is None:
            recent = {each for each, (_, _, at) in self.acked.items() if now - at < LAG_MS}
            caught_up = {each for each in recent if self.acked[each][1] >= max(self.committed, self._barrier())}
            wanted = sorted({self.id, *((set(view.members) & recent) | (caught_up - set(view.learners)))})
            if tuple(wanted) == view.members:
                return
            members = tuple(
                SyncMember(
                    broker_id=BrokerId(each), registration=self.acked.get(each, (Registration(0), 0, 0))[0],
                    end=self._point(self.acked[each][1]) if each in self.acked else ORIGIN,
                )
                for each in wanted
            )  # fmt: skip
            self._pending = AlterSyncSet(
                group=KEY, broker_id=self.id, registration=self.registration, epoch=epoch, version=view.version,
                members=members, committed=self._point(self.committed), min_in_sync=view.min_in_sync,
                request=f"{self.incarnation}/{view.version}",
            )  # fmt: skip
        elif self.draw.random() > 0.2:
            return
        self._propose_set(self._pending)

    def _barrier(self) -> int:
        return next(number for number, entry in enumerate(self.log, 1) if entry[0] == self._led)

    def _propose_set(self, command: AlterSyncSet) -> None:
        def work(at: "Controller", office: Office, back: Callable[[object], None]) -> None:
            admitted = admit_sync_set(office, command, at.now_ms())
            if isinstance(admitted, Refusal):
                back(admitted)
            else:
                at.propose(admitted, back)  # type: ignore[arg-type]

        self._ask(work, lambda answer: None)

    def _hand_over(self, epoch: Epoch) -> None:
        target = self._handing_over
        if target is None or self.acked.get(target, (0, 0, 0))[1] != len(self.log):
            return
        self.holder.resign(epoch)
        command = Release(
            group=KEY, broker_id=self.id, store_id=self.store_id, incarnation=self.incarnation, exited=False,
            committed=self._point(self.committed),
        )  # fmt: skip
        self._ask(lambda at, office, back: at.propose(command, back), lambda answer: None)  # type: ignore[arg-type]


def _age(view: RoleView) -> tuple[int, int]:
    return (view.epoch, view.version)
