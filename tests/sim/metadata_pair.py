"""Two replicas with metadata: a leader that changes it, a follower that takes it from the log, crashes and elections.

After each change the leader's state is noted with its log's end. That is what a replica with this log must have when so
much is committed, and what it must have when it is elected and its log ends there.
"""

from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from logherd.model.names import Epoch, Position
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.replication.receiver import ReceiveOutput
from logherd.service.metadata import (
    DefaultsOptions,
    Metadata,
    MetadataOptions,
    QueueName,
    StoreLog,
    TopicChange,
    Version,
    ensure_defaults,
)
from sim.history import HOST, SimClock
from sim.two_replicas import OPTIONS as STORE_OPTIONS
from sim.two_replicas import Pair, Replica

__all__ = ["MetadataPair", "MetadataReplica", "state_of"]

OPTIONS = MetadataOptions(change_bytes=3000, log_bytes=1 << 40)
DEFAULTS = DefaultsOptions("Red", "red-a", auto_create_queues=4)
NAMES = ("a", "b", "c")
QUEUES = 2


def state_of(metadata: Metadata, above: int = 0) -> dict[str, object]:
    """Everything that metadata says; of deletions those above a position."""
    return {
        "topics": {config.name: config for config in metadata.topics},
        "deleted": {name: at for name, at in metadata.topics.deleted.items() if at > above},
        "groups": {config.name: config for config in metadata.groups},
        "offsets": {(g, t, q): o for g, t, queues in metadata.offsets for q, o in queues.items()},
        "resets": {(g, t, q): o for g, t, queues in metadata.offsets.resets() for q, o in queues.items()},
        "owners": {group: dict(owners) for group, owners in metadata.owners},
        "versions": (metadata.version, metadata.groups.version),
        "epochs": list(metadata.epochs),
    }


Ends = dict[tuple[str, int], int]
Moment = tuple[int, dict[str, object], Ends]
NOTHING = {
    "topics": {}, "deleted": {}, "groups": {}, "offsets": {}, "resets": {}, "owners": {},
    "versions": (Version(), Version()), "epochs": [],
}  # fmt: skip


class MetadataReplica(Replica):
    """`heard` is what the hooks have told of topics, beside those that were there at first; `history` is, of its log,
    (end of the log, state, messages of each queue) after each step of a leader."""

    options = replace(STORE_OPTIONS, log=replace(STORE_OPTIONS.log, record_bytes_max=8000, batch_bytes_max=8192))

    def __init__(self, directory: Path, clock: SimClock) -> None:
        super().__init__(directory, clock)
        committed = self.store.committed_position
        self.metadata = Metadata.follow(self.records(), clock, committed=committed, options=OPTIONS)
        self.metadata.on_topic_change.append(self.hear)
        self.heard = {config.name: config for config in self.metadata.topics}
        self.history: list[Moment] = []
        self.was_cut = False

    def records(self) -> StoreLog:
        return StoreLog(self.store, self.clock, host=HOST)

    def hear(self, change: TopicChange) -> None:
        if change.config is None:
            self.heard.pop(change.name, None)
        else:
            self.heard[change.name] = change.config

    def lead(self, epoch: int) -> None:
        _, ends = self.at(self.store.end_position)
        self.log.begin_epoch(Epoch(epoch))
        assert self.metadata.promote(epoch) == self.store.end_position
        self.changed()
        self.history.append((self.store.end_position, state_of(self.metadata), ends))

    def has_log_of(self, other: "MetadataReplica", end: int) -> None:
        """Its log is that of another one up to there."""
        self.history = [moment for moment in other.history if moment[0] <= end]

    def at(self, position: int) -> tuple[dict[str, object], Ends]:
        """State and messages of its log up to there."""
        count = bisect_right(self.history, position, key=lambda moment: moment[0])
        return self.history[count - 1][1:] if count else (NOTHING, {})

    def crashed(self, number: int) -> "MetadataReplica":
        if self.was_cut:  # or the crash may bring back what was cut, of which nothing is noted here
            while self.write_one():
                pass
        left = super().crashed(number)
        left.has_log_of(self, left.store.end_position)
        return left

    def ends(self) -> Ends:
        """Messages of each queue that has some."""
        found = {(queue.topic, queue.queue_id): queue.next_offset for queue in self.store.queues()}
        return {key: end for key, end in found.items() if end and key[0] in NAMES}


class NotedTable:
    """Topics or groups, with a note after each change."""

    def __init__(self, table, note) -> None:
        self.table, self.note = table, note

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def put(self, config) -> None:
        self.table.put(config)
        self.note()


class MetadataPair(Pair):
    """`ends` are the messages of each queue in the leader's log."""

    kind = MetadataReplica
    leader: MetadataReplica
    follower: MetadataReplica

    def __init__(self, root: Path, seed: int) -> None:
        self.ends: Ends = {}
        super().__init__(root, seed)
        self.ensure_defaults()

    def ensure_defaults(self) -> None:
        """As a leader does; the log may be cut between any two of them."""
        tables = self.leader.metadata.topics, self.leader.metadata.groups
        topics, groups = (NotedTable(table, self.note) for table in tables)
        ensure_defaults(SimpleNamespace(topics=topics, groups=groups), DEFAULTS)

    def note(self) -> None:
        self.leader.changed()
        self.leader.history.append((self.leader.store.end_position, state_of(self.leader.metadata), dict(self.ends)))

    # ---- leadership

    def begin_epoch(self) -> None:
        end = self.leader.store.end_position
        self.depose()
        super().begin_epoch()
        if self.epoch > 1:
            self.check_elected(end)
        self.check_follower()

    def depose(self) -> None:
        """Who led forgets what is not committed, offsets that no record tells of included."""
        metadata = self.follower.metadata
        if metadata.leading:
            metadata.offsets.commit("a", "a", 0, self.random.randrange(100, 200))
            self.seen["deposed"] += 1
        metadata.demote()
        self.check_follower()

    def check_elected(self, end: int) -> None:
        """The new leader has everything that was in its log, and what is appended goes to the right places."""
        expected, ends = self.leader.at(end)
        self.ends = dict(ends)
        found = state_of(self.leader.metadata)
        barrier = found["epochs"][-1]
        assert barrier == (self.epoch, end)
        assert all(version.state_version == self.epoch for version in found["versions"])
        assert [v.counter for v in found["versions"]] == [v.counter for v in expected["versions"]]
        self.compare(self.leader, expected, but=("versions", "epochs"))
        assert found["epochs"] == [*expected["epochs"], barrier]
        assert self.leader.ends() == self.ends
        self.ensure_defaults()

    def compare(self, replica: MetadataReplica, expected: dict[str, object], but: tuple[str, ...] = ()) -> None:
        kept = replica.store.min_position
        found = state_of(replica.metadata, kept)
        deleted = {name: at for name, at in expected["deleted"].items() if at > kept}
        wanted = {**expected, "deleted": deleted}
        assert {key: found[key] for key in found if key not in but} == {
            key: wanted[key] for key in wanted if key not in but
        }
        assert replica.heard == found["topics"]

    # ---- the follower

    def received(self, out: ReceiveOutput) -> None:
        follower, metadata = self.follower, self.follower.metadata
        if out.cut is not None:
            metadata.cut(out.cut)
            follower.has_log_of(follower, out.cut)
            follower.was_cut = True
        if out.grown is not None:
            follower.has_log_of(self.leader, follower.store.end_position)
        metadata.advance(out.commit)
        self.check_follower()

    def check_follower(self) -> None:
        follower = self.follower
        if not follower.metadata.is_whole:
            self.seen["not whole"] += 1
            assert not len(follower.metadata.topics)
            assert not follower.metadata.pinned_position
            return
        self.compare(follower, follower.at(follower.store.committed_position)[0])

    def start_over(self, gone) -> None:
        super().start_over(gone)
        self.follower.has_log_of(self.leader, gone.point.position)
        self.check_follower()

    def crash_follower(self) -> None:
        super().crash_follower()
        self.check_follower()

    def retain(self, replica: MetadataReplica) -> None:
        if replica is self.leader:
            replica.metadata.request_snapshot()
        pinned = Position(replica.metadata.pinned_position)
        if replica.log.apply_retention(self.clock.now, pinned):
            replica.metadata.topics.forget_deletions(replica.store.min_position)
            self.seen["retention of the " + ("leader" if replica is self.leader else "follower")] += 1

    # ---- what the leader does

    def work(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            self.change()
            self.note()
        self.leader.metadata.end_pass()
        self.note()

    def change(self) -> None:
        random, metadata = self.random, self.leader.metadata
        topic, group, queue_id = random.choice(NAMES), random.choice(NAMES), random.randrange(QUEUES)
        kind = random.randrange(25)
        if kind < 8:
            self.send(topic, queue_id)
        elif kind < 11:
            metadata.topics.put(TopicConfig(topic, QUEUES, QUEUES, attributes={"n": str(random.randrange(4))}))
        elif kind < 13 and topic in metadata.topics:
            self.delete(topic)
        elif kind == 13:
            metadata.groups.put(GroupConfig(group, retries_max=random.randrange(5)))
        elif kind == 14:
            metadata.groups.delete(group, clean_offsets=random.random() < 0.5)
        elif kind == 15:
            metadata.offsets.reset(group, topic, {queue_id: random.randrange(99)})
        elif kind == 16 and metadata.offsets.pending_reset(group, topic, queue_id) is not None:
            metadata.offsets.take_reset(group, topic, queue_id)
        elif kind == 17:
            metadata.owners.take(group, random.choice(("", "c1", "c2")), [QueueName(topic, "red-a", queue_id)])
        elif kind < 23:
            metadata.offsets.commit(group, topic, queue_id, random.randrange(99))
            metadata.flush_pending()
        elif kind == 23 and topic in metadata.topics:
            self.delete(topic)
            self.note()
            metadata.topics.put(TopicConfig(topic, QUEUES, QUEUES))
            self.seen["made again"] += 1
        else:
            metadata.request_snapshot()

    def delete(self, topic: str) -> None:
        self.leader.metadata.topics.delete(topic)
        self.leader.store.delete_topic(topic)
        self.ends = {key: end for key, end in self.ends.items() if key[0] != topic}
        self.seen["deleted"] += 1

    def send(self, topic: str, queue_id: int) -> None:
        if topic not in self.leader.metadata.topics:
            return
        self.serial += 1
        body = b"%d:%s" % (self.serial, self.random.randbytes(self.random.choice((0, 30, 300, 1500))))
        self.leader.append(topic, queue_id, body, b"UNIQ_KEY\x01id%d\x02" % self.serial)
        self.ends[topic, queue_id] = self.ends.get((topic, queue_id), 0) + 1
