"""An omniscient observer: sees every core, every disk and every message, remembers what processes may forget.

The invariants are C1 to C7; each violation names its own. C2 and C4 look at what is on the disks, not at what the
cores believe.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.memory import MemoryLog
from logherd.raft.messages import Doubtful, VoteAnswer, VoteRequest
from logherd.raft.output import DoubtEnded, Output, Role
from logherd.raft.record import Record
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import Append, AppendAck, AppendReject, CopyAck, CopyChunk, Envelope, ReplicaId
from sim.consensus.marks import Marks

if TYPE_CHECKING:
    from sim.consensus.member import Member

__all__ = ["Observer", "Violation"]

_TAKEN = (AppendAck, AppendReject, CopyAck)


class Violation(AssertionError):
    """An invariant is broken."""


def _hold(condition: bool, rule: str, *values: object) -> None:
    if not condition:
        raise Violation(f"{rule}: {values!r}")


class Observer:
    """What the run has promised so far."""

    def __init__(self) -> None:
        self.leaders: dict[Epoch, ReplicaId] = {}
        self.votes: dict[tuple[ReplicaId, Epoch], ReplicaId] = {}
        self.ends: list[Position] = []
        self.seals: dict[Position, tuple[Epoch, int]] = {}
        self.commits: list[tuple[Epoch, Position]] = []
        """Each commit of a leader: its term, and how far."""
        self.states: dict[Position, int] = {}
        self.answered: Position = NOWHERE
        self.graves: dict[ReplicaId, MemoryLog] = {}
        self.ghosts: dict[ReplicaId, list[MemoryLog]] = {}
        """What doubtful members had acknowledged before each damage: it was true then, and they do not vote."""
        self.members: dict[ReplicaId, Member] = {}
        self.marks = Marks()
        self._suspects: dict[ReplicaId, None] = {}
        """Started with a store that may have forgotten promises, and not yet made good for by a leader."""
        self._generations: dict[tuple[ReplicaId, int, Epoch], int] = {}
        self._is_stale = False
        """Whether the message that is being taken belongs to an older connection than one taken before."""
        self._seen: dict[ReplicaId, tuple[Epoch, Position]] = {}
        self._configurations: dict[ReplicaId, Configuration] = {}
        """What held before the step: a commit is decided by that, and the same step may append the next one."""

    # ---- life of processes -------------------------------------------------------------------------------------

    def on_boot(self, member: "Member") -> None:
        """A process has begun with whatever its disk gave it."""
        self.marks.on_boot(member)
        self.members[member.identity] = member
        ground = member.core.ground
        term = self._seen.get(member.identity, (Epoch(0), NOWHERE))[0]
        _hold(ground.hard.term >= self._promised_term(member.identity), "C1: a durable term is never forgotten", term)
        self._seen[member.identity] = (ground.term, ground.progress.commit)
        self._configurations[member.identity] = now = ground.members.current
        if ground.hard.doubtful and now.voters != (member.identity,):
            self._suspects[member.identity] = None

    def on_damage(self, member: "Member", ghost: MemoryLog) -> None:
        """Flushed things are lost. The member is open again; what it promised in terms that it forgot is void."""
        self.marks.on_damage(member, ghost)
        hard = member.store.hard_state()
        if hard is not None and not hard.doubtful:
            return  # The damage hit what was not needed any more; the store has checked that nothing is gone.
        self.ghosts.setdefault(member.identity, []).append(ghost)
        known = hard.term if hard is not None else Epoch(0)
        for who, term in [vote for vote in self.votes if vote[0] == member.identity and vote[1] >= known]:
            del self.votes[who, term]

    def is_doubtful(self, identity: ReplicaId) -> bool:
        """Whether this member's store has promises that it may have forgotten."""
        member = self.members.get(identity)
        hard = member.store.hard_state() if member is not None else None
        return hard is not None and hard.doubtful

    def configuration_of(self, identity: ReplicaId) -> Configuration:
        """What the member believed before the step that is being looked at."""
        return self._configurations.get(identity, Configuration())

    def _promised_term(self, identity: ReplicaId) -> Epoch:
        return max((term for who, term in self.votes if who == identity), default=Epoch(0))

    def on_wipe(self, member: "Member") -> None:
        """The disk is gone; what it had held stays true of the past."""
        self.graves[member.identity] = member.store.disk
        self.members.pop(member.identity, None)

    # ---- after every step --------------------------------------------------------------------------------------

    def before_message(self, member: "Member", envelope: Envelope) -> None:
        """A message is about to be taken."""
        body = envelope.body
        if isinstance(body, (Append, CopyChunk)) and envelope.to == member.identity:
            key = (member.identity, member.life, envelope.epoch)
            newest = self._generations.get(key, 0)
            self._is_stale = body.generation < newest
            self._generations[key] = max(newest, body.generation)

    def after_step(self, member: "Member", output: Output) -> None:
        """Compare what the core has become with everything known; most steps change nothing of it."""
        if output.events or output.answers or output.load is not None:
            self.marks.after_step(member, output)
        if self._is_stale:
            self._is_stale = False
            answers = [envelope.body for envelope in output.messages if isinstance(envelope.body, _TAKEN)]
            _hold(not answers, "C3: nothing of a closed connection is taken", member.name, answers)
        core, ground, identity = member.core, member.core.ground, member.identity
        term, commit, now = ground.hard.term, ground.progress.commit, ground.members.current
        before = self._seen[identity]
        _hold(ground.log.end >= commit, "C3: what is committed is here", member.name)
        if core.role is Role.LEADER and self.leaders.get(term) != identity:
            self._check_leader(member)
        if (term, commit) != before:
            _hold(term >= before[0], "C1: terms never fall", member.name, term, before)
            _hold(commit >= before[1], "C3: commit never falls", member.name, commit, before)
            if commit > before[1]:
                self._check_commit(member, before[1])
            self._seen[identity] = (term, commit)
        if self._configurations[identity] is not now:
            self._configurations[identity] = now
        if any(isinstance(event, DoubtEnded) for event in output.events) or now.voters == (identity,):
            self.ghosts.pop(identity, None)
            self._suspects.pop(identity, None)

    def _check_leader(self, member: "Member") -> None:
        """A leader of a term that had none yet."""
        term = member.core.ground.term
        known = self.leaders.setdefault(term, member.identity)
        _hold(known == member.identity, "C1: one leader in a term", term, known, member.identity)
        # A vote that arrives late may make a leader of a term that is over: it need not hold what came after.
        before = [end for by, end in self.commits if by < term]
        if before:
            self._check_held(member, before[-1], "C3: a leader holds everything committed before its term")

    def _check_held(self, member: "Member", end: Position, rule: str) -> None:
        log = member.core.ground.log
        if end >= log.epochs.base.position:
            held = end <= log.end and log.seal_at(end) == self.seals[end][1]
            _hold(held, rule, member.name, end, log.end, log.epochs)

    def _check_commit(self, member: "Member", before: Position) -> None:
        log, commit = member.core.ground.log, member.core.ground.progress.commit
        last = self.ends[-1] if self.ends else NOWHERE
        if commit <= last:
            known = self.seals.get(commit)
            _hold(known is not None, "C3: a commit ends at a committed record", member.name, commit)
            self._check_held(member, commit, "C3: no two logs commit different records")
            return
        if last > NOWHERE:
            self._check_held(member, last, "C3: no two logs commit different records")
        leads = self.leaders.get(member.core.ground.term) == member.identity
        _hold(leads, "C4: a leader is the first to commit", member.name, commit, before)
        _hold(log.epochs.epoch_at(commit) == member.core.ground.term, "C4: a leader commits by its own term", commit)
        self._check_quorum(member, commit)
        self.commits.append((member.core.ground.term, commit))
        for record in log.records(max(last, log.epochs.base.position), commit):
            self.ends.append(record.end)
            self.seals[record.end] = (record.epoch, record.checksum)

    def _check_quorum(self, member: "Member", commit: Position) -> None:
        ground = member.core.ground
        seal = ground.log.seal_at(commit)
        configuration = self._configurations[member.identity]
        for half in (configuration.voters, configuration.outgoing):
            holders = [peer for peer in half if self._durable(peer, commit, seal)]
            enough = not half or len(holders) * 2 > len(half)
            _hold(enough, "C4: durable on a quorum", member.name, commit, half, holders)

    def _durable(self, peer: ReplicaId, end: Position, seal: int) -> bool:
        if peer not in self.members and peer not in self.graves:
            return False
        disk = self.members[peer].store.disk if peer in self.members else self.graves[peer]
        return any(_holds(held, end, seal) for held in (disk, *self.ghosts.get(peer, ())))

    # ---- messages ----------------------------------------------------------------------------------------------

    def on_send(self, member: "Member", envelope: Envelope) -> None:
        """What leaves must already be true on the disk."""
        body = envelope.body.answer if isinstance(envelope.body, Doubtful) else envelope.body
        if isinstance(body, VoteAnswer) and body.granted and not body.pre:
            self._check_vote(member, envelope.epoch, envelope.to)
        elif isinstance(body, VoteRequest) and not body.pre:
            self._check_vote(member, envelope.epoch, envelope.sender)
        elif isinstance(body, AppendAck):
            disk, log = member.store.disk, member.store
            hard = disk.hard_state()
            _hold(hard is not None and hard.term >= envelope.epoch, "C2: the term is durable before an ack", envelope)
            if body.durable > disk.epochs.base.position and body.durable >= log.epochs.base.position:
                same = body.durable <= disk.end and disk.seal_at(body.durable) == log.seal_at(body.durable)
                _hold(same, "C2: records are durable before an ack", envelope, disk.end)

    def _check_vote(self, member: "Member", term: Epoch, candidate: ReplicaId) -> None:
        hard = member.store.disk.hard_state()
        _hold(member.identity not in self._suspects, "C6: who may have forgotten a vote gives none", member.name, term)
        durable = hard is not None and (hard.term > term or (hard.term == term and hard.vote == candidate))
        _hold(durable, "C2: a vote is durable before it leaves", member.name, term, candidate, hard)
        given = self.votes.setdefault((member.identity, term), candidate)
        _hold(given == candidate, "C1: one vote in a term", member.name, term, given, candidate)

    # ---- logs and state ----------------------------------------------------------------------------------------

    def on_truncate(self, member: "Member", at: Position, gone: list[Record]) -> None:
        """Records are cut from a log."""
        self.marks.on_cut(at, gone, member.world.shape.segment_bytes)
        leads = member.core.role is Role.LEADER
        _hold(not leads, "C3: a leader never cuts its own log", member.name, at)
        for record in gone:
            known = self.seals.get(record.end)
            cut = known is not None and known[1] == record.checksum
            _hold(not cut, "C3: a committed record is never cut", member.name, at, record.end)

    def on_applied(self, member: "Member") -> None:
        """A state machine has moved."""
        machine = member.machine
        digest = self.states.setdefault(machine.position, machine.digest)
        _hold(digest == machine.digest, "C5: one state after one position", member.name, machine.position)
        committed = not machine.position or machine.position in self.seals
        _hold(committed, "C5: only what is committed is applied", member.name, machine.position)

    def on_answered(self, position: Position) -> None:
        """A client was told that this much is committed."""
        self.answered = max(self.answered, position)

    def on_read(self, member: "Member", floor: Position) -> None:
        """A read is served by a state; everything answered before it began must be in it."""
        seen = member.machine.position
        _hold(seen >= floor, "C7: a read is as new as what was answered before it", member.name, seen, floor)
        self.on_answered(seen)

    def committed_between(self, after: Position) -> int:
        """How many records were committed above a position; for reports."""
        return len(self.ends) - bisect_right(self.ends, after)


def _holds(disk: MemoryLog, end: Position, seal: int) -> bool:
    if end < disk.epochs.base.position:
        return True
    return end <= disk.end and disk.seal_at(end) == seal
