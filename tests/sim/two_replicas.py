"""Two stores of one group on real files: whoever leads ships, the other receives; crashes, and changes of leadership.

A crash is a copy of the directory as it lies there, opened by another process: what a killed one leaves. Nobody elects;
a new leader is either of the two, since both hold all that is committed, and the epoch is one more than any before.
"""

import shutil
from collections import Counter
from pathlib import Path
from random import Random

from logherd.model.names import Epoch, Position
from logherd.replica import LogStartGone, ReplicaStore
from logherd.replication.durable import DurableEnd
from logherd.replication.messages import Append, ReplicaId
from logherd.replication.receiver import Flushed, FromLeader, ReceiveOutput, Receiver
from logherd.replication.sender import ShipOptions
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import Committed, Connected, FollowersSet, FromFollower, Grown, ShipperTick
from logherd.service.metadata import barriers
from logherd.service.metadata.changes import Barrier, encode
from logherd.service.metadata.journal import CHANGES, METADATA_TOPIC
from logherd.service.metadata.store_log import StoreLog
from logherd.store import (
    DerivedOptions,
    LogOptions,
    MessageStore,
    RetentionOptions,
    RunMessage,
    StoreOptions,
    begin_again,
)
from sim.history import HOST, SimClock
from sim.left_files import LeftFiles

__all__ = ["Pair"]

OTHER = ReplicaId("other")
OPTIONS = StoreOptions(
    replicated=True,
    log=LogOptions(segment_bytes=16384, record_bytes_max=2000, batch_bytes_max=4096, reserve_bytes=0,
                   zero_ahead_bytes=0),
    derived=DerivedOptions(queue_file_units=16, index_slots=64, index_entries=100, interval_ms=0,
                           index_write_entries=8),
    retention=RetentionOptions(age_ms=None, bytes_max=20_000),
    checkpoint_sync_ms=0, free_space_check_ms=0,
)  # fmt: skip
SHIP = ShipOptions(message_bytes_max=3000, window_messages=3, window_bytes=6000, small_bytes=0)


class Replica:
    """One process of a replica."""

    options = OPTIONS

    def __init__(self, directory: Path, clock: SimClock) -> None:
        self.directory = directory
        self.clock = clock
        self.store = MessageStore.open(directory, self.options, LeftFiles(), clock=clock)
        self.log = ReplicaStore(self.store, barriers(StoreLog(self.store, clock, host=HOST)))
        self.durable = DurableEnd(Position(self.store.end_position))
        self.receiver = self.follow()

    def follow(self) -> Receiver:
        """Be a follower of a new epoch."""
        self.receiver = Receiver(self.log, self.durable, Position(self.store.committed_position))
        return self.receiver

    def changed(self) -> None:
        token = self.durable.wrote(self.log.end, self.clock.now)
        if self.log.note(token):
            self.durable.flushed(token)

    def append(self, topic: str, queue_id: int, body: bytes, properties: bytes = b"") -> None:
        queue = self.store.queue(topic, queue_id)
        now = self.clock.now
        self.store.append(queue, body, properties, born_timestamp=1, born_host=HOST, store_timestamp=now, reserve=True)
        self.changed()

    def append_run(self, messages: list[RunMessage]) -> None:
        """As many as fit into one batch."""
        self.store.append_run(messages, HOST, self.clock.now)
        self.changed()

    def lead(self, epoch: int) -> None:
        """Append the barrier of a new epoch."""
        self.log.begin_epoch(Epoch(epoch))
        self.append(METADATA_TOPIC, CHANGES, encode(Barrier(epoch, self.store.end_position, self.clock.now)))

    def write_one(self) -> bool:
        """Be the writer thread for one batch."""
        batch = self.log.take_batch()
        if batch is None:
            return False
        batch.write_and_flush()
        token = self.log.flushed(batch)
        return token is not None and self.durable.flushed(token)

    def crashed(self, number: int) -> "Replica":
        """What another process finds when this one was killed."""
        left = self.directory.with_name(f"{self.directory.name.partition('.')[0]}.{number}")
        shutil.copytree(self.directory, left)
        return type(self)(left, self.clock)


class Pair:
    """A leader and a follower, and the group's word of what is committed."""

    kind = Replica

    def __init__(self, root: Path, seed: int) -> None:
        self.random = Random(seed)
        self.clock = SimClock()
        self.leader = self.kind(root / "a", self.clock)
        self.follower = self.kind(root / "b", self.clock)
        self.epoch = 0
        self.committed = Position(0)
        self.crashes = 0
        self.serial = 0
        self.seen = Counter[str]()
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.leader.lead(self.epoch)
        self.follower.follow()
        self.shipper = Shipper(self.leader.log, SHIP, commit=self.committed, now=self.clock.now)
        self.deliver(self.shipper.step(FollowersSet((OTHER,)), self.clock.now).messages)

    def deliver(self, messages: list) -> None:
        """Bring messages to the follower and its answers back; some are lost on the way."""
        waiting = list(messages)
        while waiting:
            _, body = waiting.pop(0)
            if self.random.random() < 0.03:
                continue
            for answer in self.receive(body):
                waiting += self.shipper.step(FromFollower(OTHER, answer), self.clock.now).messages

    def receive(self, body) -> tuple:
        follower = self.follower
        try:
            out = follower.receiver.step(FromLeader(body), self.clock.now)
        except LogStartGone as gone:
            self.start_over(gone)
            return ()
        if out.wrote:
            follower.changed()
        self.seen["cut"] += out.cut is not None
        self.seen["outlined"] += isinstance(body, Append) and len(body.span.outline) > 0 and out.grown is not None
        self.seen["appended"] += isinstance(body, Append) and out.grown is not None
        follower.log.advance(out.commit)
        self.received(out)
        return out.answers

    def received(self, out: ReceiveOutput) -> None:
        """What the follower does beside its log."""

    def start_over(self, gone: LogStartGone) -> None:
        """The follower is too far behind: it begins where the leader's log does."""
        self.seen["began again"] += 1
        self.follower.store.close()
        directory = self.follower.directory
        begin_again(directory, LeftFiles(), position=gone.point.position, epoch=gone.point.epoch)
        self.follower = self.kind(directory, self.clock)
        self.clock.now += 1

    def step(self) -> None:
        random = self.random
        self.clock.now += random.choice((1, 20, 200))
        kind = random.randrange(20)
        if kind < 9:
            self.work()
            self.deliver(self.shipper.step(Grown(), self.clock.now).messages)
        elif kind < 12:
            self.tick()
        elif kind < 15:
            self.flush()
        elif kind == 15:
            self.background()
        elif kind == 16:
            self.crash_follower()
        elif kind == 17 and random.random() < 0.5:
            self.crash_leader()
        elif kind == 18 and random.random() < 0.5:
            self.leader, self.follower = self.follower, self.leader
            self.begin_epoch()
            self.seen["other leader"] += 1

    def work(self) -> None:
        """What the leader appends for its clients."""
        random = self.random
        if random.random() < 0.4:
            self.leader.append_run([self.message(random.choice((0, 1))) for _ in range(random.randrange(2, 9))])
            return
        for _ in range(random.randrange(1, 9)):
            self.serial += 1
            body = b"%d:%s" % (self.serial, random.randbytes(random.choice((0, 30, 300, 1500))))
            topic, queue_id = random.choice((("A", 0), ("A", 1), ("B", 0)))
            self.leader.append(topic, queue_id, body, b"UNIQ_KEY\x01id%d\x02" % self.serial)

    def message(self, queue_id: int) -> RunMessage:
        """One of topic A, to be appended with others."""
        self.serial += 1
        body, key = b"%d:%s" % (self.serial, self.random.randbytes(30)), b"id%d" % self.serial
        return self.leader.store.queue("A", queue_id), body, b"UNIQ_KEY\x01%s\x02" % key, key, 1, 0, 0, 0

    def tick(self) -> None:
        self.deliver(self.shipper.step(ShipperTick(), self.clock.now).messages)

    def flush(self) -> None:
        for replica in (self.leader, self.follower):
            for _ in range(self.random.randrange(4)):
                if replica.write_one() and replica is self.follower:
                    for answer in replica.receiver.step(Flushed(), self.clock.now).answers:
                        self.deliver(self.shipper.step(FromFollower(OTHER, answer), self.clock.now).messages)
        self.commit()

    def commit(self) -> None:
        self.committed = max(self.committed, min(self.leader.durable.position, self.shipper.match(OTHER)))
        self.shipper.step(Committed(self.committed), self.clock.now)
        self.leader.log.advance(self.committed)

    def background(self) -> None:
        for replica in (self.leader, self.follower):
            replica.store.tick()
            while replica.store.background_work():
                pass
            if self.random.random() < 0.3:
                self.retain(replica)

    def retain(self, replica: Replica) -> None:
        replica.log.apply_retention(self.clock.now, Position(replica.store.committed_position))

    def crash_follower(self) -> None:
        self.crashes += 1
        self.follower = self.follower.crashed(self.crashes)
        self.seen["follower crashed"] += 1
        assert self.follower.store.committed_position <= self.committed
        self.deliver(self.shipper.step(Connected(OTHER), self.clock.now).messages)

    def crash_leader(self) -> None:
        """It is killed, and the other one leads; what only it had is cut when it follows."""
        self.crashes += 1
        self.leader, self.follower = self.follower, self.leader.crashed(self.crashes)
        self.begin_epoch()
        self.seen["leader crashed"] += 1

    def settle(self) -> None:
        """No more faults: both come to hold the same, committed."""
        self.random = Calm()
        for _ in range(400):
            self.clock.now += 200
            self.tick()
            self.flush()
            ends = {self.leader.store.end_position, self.leader.store.committed_position,
                    self.follower.store.end_position, self.follower.store.committed_position}  # fmt: skip
            if len(ends) == 1:
                return
        raise AssertionError(f"they did not come to hold the same: {ends}")


class Calm(Random):
    """Loses nothing, and does all that is to be done."""

    def random(self) -> float:
        return 1.0

    def randrange(self, *_: int) -> int:
        return 3
