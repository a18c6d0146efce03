"""R6, R9: whose copy counts while changes of the in-sync set are on their way; the set alone, its followers made up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from logherd.controller.commands import AlterSyncSet
from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.group.attendance import Attendance, Follower
from logherd.group.ground import Ground
from logherd.group.insync import InSync
from logherd.group.options import GroupOptions
from logherd.group.seat import Process, Seat, replica_of
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind

ME, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@dataclass
class Present:
    """Followers that keep up: broker to (registration of its process, how far that has flushed)."""

    known: dict[BrokerId, tuple[int, int]]
    lagging_ones: tuple[BrokerId, ...] = ()

    def __iter__(self) -> Iterator[Follower]:
        for broker_id, (registration, _) in self.known.items():
            process = Process(broker_id, Registration(registration))
            yield Follower(process, replica_of(process))

    def flushed_by(self, broker_id: BrokerId, process: Registration) -> Position:
        registration, flushed = self.known.get(broker_id, (0, 0))
        return Position(flushed if registration >= process else 0)

    def leaving(self, broker_id: BrokerId) -> bool:
        return False

    def lagging(self, broker_id: BrokerId) -> bool:
        return broker_id in self.lagging_ones

    def in_step(self, broker_id: BrokerId) -> bool:
        return broker_id in self.known

    def near(self, broker_id: BrokerId) -> bool:
        return broker_id in self.known and broker_id not in self.lagging_ones


def view(*members: BrokerId, version: int = 5, learners: tuple[BrokerId, ...] = (), minimum: int = 1) -> RoleView:
    """In epoch 4, led by this broker; the process of broker n is 10 n."""
    return RoleView(
        epoch=Epoch(4), master=ME, master_address="", master_registration=Registration(10), version=version,
        members=members, processes=tuple(Registration(10 * each) for each in members), learners=learners,
        min_in_sync=minimum,
    )  # fmt: skip


class Led:
    """The set of a leader whose log of three records is flushed; `ends` are their ends."""

    def __init__(self, present: Present, start: RoleView, *, committed: int = 0) -> None:
        log = MemoryLog()
        self.ends = [log.append(Kind.DATA, Epoch(4), b"record") for _ in range(3)]
        seat = Seat(group=GroupKey("c", "bg"), broker_id=ME, store_id="s1", incarnation="s1.1", address="")
        commit = self.ends[committed - 1] if committed else Position(0)
        self.ground = Ground(seat, GroupOptions(), log, epoch=Epoch(4), commit=commit, now=0)
        self.ground.standing.register(Registration(10))
        self.ground.standing.learn(start)
        self.present = present
        self.insync = InSync(self.ground, cast("Attendance", present), start)

    def mind(self, barrier: Position | None) -> AlterSyncSet | None:
        """What is proposed, if anything is."""
        self.insync.mind(Epoch(4), barrier)
        asks = [ask for ask in self.ground.finish().asks if isinstance(ask, AlterSyncSet)]
        return asks[-1] if asks else None


END = Led(Present({}), view(ME)).ends


def members(command: AlterSyncSet | None) -> list[int]:
    return [] if command is None else [int(member.broker_id) for member in command.members]


def test_only_who_has_everything_committed_and_the_barrier_is_proposed() -> None:
    present = Present({TWO: (20, END[1])})
    assert members(Led(present, view(ME), committed=2).mind(END[1])) == [1, 2]
    assert members(Led(present, view(ME), committed=3).mind(END[1])) == [], "it lacks what is committed"
    assert members(Led(present, view(ME), committed=1).mind(END[2])) == [], "it lacks the barrier"
    assert members(Led(present, view(ME)).mind(None)) == [], "there is no barrier"
    assert members(Led(present, view(ME, learners=(TWO,)), committed=1).mind(END[1])) == [], "it is a learner"


def test_who_keeps_up_for_long_and_lacks_the_last_that_is_committed_is_awaited_until_it_is_proposed() -> None:
    present = Present({TWO: (20, END[1])})
    led = Led(present, view(ME), committed=2)
    patience = 6 * led.ground.options.lag_ms
    led.ground.commit_to(END[2])
    led.ground.durable.flushed(led.ground.wrote())
    assert (led.mind(END[2]), led.insync.awaited) == (None, ()), "it lacks the barrier"
    led.ground.clock.now = 10
    assert (led.mind(END[1]), led.insync.awaited) == (None, ()), "it may have it in a moment without that"
    led.ground.clock.now = 9 + patience
    assert (led.mind(END[1]), led.insync.awaited) == (None, ())
    led.ground.clock.now = 10 + patience
    assert (led.mind(END[1]), led.insync.awaited, led.insync.reached()) == (None, (TWO,), END[1])
    present.known[TWO] = (20, END[2])
    assert led.insync.reached() == END[2]
    assert (members(led.mind(END[1])), led.insync.awaited) == ([1, 2], ())


def test_who_was_not_near_all_the_while_and_a_learner_are_not_awaited() -> None:
    for learners in ((), (TWO,)):
        present = Present({TWO: (20, END[1])})
        led = Led(present, view(ME, learners=learners), committed=3)
        for now in range(0, 30_000, 100):
            led.ground.clock.now = now
            present.lagging_ones = (TWO,) if not learners and now % 9_000 == 0 else ()
            assert (led.mind(END[0]), led.insync.awaited) == (None, ())


def test_each_member_is_proposed_with_its_own_end_and_process() -> None:
    command = Led(Present({TWO: (20, END[1])}), view(ME), committed=2).mind(END[0])
    assert command is not None
    assert [(each.registration, each.end.position) for each in command.members] == [(10, END[2]), (0, END[1])]


def test_a_leader_that_is_no_member_commits_nothing() -> None:
    assert Led(Present({TWO: (20, END[2])}), view(TWO)).insync.reached() == 0


def test_of_each_member_only_the_latest_process_counts() -> None:
    led = Led(Present({TWO: (20, END[1])}), view(ME, TWO))
    assert led.insync.reached() == END[1]
    led.ground.standing.meet(Process(TWO, Registration(21)))
    led.insync.learn(view(ME, TWO))
    assert led.insync.reached() == 0


def test_a_member_that_is_proposed_counts_by_its_latest_process_until_the_proposal_is_decided() -> None:
    led = Led(Present({TWO: (20, END[1])}), view(ME), committed=1)
    led.ground.standing.meet(Process(TWO, Registration(20)))
    assert led.insync.reached() == END[2]
    assert members(led.mind(END[0])) == [1, 2]
    assert led.insync.reached() == END[1]
    led.present.known[TWO] = (19, END[2])
    assert led.insync.reached() == 0, "an earlier process than the proposed one"
    led.present.known[TWO] = (20, END[2])
    led.ground.standing.meet(Process(TWO, Registration(25)))
    led.insync.learn(view(ME))
    assert led.insync.reached() == 0, "an earlier process than the latest"
    led.insync.learn(view(ME, version=6))
    assert led.insync.reached() == END[2], "another version is in force: the proposal never will be"


def test_the_same_version_said_again_ends_no_proposal() -> None:
    led = Led(Present({TWO: (20, END[1])}), view(ME), committed=1)
    led.mind(END[0])
    led.insync.learn(view(ME))
    assert led.insync.pending == ((ME, TWO),)
    assert led.insync.reached() == END[1]


def test_who_is_proposed_to_leave_counts_until_that_is_accepted() -> None:
    led = Led(Present({TWO: (20, END[0]), THREE: (30, END[2])}, lagging_ones=(TWO,)), view(ME, TWO, THREE))
    command = led.mind(END[0])
    assert command is not None
    assert members(command) == [1, 3]
    assert led.insync.reached() == END[0]
    assert led.insync.accepted(command.request, (ME, THREE), 5) is None
    assert led.insync.accepted("another", (ME, THREE), 6) is None
    accepted = led.insync.accepted(command.request, (ME, THREE), 6)
    assert accepted is not None
    led.insync.learn(accepted)
    assert led.insync.reached() == END[2]


def test_a_proposal_is_asked_again_as_it_is_while_its_outcome_is_not_known_and_not_at_every_look() -> None:
    led, asked = Led(Present({TWO: (20, END[2])}), view(ME), committed=1), list[tuple[int, str]]()
    retry_ms = led.ground.options.retry_ms
    for now in range(0, 2 * retry_ms + 20, 20):
        led.ground.begin(now)
        if (command := led.mind(END[0])) is not None:
            asked.append((now, command.request))
    (request,) = {request for _, request in asked}
    assert asked == [(0, request), (retry_ms, request), (2 * retry_ms, request)]
    assert led.insync.asked_at == 0


def test_g6_only_who_can_become_a_member_makes_a_leader_less_alone() -> None:
    led = Led(Present({}), view(ME, TWO, learners=(THREE,), minimum=2))
    for process in (Process(THREE, Registration(30)), Process(BrokerId(4), Registration(40))):
        led.ground.standing.meet(process)
    enough = {each: led.insync.can_be_enough({each}.__contains__) for each in map(BrokerId, range(1, 6))}
    assert enough == {1: False, 2: True, 3: False, 4: True, 5: False}
