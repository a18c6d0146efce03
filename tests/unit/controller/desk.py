"""A controller leader with a machine, an office and a clock, where every proposal is applied at once or on demand."""

from msgspec import UNSET, UnsetType

from logherd.controller.commands import (
    AlterSyncSet,
    Command,
    Elect,
    Register,
    Release,
    SyncMember,
    decode_command,
    encode_command,
)
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.reports import Granted, Report, Withheld
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId, Group, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point

__all__ = ["KEY", "Desk", "point"]

KEY = GroupKey("c", "bg")


def point(epoch: int, position: int) -> Point:
    return Point(Epoch(epoch), Position(position))


class Desk:
    """`log` is the controllers' log; `submit` applies a command as the quorum would after committing it."""

    def __init__(self, *, terms: LeaseTerms | None = None, options: OfficeOptions | None = None, now: int = 0) -> None:
        self.machine = Machine()
        self.terms = terms or LeaseTerms()
        self.options = options or OfficeOptions()
        self.now = now
        self.log: list[bytes] = []
        self.reopen()

    def reopen(self) -> None:
        """Another controller becomes leader: nothing of the old office is left."""
        self.office = Office(self.machine, self.terms, self.options, self.now)

    def submit(self, command: Command) -> Verdict:
        self.office.submitted(command)
        body = encode_command(command)
        self.log.append(body)
        verdict = self.machine.apply(decode_command(body))
        self.office.applied(command, verdict, self.now)
        return verdict

    @property
    def group(self) -> Group:
        group = self.machine.group(KEY)
        assert group is not None
        return group

    def registration(self, broker: int) -> Registration:
        replica = self.group.replica(BrokerId(broker))
        assert replica is not None
        return replica.registration

    # ---- what brokers do ---------------------------------------------------------------------------------------

    def register(
        self, broker: int, *, store: str = "", life: int = 1, end: Point = ORIGIN, replicas: int = 3, seen: int = 0,
        trusted: bool = True, replaces: str | None = None, committed: Point = ORIGIN, learner: bool = False,
    ) -> Verdict:  # fmt: skip
        store = store or f"store{broker}"
        group = self.machine.group(KEY)
        found = group.replica(BrokerId(broker)) if group is not None else None
        return self.submit(
            Register(
                group=KEY, broker_id=BrokerId(broker), store_id=store, incarnation=f"{store}.{life}",
                address=f"b{broker}:10911", end=end, epoch_seen=Epoch(seen), trusted=trusted,
                replaces=(found.store_id if found else "") if replaces is None else replaces, committed=committed,
                learner=learner, rules=Rules(replicas=replicas, min_in_sync=min(2, replicas)),
            )
        )  # fmt: skip

    def report(
        self, broker: int, *, end: Point = ORIGIN, healthy: bool = True, space: bool = True, priority: int = 0,
        barrier: bool = True, committed: Point = ORIGIN, registration: int | None = None, address: str = "",
        number: int = 0, resigned: int = 0, answered: int | None = None, epoch_ends: tuple[Point, ...] = (),
    ) -> Report:  # fmt: skip
        process = self.registration(broker) if registration is None else Registration(registration)
        return Report(
            group=KEY, broker_id=BrokerId(broker), registration=process, address=address or f"b{broker}:10911", end=end,
            committed=committed, healthy=healthy, space=space, barrier=barrier, priority=priority, number=number,
            resigned=Epoch(resigned), answered=answered, epoch_ends=epoch_ends,
        )  # fmt: skip

    def beat(self, *brokers: int, **said: object) -> Granted | Withheld:
        """Heartbeats of these brokers; what the last of them hears."""
        answer: Granted | Withheld = Withheld(None, None)
        for broker in brokers:
            report = self.report(broker, **said)  # type: ignore[arg-type]
            refusal = self.office.hear(report, self.now)
            answer = self.office.renew(report, self.now, heard=self.now) if refusal is None else Withheld(None, refusal)
        return answer

    def alter(
        self, master: int, *members: int, version: int | None = None, epoch: int | None = None, minimum: int = 2,
        committed: Point = ORIGIN, end: Point = ORIGIN, registrations: dict[int, int] | None = None, request: str = "",
    ) -> Verdict:  # fmt: skip
        return self.submit(
            AlterSyncSet(
                group=KEY, broker_id=BrokerId(master), registration=self.registration(master),
                epoch=self.group.epoch if epoch is None else Epoch(epoch),
                version=self.group.sync.version if version is None else version,
                members=tuple(self.member(each, end, registrations or {}) for each in members),
                committed=committed, min_in_sync=minimum, request=request,
            )
        )  # fmt: skip

    def member(self, broker: int, end: Point, registrations: dict[int, int]) -> SyncMember:
        replica = self.group.replica(BrokerId(broker))
        number = registrations.get(broker, replica.registration if replica else 0)
        return SyncMember(broker_id=BrokerId(broker), registration=Registration(number), end=end)

    def release(
        self, broker: int, *, store: str = "", life: int = 1, exited: bool = True, epoch: int | UnsetType = UNSET
    ) -> Verdict:
        store = store or f"store{broker}"
        return self.submit(
            Release(
                group=KEY, broker_id=BrokerId(broker), store_id=store, incarnation=f"{store}.{life}", exited=exited,
                epoch=epoch if epoch is UNSET else Epoch(epoch),
            )
        )  # fmt: skip

    # ---- time --------------------------------------------------------------------------------------------------

    def decide(self) -> list[Command]:
        """Propose what the office wants, and commit it."""
        commands = self.office.decide(self.now)
        for command in commands:
            assert self.submit_proposed(command).refusal is None
        return commands

    def submit_proposed(self, command: Command) -> Verdict:
        self.log.append(encode_command(command))
        verdict = self.machine.apply(command)
        self.office.applied(command, verdict, self.now)
        return verdict

    def wait(self, ms: int, *beating: int, step: int = 50, **said: object) -> list[Elect]:
        """Time passes; these brokers heartbeat every half second; elections that came of it."""
        elections: list[Elect] = []
        for passed in range(0, ms, step):
            if passed % 500 == 0:
                self.beat(*beating, **said)
            elections += [command for command in self.decide() if isinstance(command, Elect)]
            self.now += step
        return elections

    def found(self, *brokers: int, master: int | None = None) -> None:
        """All configured brokers register, and one of them is elected; all of them are in sync."""
        for broker in brokers:
            self.register(broker, replicas=len(brokers))
            self.beat(broker, priority=0 if master in (None, broker) else 1)
        assert len(self.wait(50)) == 1
        self.beat(*brokers)

    def refusal(self, verdict: Verdict) -> Refusal | None:
        return verdict.refusal
