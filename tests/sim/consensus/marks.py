"""Rare states that the seeds are meant to reach; a generator that stops reaching one has become blind to it."""

from collections import Counter
from typing import TYPE_CHECKING

from logherd.model.names import Position
from logherd.raft.members import Configuration
from logherd.raft.memory import MemoryLog
from logherd.raft.output import (
    Answer,
    DoubtEnded,
    Event,
    MembersChanged,
    Output,
    ReadReady,
    Refusal,
    Refused,
    Role,
    RoleChanged,
    StorageStalled,
    Strange,
    Unknown,
)
from logherd.raft.record import Record
from logherd.replication.shipping import RefusedAck

if TYPE_CHECKING:
    from sim.consensus.member import Member

__all__ = ["MARKS", "Marks"]

MARKS = {
    "quorum-lost": "a leader stepped down because it heard no quorum",
    "leader-left": "a leader was removed by its own change and left",
    "handed-over": "a member stood because the leader told it to",
    "vote-split": "an election ended without a leader",
    "pre-vote-failed": "a pre-vote kept a term from being raised",
    "deposed-with-tail": "a leader lost its role with proposals pending",
    "storage-stalled": "a leader's disk did not answer for an election time-out",
    "lost-identity": "a message for a wiped disk reached its successor",
    "joint": "a joint configuration held",
    "learner": "a learner was added",
    "taken-back": "a configuration was cut from the log again",
    "outside": "a member led a group whose newest configuration leaves it out",
    "tail-cut": "a follower cut records that differed",
    "cut-across-segments": "a cut reached over a segment's border",
    "image-installed": "a follower started from the leader's image",
    "image-over-longer-log": "an image was installed below records that stayed",
    "copy-resumed": "a process started with part of an image on its disk",
    "vote-lost": "a hard state was lost before its flush",
    "tail-lost": "records were lost before their flush",
    "busy": "a proposal was refused because too much was uncommitted",
    "transferring": "a proposal was refused during a handover",
    "full": "a proposal was refused by a full disk",
    "stalled-refusal": "a proposal was refused because the disk was slow",
    "behind": "a change was given up because a new voter did not catch up",
    "read-follower": "a follower served a read",
    "read-refused": "a read was refused or dropped",
    "sole-voter": "a group of one committed",
    "two-leaders": "two members led at once, in different terms",
    "catching-up": "a leader's log began above what a follower needed",
    "one-way": "a message was lost in a direction whose opposite was open",
    "duplicate": "a message arrived twice",
    "reordered": "a message arrived after a later one",
    "straggler": "a message of a closed connection arrived after one of the next",
    "drifted": "a leader was elected whose clock runs a hundredth off somebody else's",
    "paused-leader": "a leader was paused, and somebody else led when it resumed",
    "promoted": "a learner became a voter",
    "removed": "a voter was removed",
    "replaced": "the successor of a wiped disk took its place among the voters",
    "doubtful": "a process started with a store that may have forgotten promises",
    "promise-forgotten": "damage took a hard state that had been flushed",
    "records-forgotten": "damage took records that had been flushed",
    "doubt-ended": "a doubtful member was brought up to a record committed since, and votes again",
    "slot-torn": "a write of term and vote was torn",
    "flush-failed": "a flush failed, and the process stopped",
    "no-space": "a batch found no space and was tried again",
    "boast-refused": "a follower claimed more than the leader ever had, and was not believed",
    "refused-start": "damage was refused by name, and the member came back as somebody new",
}

_CAUSES = {
    "quorum not heard": "quorum-lost",
    "no longer a voter": "leader-left",
    "leadership handed over": "handed-over",
    "election was not decided": "vote-split",
    "election lost": "vote-split",
    "pre-vote lost": "pre-vote-failed",
    "pre-vote was not answered": "pre-vote-failed",
}
_REFUSALS = {
    Refusal.BUSY: "busy",
    Refusal.TRANSFERRING: "transferring",
    Refusal.DISK_FULL: "full",
    Refusal.STORAGE_STALLED: "stalled-refusal",
    Refusal.BEHIND: "behind",
}


class Marks:
    """Counts what one run has reached."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()

    def after_step(self, member: "Member", output: Output) -> None:
        """Look at what a step did."""
        for event in output.events:
            self._on_event(member, event)
        for answer in output.answers:
            self._on_answer(member, answer)
        if output.load is not None:
            longer = member.store.end > output.load.point.position
            self.hits["image-over-longer-log" if longer else "image-installed"] += 1

    def _on_event(self, member: "Member", event: Event) -> None:
        if isinstance(event, RoleChanged):
            if event.cause in _CAUSES:
                self.hits[_CAUSES[event.cause]] += 1
            if event.role is Role.LEADER:
                self._on_leader(member)
        elif isinstance(event, MembersChanged):
            self._on_members(member, event.configuration)
        elif isinstance(event, RefusedAck):
            self.hits["boast-refused"] += 1
        elif isinstance(event, DoubtEnded):
            self.hits["doubt-ended"] += 1
        elif isinstance(event, StorageStalled):
            self.hits["storage-stalled"] += 1
        elif isinstance(event, Strange):
            self.hits["lost-identity"] += 1

    def _on_members(self, member: "Member", now: Configuration) -> None:
        self.hits["joint"] += now.joint
        self.hits["learner"] += bool(now.learners)
        before = member.world.observer.configuration_of(member.identity)
        graves = member.world.observer.graves
        gone = [peer for peer in before.voters if not now.is_voter(peer)]
        self.hits["promoted"] += any(peer in before.learners for peer in now.voters)
        self.hits["removed"] += bool(gone)
        if not now.joint:
            gone = [peer for peer in (*before.voters, *before.outgoing) if not now.is_voter(peer) and peer in graves]
            names = [peer.partition(".")[0] for peer in now.voters]
            self.hits["replaced"] += any(peer.partition(".")[0] in names for peer in gone)

    def _on_leader(self, member: "Member") -> None:
        ground = member.core.ground
        self.hits["outside"] += not ground.members.current.is_voter(ground.identity)
        self.hits["sole-voter"] += ground.members.current.voters == (ground.identity,)
        others = [other for other in member.world.members.values() if other is not member and other.alive]
        self.hits["drifted"] += any(abs(other.rate_ppm - member.rate_ppm) >= 10_000 for other in others)
        self.hits["two-leaders"] += any(other.core.role is Role.LEADER for other in others)
        base = ground.log.epochs.base.position
        self.hits["catching-up"] += any(other.store.end < base for other in others)

    def _on_answer(self, member: "Member", answer: Answer) -> None:
        if isinstance(answer, Refused) and answer.reason in _REFUSALS:
            self.hits[_REFUSALS[answer.reason]] += 1
        elif isinstance(answer, Refused):
            self.hits["read-refused"] += 1
        elif isinstance(answer, Unknown):
            self.hits["deposed-with-tail"] += 1
        elif isinstance(answer, ReadReady):
            self.hits["read-follower"] += member.core.role is not Role.LEADER

    def on_cut(self, at: Position, gone: list[Record], segment_bytes: int) -> None:
        """A log was cut."""
        if gone:
            self.hits["tail-cut"] += 1
            self.hits["cut-across-segments"] += at // segment_bytes != gone[-1].end // segment_bytes
            self.hits["taken-back"] += any(record.kind == 2 for record in gone)

    def on_power_loss(self, member: "Member") -> None:
        """Something may not have reached the disk."""
        disk, store = member.store.disk, member.store
        self.hits["vote-lost"] += disk.hard_state() != store.hard_state()
        self.hits["tail-lost"] += disk.end < store.end

    def on_boot(self, member: "Member") -> None:
        """A process has begun."""
        self.hits["copy-resumed"] += bool(member.store._staged[1])
        self.hits["doubtful"] += member.core.ground.doubtful

    def on_resume(self, member: "Member", leader: "Member | None") -> None:
        """A pause ends."""
        self.hits["paused-leader"] += member.core.role is Role.LEADER and leader is not None and leader is not member

    def on_damage(self, member: "Member", ghost: MemoryLog) -> None:
        """The store is open again; `ghost` is what had been flushed before."""
        before, now = ghost.hard_state(), member.store.hard_state()
        if before is not None and now is not None:
            kept = (now.term, now.vote or before.vote or "")
            self.hits["promise-forgotten"] += (before.term, before.vote or "") > kept
        self.hits["records-forgotten"] += ghost.end > member.store.end
