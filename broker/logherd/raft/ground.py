"""What every role of one member shares: its log, its promises, its members, and how far things are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from logherd.kit.errors import broken, ensure
from logherd.kit.recurrence import Recurrence
from logherd.model.names import Epoch, Position
from logherd.raft.inputs import DiskFull
from logherd.raft.members import Configuration, MembersLog
from logherd.raft.options import Jitter, RaftOptions
from logherd.raft.output import (
    DoubtEnded,
    MembersChanged,
    Outbox,
    Output,
    ReadReady,
    Refusal,
    Refused,
    Role,
    RoleChanged,
    StorageStalled,
)
from logherd.raft.pending import GrantedReads
from logherd.raft.record import Kind
from logherd.raft.store import HardState, LogStore
from logherd.replication.durable import DurableEnd
from logherd.replication.epochs import NOWHERE, Point
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, Envelope, ReplicaId

__all__ = ["Clockwork", "Exchange", "Ground", "Progress", "Turn", "TurnTo"]

_EARLY = 5
"""So many election time-outs after the start of a member that was silent, the others have started too, or do not."""
_ALWAYS = 1 << 62
_RELIEF_DOUBLINGS_MAX = 3
"""All the while clients' records are refused, though somebody has space."""
_LONELY = 5
"""After so many election time-outs others, if there were any, have elected somebody or asked for a vote."""


class TurnTo(Enum):
    """Which role a handler wants next."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of role that a handler asks for; the core carries it out. `votes`: of an election that was won."""

    to: TurnTo
    cause: str
    leader: ReplicaId | None = None
    transfer: bool = False
    votes: tuple[ReplicaId, ...] = ()


@dataclass(slots=True)
class Clockwork:
    """Times of this member, in milliseconds of a clock that runs on during suspension and never goes back."""

    now: int
    started_at: int
    """Since when this life, and any before it, has promised nothing that is not on disk."""
    leader_heard_at: int | None = None
    early: tuple[Epoch, int] | None = None
    """In this term and until this time there is nobody to wait for, unless a leader is heard."""
    hasty: Mapping[ReplicaId, int] = field(default_factory=dict)
    """Whose shortest election time-out is shorter than this member's, and how long it is."""
    owed_ms: int = 0
    """The longest of the shortest time-outs by which lives before this one may have been counted on."""
    began_at: int = 0
    """When this life did."""
    asked: bool = False
    """Whether somebody whose log goes on behind the end of this one has asked for this member's vote."""


class Exchange(NamedTuple):
    """What a follower knows of its exchange with the leader of `term`: the newest generation seen, and up to where its
    log is that leader's. It outlives a pre-vote that was lost: nothing of a connection that was closed before is taken
    after it, and a leader that has nothing to send need not compare again before its commit is believed."""

    term: Epoch = Epoch(0)
    generation: int = 0
    verified: Position = NOWHERE


@dataclass(slots=True)
class Progress:
    """How far things are. Invariants: (1) commit <= end of the log, and never falls; (2) applied <= commit."""

    commit: Position
    applied: Position
    announced: Position
    """Up to where the shell has been told to apply."""
    compactable: Position
    """Where the image before the newest one was made; the log below it may go."""
    exchange: Exchange = field(default_factory=Exchange)
    granted: GrantedReads = field(default_factory=GrantedReads)
    """Reads that wait until enough is applied."""


@dataclass(slots=True)
class _Tokens:
    """What this step wants flushed, what the newest promise (term and vote) waits for, and the log's end as noted."""

    end: Position
    flush: int | None = None
    promised: int = 0


@dataclass(slots=True)
class _Disk:
    """`full`: no records can be taken. `short`: none of clients, since `short_since`. `barrier`: that of a term can be
    appended. `broken`: the store does not work. `relieved`: that this member has given leadership away while it was
    short."""

    full: bool = False
    short: bool = False
    barrier: bool = True
    broken: bool = False
    short_since: int = 0
    relieved: Recurrence = field(default_factory=lambda: Recurrence(doublings_max=_RELIEF_DOUBLINGS_MAX))

    @property
    def unwilling(self) -> bool:
        """Whether nobody should hand leadership over to this member."""
        return self.short or self.broken or not self.barrier

    def fill(self, news: DiskFull, now: int) -> None:
        """How much room there is from now on."""
        if news.short and not self.short:
            self.short_since = now
        self.full, self.short, self.barrier = news.full, news.short, news.barrier

    def wants_relief(self, first_ms: int, now: int) -> bool:
        """Whether a leader should give leadership to who has space: at once if it can take no records at all, else when
        that has been so for a while, and for twice as long after each time. Members whose space comes and goes in turn
        would otherwise pass leadership around for ever; those that share a disk do not all look at once."""
        return self.full or (self.short and now - self.short_since >= self.relieved.wait_ms(first_ms, now))


def _begin(options: RaftOptions, hard: HardState, now: int, silent_since: int | None) -> Clockwork:
    """In term 0 no life of this member can have promised anything: it would be in that leader's or candidate's term."""
    ensure(silent_since is None or silent_since <= now, "the last life ended before this one began", silent_since, now)
    if options.first_election_ms is None:
        return Clockwork(now, now if silent_since is None else silent_since)
    if hard.term == 0:
        return Clockwork(now, now if hard.doubtful else now - options.election_ms, early=(hard.term, _ALWAYS))
    if silent_since is None:
        return Clockwork(now, now)
    rested = now - silent_since >= options.election_ms
    return Clockwork(now, silent_since, early=(hard.term, now + _EARLY * options.election_ms) if rested else None)


class Ground:
    """The state that survives a change of role, with the few operations that must not be done twice or differently.

    Invariants: (1) the term never falls, and the vote is cleared only when it grows; (2) a cut never reaches below
    the commit position; (3) `members.current` is what the newest configuration record of the log says.
    """

    def __init__(
        self, options: RaftOptions, log: LogStore, hard: HardState, *, commit: Position, seed: int, now: int,
        silent_since: int | None = None, owed_ms: int = 0,
    ) -> None:  # fmt: skip
        self.hard = hard
        self.identity: ReplicaId = hard.owner
        """Who this is."""
        self.options = options
        self.log = log
        self.jitter = Jitter(seed)
        self.out = Outbox()
        self.clock = _begin(options, hard, now, silent_since)
        self.clock.owed_ms, self.clock.began_at = max(owed_ms, options.election_ms), now
        self.durable = DurableEnd(log.end)
        self.disk = _Disk()
        self.members = read_members(log)
        image = log.image()
        base = log.epochs.base.position
        start = max(commit, image.point.position if image else base)
        ensure(start <= log.end, "progress 1: what is committed is here", start, log.end)
        self.progress = Progress(start, start, start, base)
        self._tokens = _Tokens(log.end)

    @property
    def term(self) -> Epoch:
        """The term that this member is in."""
        return self.hard.term

    @property
    def last(self) -> Point:
        """The last record, always asked of the log itself: a stale copy of it would win elections it must lose."""
        return self.log.epochs.point_at(self.log.end)

    @property
    def led(self) -> bool:
        """Whether this life has heard the leader of the term."""
        return self.progress.exchange.term == self.term

    @property
    def stalled(self) -> bool:
        """Whether the oldest flush has been waiting for an election time-out."""
        since = self.durable.waiting_since
        return since is not None and self.clock.now - since >= self.options.election_ms

    @property
    def full(self) -> bool:
        """Whether no records can be taken."""
        return self.disk.full

    @property
    def short(self) -> bool:
        """Whether no records of clients can be taken."""
        return self.disk.full or self.disk.short

    @property
    def notable(self) -> bool:
        """Whether a record of Raft's own can be appended: an owner's log without room raises, and the process ends."""
        return not (self.disk.full and self.options.owner_appends)

    @property
    def unable(self) -> bool:
        """Whether this member's disk would not let it lead."""
        return self.stalled or self.disk.full or self.disk.broken or not self.disk.barrier

    @property
    def grown(self) -> bool:
        """Whether the log's owner has written to it since that was noted."""
        return self.log.end != self._tokens.end

    @property
    def may_lead(self) -> bool:
        """Whether this member counts as a voter, or may turn out to be one still."""
        return self.members.counts(self.identity, self.progress.commit)

    @property
    def quarantined(self) -> bool:
        """Whether a promise made before a restart may still be owed: no vote for one shortest election time-out, that
        of an earlier life if it was longer.

        The only voter of a group has promised nobody anything.
        """
        alone = self.members.current.members == (self.identity,)
        return not alone and self.clock.now - self.clock.started_at < self.clock.owed_ms

    def hear_patience(self, election_ms: Mapping[ReplicaId, int]) -> None:
        """Others tell how long they wait for a leader at least."""
        self.clock.hasty = {peer: waits for peer, waits in election_ms.items() if waits < self.options.election_ms}

    @property
    def early(self) -> bool:
        """Whether everybody has just begun, so that there is no leader to wait for."""
        clock = self.clock
        return (
            clock.early is not None
            and clock.early[0] == self.term
            and clock.now < clock.early[1]
            and (clock.leader_heard_at is None)
        )

    @property
    def doubtful(self) -> bool:
        """Whether something promised may have been forgotten, so that this member joins without a vote (doubt.py)."""
        return self.hard.doubtful and not self._alone

    @property
    def _alone(self) -> bool:
        """Whether this is the only voter, so that nobody could help it. Its log alone does not say so: what damage has
        taken from that may have named others. They would have been heard since, as leader or as candidate."""
        current, clock = self.members.current, self.clock
        if current.voters != (self.identity,) or current.joint or clock.asked or clock.leader_heard_at is not None:
            return False
        return clock.now - clock.began_at >= _LONELY * self.options.election_ms

    def promise(self, term: Epoch, vote: ReplicaId | None) -> int:
        """Write the hard state; gives the token after which it may be relied on."""
        same_term_vote_kept = term == self.term and self.hard.vote in (None, vote)
        ensure(term > self.term or same_term_vote_kept, "ground 1: terms rise, a vote stays", self.hard, term, vote)
        # A doubt ends only with the own candidacy: the word that there are others may be what brings this term.
        self._keep(replace(self.hard, term=term, vote=vote, doubtful=self.hard.doubtful and vote != self.identity))
        self._tokens.promised = self.durable.token
        return self._tokens.promised

    def trust(self, position: Position) -> None:
        """Enough is here again, durably: from now on this member votes and counts."""
        self._keep(replace(self.hard, doubtful=False))
        self.out.events.append(DoubtEnded(position))

    def _keep(self, hard: HardState) -> None:
        self.hard = hard
        self.log.keep_hard_state(hard)
        self.wrote()

    def begin_reset(self, reset: int, term: Epoch, vote: ReplicaId) -> None:
        """An operator replaced the quorum: another cluster from now on, in a term of its own."""
        ensure(term > self.term, "ground 1: terms rise", self.hard, term)
        cluster = ClusterId(self.hard.cluster.name, reset)
        self._keep(replace(self.hard, cluster=cluster, term=term, vote=vote, doubtful=False))
        self._tokens.promised = self.durable.token

    def wrote(self) -> int:
        """Note a change of the store; gives the token that covers everything so far."""
        end = self._tokens.end = self.log.end
        token = self._tokens.flush = self.durable.wrote(end, self.clock.now)
        return token

    def append(self, kind: Kind, body: bytes) -> Position:
        """Append one record of this term; only a leader (or an operator's recovery) does."""
        return self.append_all(kind, (body,))[0]

    def append_all(self, kind: Kind, bodies: Sequence[bytes]) -> list[Position]:
        """Append records of this term, which one flush covers; gives the end of each."""
        ends = self.log.append_all(kind, self.term, bodies)
        self.wrote()
        return ends

    def adopt(self, configuration: Configuration, end: Position) -> None:
        """A configuration record was appended that ends at `end`: it holds from now on."""
        if self.options.owner_appends:  # Its log is not compacted from here, and members are restated again and again.
            self.members.forget(min(self.progress.commit, self.durable.position))
        self.members.add(end, configuration)
        self.out.events.append(MembersChanged(configuration, end))

    def read_new_members(self, after: Position) -> None:
        """Records after `after` are new: adopt the configurations among them."""
        for record in self.log.records(after, self.log.end):
            if record.kind is not Kind.DATA and record.kind in (Kind.MEMBERS, Kind.RESET):
                self.adopt(Configuration.decode(record.body), record.end)

    def cut_members(self, at: Position) -> None:
        """The log was cut: a configuration that was only appended holds no longer."""
        ensure(at >= self.progress.commit, "ground 2: committed records stay", at, self.progress.commit)
        if self.members.cut(at):
            self.out.events.append(MembersChanged(self.members.current, self.members.since))

    def commit(self, position: Position) -> bool:
        """Take a commit position; True if it is news."""
        if position <= self.progress.commit:
            return False
        end = self.log.end
        if position > end:
            broken("progress 1: what is committed is here", position, end)
        self.progress.commit = position
        return True

    def install(self, image: Image) -> None:
        """An image of the leader is now the base of the log: the shell is to load it before it applies anything."""
        at = image.point.position
        self.members.rebase(Configuration.decode(image.note), at)
        self.read_new_members(at)
        self.out.load = image
        self.out.events.append(MembersChanged(self.members.current, self.members.since))
        self.progress.announced = max(self.progress.announced, at)

    def applied(self, position: Position) -> None:
        """The state machine is at `position`: reads that waited for it are ready."""
        ensure(position <= self.progress.commit, "progress 2: only what is committed is applied", position)
        progress = self.progress
        progress.applied = max(progress.applied, position)
        self.out.answers.extend(progress.granted.reach(position))

    def grant_read(self, request: int, position: Position) -> None:
        """This read may be served by a state at or beyond `position`."""
        if self.progress.applied >= position:
            self.out.answers.append(ReadReady(request, position))
        else:
            self.progress.granted.add(position, request, self.clock.now + self.options.election_ms)

    def expire_reads(self, leader: ReplicaId | None) -> None:
        """Answer the reads for which this member has been behind too long, as one is that takes no records."""
        for request in self.progress.granted.expire(self.clock.now):
            self.refuse(request, Refusal.TIMED_OUT, leader)

    def drop_reads(self) -> None:
        """The role ends: whoever leads next may be asked at once."""
        for request in self.progress.granted.abandon():
            self.refuse(request, Refusal.NOT_LEADER)

    def refuse(self, request: int, reason: Refusal, leader: ReplicaId | None = None) -> None:
        """Answer that nothing was begun."""
        self.out.answers.append(Refused(request, reason, leader))

    def report_stall(self) -> None:
        """Say that the disk does not answer."""
        self.out.events.append(StorageStalled(self.durable.waiting_since or self.clock.now))

    def report(
        self, role: Role, leader: ReplicaId | None, cause: str, *, ready: bool = False,
        votes: tuple[ReplicaId, ...] = (),
    ) -> None:  # fmt: skip
        """Say once what role this member now has."""
        self.out.events.append(RoleChanged(role, self.term, leader, cause, ready, votes))

    def send(self, to: ReplicaId, body: object, *, term: Epoch | None = None) -> None:
        """A message that depends on nothing that is not durable yet."""
        envelope = Envelope(self.hard.cluster, self.identity, to, self.term if term is None else term, body)
        self.out.messages.append(envelope)

    def confirm(self, to: ReplicaId, body: object) -> None:
        """A message that says that something is durable in this term: the term itself must be."""
        if self.durable.flushed_token >= self._tokens.promised:
            self.send(to, body)
        else:
            self.hold(to, body)

    def hold(self, to: ReplicaId, body: object) -> None:
        """A message that leaves only when everything written so far is durable."""
        if self.durable.waiting_since is None:
            self.send(to, body)
            return
        self._tokens.flush = self.durable.token
        self.out.held.append(Envelope(self.hard.cluster, self.identity, to, self.term, body))

    def finish(self) -> Output:
        """The output of the step. Nothing is applied before it is committed and flushed here."""
        progress, flushed = self.progress, self.durable.position
        upto = progress.commit if progress.commit < flushed else flushed
        apply_to = None
        if upto > progress.announced:
            progress.announced = apply_to = upto
        flush, self._tokens.flush = self._tokens.flush, None
        return self.out.drain(flush, apply_to)


def read_members(log: LogStore) -> MembersLog:
    """The configurations of a log as it was found: the image's, then every later one of the log."""
    image, base = log.image(), log.epochs.base.position
    if image is None:
        known = MembersLog(Configuration(), base)
    else:
        base = image.point.position
        known = MembersLog(Configuration.decode(image.note), base)
    for record in log.records(base, log.end):
        if record.kind in (Kind.MEMBERS, Kind.RESET):
            known.add(record.end, Configuration.decode(record.body))
    return known
