"""The follower (and learner): it takes what the leader ships and stands for election when it hears nothing."""

from collections import deque
from dataclasses import dataclass

from logherd.kit.errors import ensure
from logherd.raft.ground import Exchange, Ground, Turn, TurnTo
from logherd.raft.inputs import Read
from logherd.raft.messages import Doubtful, Trusted
from logherd.raft.output import Refusal, Role
from logherd.raft.pending import READS_MAX
from logherd.replication.messages import (
    Append,
    CopyChunk,
    Envelope,
    Heartbeat,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    ShippingRequest,
)
from logherd.replication.receiver import Flushed, FromLeader, ReceiveOutput, Receiver

__all__ = ["Follower", "election_timeout"]


def election_timeout(ground: Ground) -> int:
    """A fresh deadline: drawn at random, later for members that are less preferred, and after those of all others where
    clients' records would be refused."""
    options = ground.options
    if options.first_election_ms is not None and ground.early:
        delay = ground.jitter.below(options.first_election_ms)
    else:
        delay = options.election_ms + ground.jitter.below(options.election_spread_ms)
    if ground.short:
        delay += options.election_spread_ms + len(options.preferred) * options.rank_delay_ms
    return ground.clock.now + delay + options.rank(ground.identity) * options.rank_delay_ms


@dataclass(frozen=True, slots=True)
class _Forwarded:
    """A read that the leader was asked about."""

    number: int
    request: int
    deadline: int


class Follower:
    """Follows the leader of one term, once it is known."""

    def __init__(self, ground: Ground, leader: ReplicaId | None) -> None:
        self._ground = ground
        self._receiver: Receiver | None = None
        self._deadline = election_timeout(ground)
        self._asked: deque[_Forwarded] = deque()
        self._doubt = ground.jitter.next() if ground.doubtful else 0
        self.leader = leader

    @property
    def role(self) -> Role:
        """Always a follower; a learner is one that no configuration counts."""
        return Role.FOLLOWER

    def rearm(self) -> None:
        """Wait a full time-out again: the leader lives, or a vote was given."""
        self._deadline = election_timeout(self._ground)

    def on_tick(self) -> Turn | None:
        """Stand for election after silence, unless this member must not or cannot lead."""
        now = self._ground.clock.now
        while self._asked and self._asked[0].deadline <= now:
            self._ground.refuse(self._asked.popleft().request, Refusal.TIMED_OUT, self.leader)
        if now < self._deadline:
            return None
        self.rearm()
        ground = self._ground
        if not ground.may_lead or ground.unable or ground.quarantined or ground.doubtful:
            return None
        return Turn(TurnTo.PRE_CANDIDATE, "heard no leader")

    def on_leader(self, envelope: Envelope) -> None:
        """Take a request of the leader of this term."""
        ground, body = self._ground, envelope.body
        ensure(self.leader in (None, envelope.sender), "one leader in a term", self.leader, envelope)
        if self.leader is None:
            self.leader = envelope.sender
            ground.report(Role.FOLLOWER, self.leader, "heard the leader")
        ground.clock.leader_heard_at = ground.clock.now
        if not ground.led:
            ground.progress.exchange = Exchange(ground.term)
        self.rearm()
        if ground.full and not isinstance(body, Heartbeat):
            return
        if isinstance(body, (Append, Heartbeat, CopyChunk)):
            self._receive(envelope.sender, body)

    def on_flushed(self) -> Turn | None:
        """Acknowledge what the flush covered, in one message."""
        if self._receiver is not None and self.leader is not None:
            self._carry_out(self.leader, self._receiver.step(Flushed(), self._ground.clock.now))
        return None

    def on_read(self, read: Read) -> None:
        """Ask the leader how new the state must be."""
        ground = self._ground
        if self.leader is None or len(self._asked) + ground.progress.granted.count >= READS_MAX:
            ground.refuse(read.request, Refusal.NOT_LEADER, self.leader)
            return
        number = ground.jitter.next()
        deadline = ground.clock.now + ground.options.election_ms
        self._asked.append(_Forwarded(number, read.request, deadline))
        ground.send(self.leader, ReadAsk(number))

    def on_read_grant(self, grant: ReadGrant) -> None:
        """The leader's answer; a number that is not waited for belongs to an earlier life."""
        for asked in self._asked:
            if asked.number == grant.number:
                self._asked.remove(asked)
                if grant.position is None:
                    self._ground.refuse(asked.request, Refusal.NOT_READY, self.leader)
                else:
                    self._ground.grant_read(asked.request, grant.position)
                return

    def on_trusted(self, trusted: Trusted) -> None:
        """The leader's answer to the doubt of this life; taken once all of it is here, and it is said again."""
        ground, position = self._ground, trusted.position
        reached = min(ground.progress.commit, ground.durable.position) >= position
        if ground.doubtful and trusted.number == self._doubt and reached:
            ground.trust(position)

    def close(self) -> None:
        """The role ends: nobody will answer what was asked of the leader of this term."""
        for asked in self._asked:
            self._ground.refuse(asked.request, Refusal.NOT_LEADER)
        self._asked.clear()

    def _receive(self, leader: ReplicaId, body: ShippingRequest) -> None:
        ground = self._ground
        if self._receiver is None:
            known = ground.progress.exchange
            self._receiver = Receiver(
                ground.log, ground.durable, ground.progress.commit,
                generation=known.generation, verified=known.verified,
            )  # fmt: skip
        busy = ground.full or ground.stalled
        done = self._receiver.step(FromLeader(body, busy, ground.disk.unwilling), ground.clock.now)
        ground.progress.exchange = Exchange(ground.term, self._receiver.generation, self._receiver.verified)
        self._carry_out(leader, done)

    def _carry_out(self, leader: ReplicaId, done: ReceiveOutput) -> None:
        ground = self._ground
        if done.cut is not None:
            ground.cut_members(done.cut)
        if done.grown is not None:
            ground.read_new_members(done.grown)
        if done.installed is not None:
            ground.install(done.installed)
        if done.wrote:
            ground.wrote()
        ground.commit(done.commit)
        for answer in done.answers:
            ground.confirm(leader, Doubtful(self._doubt, answer) if ground.doubtful else answer)
