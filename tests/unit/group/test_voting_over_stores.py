"""Raft mode over message stores: members are notes of a system topic, and outlive restarts, cuts and retention."""

from dataclasses import replace
from random import Random

from logherd.group.inputs import Input, MembersWanted
from logherd.group.output import Output
from logherd.model.names import Epoch, Position
from logherd.raft.options import RaftOptions
from logherd.replica import NOTES_TOPIC, NotedStore
from logherd.store import MessageStore
from sim.disk import SimDisk
from unit.group.ring import Replica, VotingReplica, VotingRing
from unit.store.helpers import HOST, ROOT, SimClock, small_options

OPTIONS = replace(small_options(derived={"interval_ms": 0}), replicated=True)


class StoreReplica(VotingReplica):
    """Flushes take no time. `reopen`: as a new process finds the store."""

    log: NotedStore  # type: ignore[assignment]

    def __init__(self, ring: "StoreRing", broker_id: int) -> None:
        self.disk = SimDisk()
        super().__init__(ring, broker_id, None)  # type: ignore[arg-type]
        self._open([])

    def _open(self, barriers: list[tuple[int, int]]) -> None:
        store = MessageStore.open(ROOT, OPTIONS, self.disk, clock=SimClock())
        self.log = NotedStore(store, barriers, clock=SimClock(), host=HOST)

    def reopen(self) -> None:
        barriers = [(int(run.epoch), int(run.after)) for run in self.log.epochs.runs]
        self.log.store.close()
        self._open(barriers)

    def crash_behind_the_promise(self) -> None:
        """What `slow` has held back of the log is lost, and the newest promise is kept."""
        self.kept = [promise for _, _, promise in self._flushes if promise is not None][-1]
        barriers = [(int(run.epoch), int(run.after)) for run in self.log.epochs.runs]
        self.disk = self.disk.crash(Random(1), power=False)
        self._open(barriers)

    def write(self, epoch: Epoch, body: bytes) -> Position:
        if epoch > self.log.epochs.last_epoch:
            self.log.begin_epoch(epoch)
        queue = self.log.store.queue("T", 0)
        self.log.store.append(queue, body, b"", born_timestamp=1, born_host=HOST, store_timestamp=1)
        return self.log.end

    def feed(self, event: Input) -> Output:
        output = super().feed(event)
        if output.commit is not None:
            self.log.advance(output.commit)
        return output

    def flush(self) -> None:
        while (batch := self.log.take_batch()) is not None:
            batch.write_and_flush()
            self.log.flushed(batch)
        super().flush()


class StoreRing(VotingRing):
    def add(self, broker_id: int) -> StoreReplica:
        node = StoreReplica(self, broker_id)
        self.nodes[broker_id] = node
        return node


def stored(node: Replica) -> StoreReplica:
    assert isinstance(node, StoreReplica)
    return node


def test_stores_hold_the_same_bytes_after_a_change_of_leader() -> None:
    ring = StoreRing()
    first = ring.until_served()
    for number in range(40):
        first.append(b"%d" % number * 300)
        ring.run(1)
    ring.run(200)
    ring.isolate(first)
    first.append(b"never committed" * 20)
    ring.run(100)
    while ring.leader in (None, first):
        ring.run(1)
    end = ring.until_served().append(b"after")
    ring.heal()
    ring.run(3_000)
    assert {node.log.end for node in ring.nodes.values()} == {end}
    assert {node.committed for node in ring.nodes.values()} == {end}
    assert len({stored(node).log.epochs for node in ring.nodes.values()}) == 1


def test_a_new_member_is_known_after_a_restart_of_everybody() -> None:
    ring = StoreRing()
    leader = ring.until_served()
    learner = ring.add(4)
    learner.start()
    wanted = (*ring.founders, learner.core.identity)
    for node in ring.nodes.values():
        node.feed(MembersWanted(wanted))
    ring.run(2_000)
    assert learner.log.end == leader.log.end
    for node in ring.nodes.values():
        stored(node).reopen()
        node.start()
    assert {stored(node).core.raft.ground.members.current.voters for node in ring.nodes.values()} == {wanted}
    new = ring.until_served()
    ring.run(500)
    assert {node.committed for node in ring.nodes.values()} == {new.log.end}
    assert leader.log.end > 0


def test_a_note_that_is_cut_is_forgotten() -> None:
    ring = StoreRing()
    old = ring.until_served()
    ring.run(500)
    ring.isolate(old)
    old.feed(MembersWanted(ring.founders[:2], ring.founders[2:]))
    ring.run(100)
    assert stored(old).core.raft.ground.members.current.voters == ring.founders[:2]
    while ring.leader in (None, old):
        ring.run(1)
    new = ring.until_served()
    for node in ring.nodes.values():
        node.feed(MembersWanted(ring.founders))
    ring.heal()
    ring.run(2_000)
    assert old.log.end == new.log.end
    assert stored(old).core.raft.ground.members.current.voters == ring.founders
    assert stored(old).log.notes(Position(0), old.log.end) == stored(new).log.notes(Position(0), new.log.end)


def test_notes_are_found_by_their_place() -> None:
    ring = StoreRing(1, options=RaftOptions(restate_ms=200))
    node = stored(ring.until_served())
    for _ in range(3):
        node.append()
        ring.run(250)
    log = node.log
    found = log.notes(Position(0), log.end)
    assert len(found) == 3
    assert [end for end, _ in found] == sorted(end for end, _ in found)
    first, second, third = (end for end, _ in found)
    assert log.notes(first, second) == [found[1]]
    assert log.notes(second, log.end) == [found[2]]
    assert log.notes(third, log.end) == []
    assert log.notes(Position(0), first) == [found[0]]
    assert log.store.queue(NOTES_TOPIC, 0).max_offset == 3
    assert node.core.pinned == third - 1
