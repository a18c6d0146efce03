"""The leader: it appends, ships, commits, answers reads, changes members and hands over. All of it is volatile.

One object holds everything that ends with the leadership, so that nothing of it can survive a change of role.
"""

from logherd.kit.errors import broken
from logherd.model.names import Position
from logherd.raft.changing import Changing
from logherd.raft.doubt import Doubts
from logherd.raft.ground import Ground, Turn, TurnTo
from logherd.raft.handover import Handover
from logherd.raft.inputs import ChangeMembers, Propose, Read, Transfer
from logherd.raft.lease import Lease
from logherd.raft.members import Configuration, Goal
from logherd.raft.messages import Doubtful
from logherd.raft.output import Refusal, Role
from logherd.raft.pending import READS_MAX, PendingReads, Proposals, WaitingRead
from logherd.raft.record import Kind
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import (
    AppendAck,
    AppendReject,
    CopyAck,
    Envelope,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
)
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import (
    Beat,
    Committed,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    MutedSet,
    ShipInput,
    ShipperTick,
)

__all__ = ["Leader"]


class Leader:
    """Invariants: (1) commit moves only to a record of the own term that is durable on a quorum of the newest

    configuration; (2) reads and proposals are served only once the first record of the own term is committed;
    (3) after TimeoutNow has been sent, no lease read is served in this term: the straggler may still elect somebody.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._ship = Shipper(ground.log, ground.options.ship, commit=ground.progress.commit, now=ground.clock.now)
        self._doubts = Doubts(ground)
        self._lease = Lease(ground, self._ship.rounds, self._doubts.peers)
        self._proposals = Proposals()
        self._reads = PendingReads()
        self._changing = Changing(ground, self._ship, self._lease)
        self._handover = Handover(ground, self._ship, self._lease, self._doubts.peers)
        self._ready = False
        self._muted = False
        self._first: Position | None = None
        self._restated_at = ground.clock.now

    @property
    def role(self) -> Role:
        """For reports."""
        return Role.LEADER

    @property
    def leader(self) -> ReplicaId | None:
        """Itself."""
        return self._ground.identity

    @property
    def ready(self) -> bool:
        """Whether the first record of this term is committed here."""
        return self._ready

    @property
    def shipper(self) -> Shipper:
        """What is known of the followers; for status and tests."""
        return self._ship

    @property
    def quorum_recent(self) -> bool:
        """Whether a quorum has been heard within the shortest election time-out."""
        return self._lease.quorum_heard_at() + self._ground.options.election_ms > self._ground.clock.now

    # ---- beginning and end -------------------------------------------------------------------------------------

    def start(self) -> Turn | None:
        """Append the record whose commit makes everything before it committed, and ship it; or let the owner do so."""
        self._follow()
        if not self._ground.options.owner_appends:
            self._first = self._ground.append(Kind.NOOP, b"")
            self._proposals.add(self._first, 0, None)
        self._shipped(ShipperTick())
        return self._advance()

    def on_growth(self) -> None:
        """The owner has appended, the first record of the term first."""
        ground = self._ground
        if ground.log.epochs.last_epoch != ground.term:
            broken("a leader appends in its own term", ground.log.epochs)
        if self._first is None:
            self._first = ground.log.end
        ground.wrote()
        self._shipped(Grown())

    def leased(self, now: int) -> bool:
        """Whether it may serve at this moment without asking anybody."""
        return self._ready and self._lease.valid_at(now)

    @property
    def leased_until(self) -> int:
        """When that ends unless more is heard; 0 if it may not serve."""
        return self._lease.until() if self._ready else 0

    @property
    def handing_over(self) -> ReplicaId | None:
        """To whom leadership is being handed."""
        return self._handover.target

    @property
    def changing(self) -> bool:
        """Whether members are being changed, or a change is not committed yet."""
        return self._changing.running or self._ground.members.since > self._ground.progress.commit

    @property
    def goal(self) -> Goal | None:
        """Towards which members a change is on its way."""
        return self._changing.goal

    @property
    def given_away(self) -> bool:
        """Whether that one has been told to stand, so that there is no lease any more in this term."""
        return self._handover.sent

    def leave(self, cause: str) -> Turn:
        """Let go at once; whoever is closest may stand."""
        self._handover.leave()
        return Turn(TurnTo.FOLLOWER, cause)

    def close(self) -> None:
        """The role ends: everything that waited for it gets its one answer."""
        ground = self._ground
        ground.out.answers.extend(self._proposals.abandon())
        for read in self._reads.abandon():
            if read.asker is None:
                ground.refuse(read.number, Refusal.NOT_LEADER)
        self._changing.close()
        self._handover.close()

    # ---- time and disk -----------------------------------------------------------------------------------------

    def on_tick(self) -> Turn | None:
        """Check the quorum, the disk, the handover and the change; then let shipping see the time."""
        ground = self._ground
        if ground.stalled != self._muted:
            self._muted = ground.stalled
            self._shipped(MutedSet(self._muted))
            if self._muted:
                ground.report_stall()
        if not self.quorum_recent:
            return Turn(TurnTo.FOLLOWER, "quorum not heard")
        if self._first is None:
            return self.leave("its first record was not appended")  # The owner appends it at once, or not at all.
        self._changing.on_tick()
        ignored = self._handover.on_tick(blocked=self._stays)
        if ignored and ground.options.owner_appends:
            return Turn(TurnTo.FOLLOWER, "leadership was not taken over")  # It has no lease any more in this term.
        if self._lease.beat_due():
            self._shipped(Beat())
        self._shipped(ShipperTick())
        self._restate()
        return self._advance()

    @property
    def _stays(self) -> bool:
        """Whether it does not look for a better leader now: not while members are changed. But a change may wait for
        new voters for as long as somebody wants them, and without space every record of clients is refused meanwhile.
        """
        ground = self._ground
        waits = ground.short and ground.members.since <= ground.progress.commit
        return not self._ready or (self._changing.running and not waits)

    def on_flushed(self) -> Turn | None:
        """The own disk is one of those that are counted."""
        return self._advance()

    def on_pause(self) -> None:
        """Time has jumped: what was known of the others is old, but they may have answered meanwhile."""
        self._lease.distrust()
        self._shipped(Beat())

    def on_link(self, peer: ReplicaId) -> None:
        """A new connection: ask where the peer is."""
        self._shipped(Connected(peer))

    # ---- answers of the followers ------------------------------------------------------------------------------

    def on_shipping_answer(self, envelope: Envelope) -> Turn | None:
        """Take an answer of this term; from a member only."""
        sender, body = envelope.sender, envelope.body
        if isinstance(body, Doubtful):
            self._hear_doubt(sender, body.number)
            body = body.answer
        else:
            self._doubts.end(sender)
        if not isinstance(body, (AppendAck, AppendReject, HeartbeatAck, CopyAck)):
            broken("an answer to shipping", body)
        return self._advance() if self._shipped(FromFollower(sender, body)) else None

    def _hear_doubt(self, sender: ReplicaId, number: int) -> None:
        """A member's disk was damaged: append the record that will end its doubt."""
        ground = self._ground
        # It asks again, when there may be room. Who was told to stand must keep the longest log.
        ready = self._ready and ground.notable and not self._handover.running
        if sender in ground.members.current.members and self._doubts.hear(sender, number, ready=ready):
            end = ground.append(Kind.NOOP, b"")
            self._proposals.add(end, 0, None)
            self._doubts.expect(sender, end)
            self._shipped(Grown())

    def _advance(self) -> Turn | None:
        """Something durable or answered is news: commit, answer, go on with what waits for it."""
        ground = self._ground
        if ground.commit(self._committable()):
            commit = ground.progress.commit
            ground.out.answers.extend(self._proposals.decide(commit))
            self._shipped(Committed(commit))
            if not self._ready and self._first is not None and commit >= self._first:
                self._ready = True
                ground.report(Role.LEADER, ground.identity, "first record committed", ready=True)
        self._serve_reads()
        self._handover.advance()
        return self._advance_change()

    def _committable(self) -> Position:
        """The newest record of this term that a quorum holds durably; commits everything before it.

        Source: Raft paper 5.4.2 and figure 8: counting copies says nothing about a record of an older term.
        """
        ground = self._ground
        reached = Position(ground.members.current.agreed(self._durable_at))
        if reached <= ground.progress.commit or ground.log.epochs.epoch_at(reached) != ground.term:
            return ground.progress.commit
        return reached

    def _durable_at(self, member: ReplicaId) -> Position:
        if member == self._ground.identity:
            return self._ground.durable.position
        return NOWHERE if member in self._doubts.peers else self._ship.match(member)

    # ---- requests ----------------------------------------------------------------------------------------------

    def on_propose(self, proposals: tuple[Propose, ...]) -> None:
        """Append each, or say why not; one gate for everything that grows the log, and one shipment for all."""
        ground, options, pending = self._ground, self._ground.options, self._proposals
        reason = self._refusal()
        room = options.uncommitted_records_max - pending.count if reason is None else 0
        bytes_room = options.uncommitted_bytes_max - pending.bytes
        taken: list[Propose] = []
        for propose in proposals:
            size = len(propose.body)
            if room > 0 and (size <= bytes_room or (not taken and not pending.count)):
                taken.append(propose)
                room -= 1
                bytes_room -= size
            else:
                ground.refuse(propose.request, reason or Refusal.BUSY, ground.identity)
        if taken:
            ends = ground.append_all(Kind.DATA, [propose.body for propose in taken])
            for propose, end in zip(taken, ends, strict=True):
                pending.add(end, len(propose.body), propose.request)
        self._shipped(Grown())

    def _refusal(self) -> Refusal | None:
        ground, options = self._ground, self._ground.options
        if not self._ready:
            return Refusal.NOT_READY
        if self._handover.running:
            return Refusal.TRANSFERRING
        if ground.full:
            return Refusal.DISK_FULL
        since = ground.durable.waiting_since
        if since is not None and ground.clock.now - since > options.election_ms // 2:
            return Refusal.STORAGE_STALLED
        return None

    def on_read(self, read: Read) -> None:
        """Serve from the lease if it is allowed and holds; otherwise ask a quorum whether this is still the leader."""
        ground = self._ground
        if not self._ready:
            ground.refuse(read.request, Refusal.NOT_READY, ground.identity)
        elif self._reads.count + ground.progress.granted.count >= READS_MAX:
            ground.refuse(read.request, Refusal.BUSY, ground.identity)
        elif read.lease and ground.options.lease_reads and not self._handover.running and self._lease.valid():
            ground.grant_read(read.request, ground.progress.commit)
        else:
            self._await_round(read.request, None, ground.progress.commit)

    def on_read_ask(self, sender: ReplicaId, ask: ReadAsk) -> None:
        """The same for a follower, which will serve the read itself, and nothing that is not shown here."""
        shown, first = min(self._ground.progress.commit, self._ground.log.shown), self._first
        if not self._ready or first is None or shown < first or self._reads.count >= READS_MAX:
            self._ground.send(sender, ReadGrant(ask.number, None))
        else:
            self._await_round(ask.number, sender, shown)

    def _await_round(self, number: int, asker: ReplicaId | None, position: Position) -> None:
        """Wait for a round that begins from now on; begin one unless one is already on its way for earlier reads."""
        idle = self._reads.needed <= self._lease.quorum_round()
        last = self._ship.rounds.last
        self._reads.add(WaitingRead(last + 1, position, number, asker))
        if idle:
            self._shipped(Beat())
            self._serve_reads()

    def _serve_reads(self) -> None:
        if not self._reads.count:
            return
        for read in self._reads.confirm(self._lease.quorum_round()):
            if read.asker is None:
                self._ground.grant_read(read.number, read.position)
            else:
                self._ground.send(read.asker, ReadGrant(read.number, read.position))
        last = self._ship.rounds.last
        if self._reads.needed > last and self._lease.quorum_round() >= last:
            self._shipped(Beat())

    # ---- members -----------------------------------------------------------------------------------------------

    def on_change(self, change: ChangeMembers) -> Turn | None:
        """Begin a change; it goes on by itself as learners catch up and configurations are committed."""
        self._changing.begin(change, ready=self._ready, blocked=self._handover.running)
        return self._advance_change()

    def _advance_change(self) -> Turn | None:
        """The next configuration, once the one before is committed, and in this leader's own term.

        Source: Raft dissertation 4.1, with the correction that a leader changes members only after it has committed.
        """
        ground, current = self._ground, self._ground.members.current
        if not self._ready or self._changing.settled is current or ground.members.since > ground.progress.commit:
            return None
        if self._handover.running:
            return None  # a record behind the back of who was told to stand would make that one's log too short to win
        following = self._changing.following()
        if following is not None:
            if ground.notable:
                self._name(following)
        elif not current.is_voter(ground.identity):
            self._handover.leave()
            return Turn(TurnTo.FOLLOWER, "no longer a voter")
        else:
            self._changing.settle(current)
        return None

    def _name(self, configuration: Configuration) -> None:
        """Append who belongs to the group from now on."""
        ground, body = self._ground, configuration.encode()
        end = ground.append(Kind.MEMBERS, body)
        self._proposals.add(end, len(body), None)
        ground.adopt(configuration, end)
        self._restated_at = ground.clock.now
        self._follow()
        self._shipped(Grown())

    def _restate(self) -> None:
        """Where the owner drops old records, the present members stand in a young one, too."""
        ground = self._ground
        quiet = self._ready and not ground.full and not self.changing and not self._handover.running
        due = ground.options.owner_appends and ground.clock.now - self._restated_at >= ground.options.restate_ms
        if due and quiet and ground.members.since < ground.log.end:
            self._name(ground.members.current)

    def _follow(self) -> None:
        ground = self._ground
        others = tuple(peer for peer in ground.members.current.members if peer != ground.identity)
        self._shipped(FollowersSet(others))

    def on_transfer(self, transfer: Transfer) -> None:
        """Hand leadership over."""
        self._handover.begin(transfer, blocked=self._changing.running)

    def _shipped(self, event: ShipInput) -> bool:
        """Let shipping take an input and send what it wants; True if somebody's answer was news."""
        ground = self._ground
        out = self._ship.step(event, ground.clock.now)
        for peer, body in out.messages:
            ground.send(peer, body)
        if out.events:
            ground.out.events.extend(out.events)
        return out.moved
