"""The Raft core of one group member: `step(input, now) -> Output`.

`step` settles the term first, then the current role's handler runs; a handler that wants another role says so with a
Turn, which is carried out here and nowhere else.

    follower --silence--> pre-candidate --would win--> candidate --majority--> leader
        ^------------------------ higher term, a leader heard, lost, no quorum ------------'

Source: Raft paper figure 2; raft-log rules 5.2, 5.3.
"""

from logherd.kit.errors import broken, ensure
from logherd.model.names import Position
from logherd.raft.candidate import Candidate, PreCandidate
from logherd.raft.follower import Follower
from logherd.raft.ground import Ground, Turn, TurnTo
from logherd.raft.inputs import (
    Appended,
    Applied,
    ChangeMembers,
    DiskFull,
    Flushed,
    ImageKept,
    Input,
    Linked,
    Patience,
    Propose,
    ProposeAll,
    Read,
    Received,
    RecoverQuorum,
    StoreBroken,
    Tick,
    Transfer,
)
from logherd.raft.leader import Leader
from logherd.raft.members import Configuration
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output, Refusal, Role, Strange
from logherd.raft.recovery import recover_quorum
from logherd.raft.store import HardState, LogStore, StoreMismatchError
from logherd.raft.voting import answer_pre_vote, answer_vote, hears_leader
from logherd.replication.epochs import NOWHERE, ORIGIN
from logherd.replication.log import Image
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    Stale,
)

__all__ = ["RaftCore", "found_group", "make_image"]

_FROM_LEADER = (Append, Heartbeat, CopyChunk)
_LEAP = 1 << 58
"""No group elects so often between one thing that a member hears and the next; a store that led another group before
may bring epochs that are no mere count. A term is kept for good: behind the last one that fits a message is none."""


def found_group(log: LogStore, hard: HardState, voters: tuple[ReplicaId, ...]) -> None:
    """Prepare an empty store for the first start of a new group; every founder does the same.

    The founders are kept as an image of nothing at the origin, so that the log itself begins empty. A member that
    joins later is given only a hard state: it has no vote until the group's log names it.
    """
    ensure(log.hard_state() is None, "only an empty store founds a group", hard)
    log.keep_hard_state(hard)
    log.keep_image(Image("founding", ORIGIN, 0, 0, 0, Configuration(voters).encode()), b"")


class RaftCore:
    """One member of one group.

    `now` is milliseconds of a monotonic clock that counts suspension; `seed` feeds the jitter and the numbers of
    forwarded reads, so it must differ between starts. All messages that have arrived are fed before a tick. What is
    in the store when the core is made must be durable. `InvariantError` and `SpanDamagedError` mean: stop the process.
    """

    def __init__(
        self, log: LogStore, options: RaftOptions, *, hard: HardState, seed: int, now: int, commit: Position = NOWHERE,
        silent_since: int | None = None, owed_ms: int = 0,
    ) -> None:  # fmt: skip
        """Start as a follower of whatever the store says; `hard` is what its files said, checked against their owner.

        `commit`: up to where the log is known to be committed, if that is above its image. `silent_since`: when, on the
        clock of `now`, the last life of this member sent its last message; None if nobody knows. What it promised by
        messages binds this life for the rest of an election time-out; with None, for all of it. `owed_ms`: the longest
        of the shortest election time-outs that lives before this one have told others (`Patience`).

        Raises: StoreMismatchError if the store belongs to somebody else.
        """
        found = log.hard_state()
        if found is None or found.owner != hard.owner or found.cluster.name != hard.cluster.name:
            raise StoreMismatchError(f"the store is of {found}, not of {hard.owner} in {hard.cluster.name}")
        self._ground = Ground(
            options, log, found, commit=commit, seed=seed, now=now, silent_since=silent_since, owed_ms=owed_ms
        )
        if log.epochs.last_epoch > found.term:
            # The records reached the disk, the term that came with them did not; nothing was promised in it. Hardly
            # ever seen: a leader sends records only to whom has confirmed durably that it is in the leader's term.
            self._ground.promise(log.epochs.last_epoch, None)
        self._role: Follower | PreCandidate | Candidate | Leader = Follower(self._ground, None)
        self.ground = self._ground
        """The shared state; to be read."""
        self.leading: Leader | None = None
        """The leader's state, while this member leads; to be read."""

    # ---- what the shell and the tests may look at --------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What this member does now."""
        return self._role.role

    @property
    def leader(self) -> ReplicaId | None:
        """Who leads this term, as far as known."""
        return self._role.leader

    # ---- the one entry -----------------------------------------------------------------------------------------

    def step(self, event: Input, now: int) -> Output:
        """Take one input; see output.py for what the caller owes."""
        ground = self._ground
        if now != ground.clock.now:
            self._advance_clock(now)
        if ground.options.owner_appends and ground.grown:
            self._look()
        match event:
            case Received():
                self._on_envelope(event.envelope)
            case Flushed():
                ground.durable.flushed(event.token)
                self._turn(self._role.on_flushed())
            case Applied():
                ground.applied(event.position)
            case Tick():
                ground.expire_reads(self._role.leader)
                self._turn(self._role.on_tick())
            case Appended():
                pass  # _look() has seen it.
            case ProposeAll():
                self._on_proposals(event.proposals)
            case Propose():
                self._on_proposals((event,))
            case Read() | ChangeMembers() | Transfer() | RecoverQuorum():
                self._on_request(event)
            case _:
                self._on_news(event)
        return ground.finish()

    def _look(self) -> None:
        """The owner has written to the log, which only a leader's may."""
        if self.leading is None:
            broken("only a leader's owner appends", self._ground.log.end)
        self.leading.on_growth()

    def _on_news(self, event: Linked | Patience | ImageKept | DiskFull | StoreBroken) -> None:
        match event:
            case ImageKept():
                self._on_image(event.image)
            case DiskFull():
                self._ground.disk.fill(event, self._ground.clock.now)
            case StoreBroken():
                self._ground.disk.broken = event.broken
                if event.broken and isinstance(self._role, Leader):
                    self._turn(self._role.leave("the store does not work"))
            case Patience():
                self._ground.hear_patience(event.election_ms)
            case Linked():
                if isinstance(self._role, Leader):
                    self._role.on_link(event.peer)

    def _advance_clock(self, now: int) -> None:
        """Notice a gap in time before anything is judged by it."""
        clock, options = self._ground.clock, self._ground.options
        if now < clock.now:
            broken("the clock never goes back", now, clock.now)
        gap, clock.now = now - clock.now, now
        if gap > options.election_ms // 2 and isinstance(self._role, Leader):
            self._role.on_pause()
        if gap >= options.election_ms and isinstance(self._role, Follower):
            self._role.rearm()

    def _on_proposals(self, proposals: tuple[Propose, ...]) -> None:
        if isinstance(self._role, Leader):
            self._role.on_propose(proposals)
            return
        for propose in proposals:
            self._ground.refuse(propose.request, Refusal.NOT_LEADER, self._role.leader)

    def _on_request(self, event: Read | ChangeMembers | Transfer | RecoverQuorum) -> None:
        role = self._role
        if isinstance(event, Read):
            role.on_read(event)
        elif isinstance(event, RecoverQuorum):
            self._on_recover(event)
        elif not isinstance(role, Leader):
            self._ground.refuse(event.request, Refusal.NOT_LEADER, role.leader)
        elif isinstance(event, ChangeMembers):
            self._turn(role.on_change(event))
        else:
            role.on_transfer(event)

    def _on_recover(self, order: RecoverQuorum) -> None:
        """Only where nobody is heard that leads: a group that works is not to be overruled."""
        if self.role is Role.LEADER or hears_leader(self._ground):
            self._ground.refuse(order.request, Refusal.RUNNING, self.leader)
        elif recover_quorum(self._ground, order):
            self._turn(Turn(TurnTo.FOLLOWER, "quorum recovered by an operator"))

    def _on_image(self, image: Image) -> None:
        """Drop the log below the image before this one, so that followers a little behind still get records."""
        ground = self._ground
        ensure(image.point.position <= ground.progress.applied, "an image is of the applied state", image)
        ground.wrote()
        progress = ground.progress
        if progress.compactable > ground.log.epochs.base.position:
            ground.log.compact(progress.compactable)
            ground.members.forget(progress.compactable)
            ground.wrote()
        progress.compactable = image.point.position

    # ---- messages ----------------------------------------------------------------------------------------------

    def _on_envelope(self, envelope: Envelope) -> None:
        """Rules (a) to (e) of raft-log 5.3, in this order."""
        ground, body = self._ground, envelope.body
        if envelope.to != ground.identity or envelope.cluster != ground.hard.cluster:
            reason = "for another member" if envelope.to != ground.identity else f"of {envelope.cluster}"
            ground.out.events.append(Strange(envelope.sender, reason))
            return
        if envelope.epoch > ground.term + _LEAP:
            strange = Strange(envelope.sender, f"says term {envelope.epoch}, and here it is {ground.term}")
            ground.out.events.append(strange)
            return
        if isinstance(body, VoteRequest) and not body.transfer and self._leader_lives():
            if body.pre and envelope.epoch <= ground.term:
                ground.send(envelope.sender, Stale())
            return
        if envelope.epoch == ground.term:
            self._turn(self._dispatch(envelope))
            return
        advisory = isinstance(body, (VoteRequest, VoteAnswer)) and body.pre
        if isinstance(body, VoteAnswer) and body.pre and not body.granted:
            advisory = False
        if envelope.epoch > ground.term and not advisory:
            ground.promise(envelope.epoch, None)
            leader = envelope.sender if isinstance(body, _FROM_LEADER) else None
            self._turn(Turn(TurnTo.FOLLOWER, "higher term", leader))
        elif envelope.epoch < ground.term and not (isinstance(body, VoteRequest) and body.pre):
            if isinstance(body, _FROM_LEADER):
                ground.send(envelope.sender, Stale())
            return
        self._turn(self._dispatch(envelope))

    def _leader_lives(self) -> bool:
        """Whether a vote now could break the lease of a leader that this member has promised to."""
        if isinstance(self._role, Leader):
            return self._role.quorum_recent
        return hears_leader(self._ground)

    def _dispatch(self, envelope: Envelope) -> Turn | None:
        body = envelope.body
        match body:
            case Append() | Heartbeat() | CopyChunk():
                self._on_leader(envelope)
            case VoteRequest():
                self._on_vote_request(envelope, body)
            case VoteAnswer():
                if isinstance(self._role, (PreCandidate, Candidate)):
                    return self._role.on_answer(envelope, body)
            case AppendAck() | AppendReject() | HeartbeatAck() | CopyAck() | Doubtful():
                if isinstance(self._role, Leader):
                    return self._role.on_shipping_answer(envelope)
            case TimeoutNow():
                return self._on_timeout_now()
            case ReadAsk():
                self._on_read_ask(envelope.sender, body)
            case ReadGrant() | Trusted():
                self._on_grant(body)
            case Stale():
                pass
            case _:
                self._ground.out.events.append(Strange(envelope.sender, f"unknown message {type(body).__name__}"))
        return None

    def _on_leader(self, envelope: Envelope) -> None:
        ensure(not isinstance(self._role, Leader), "one leader in a term", envelope)
        if not isinstance(self._role, Follower):
            self._turn(Turn(TurnTo.FOLLOWER, "heard the leader", envelope.sender))
        if isinstance(self._role, Follower):
            self._role.on_leader(envelope)

    def _on_vote_request(self, envelope: Envelope, request: VoteRequest) -> None:
        if request.pre:
            answer_pre_vote(self._ground, envelope, request)
        elif answer_vote(self._ground, envelope, request) and isinstance(self._role, Follower):
            self._role.rearm()

    def _on_timeout_now(self) -> Turn | None:
        """The leader asks this member to take over; a learner or a member without room does not."""
        ground = self._ground
        if not isinstance(self._role, Follower) or not ground.may_lead or ground.unable or ground.doubtful:
            return None
        return Turn(TurnTo.CANDIDATE, "leadership handed over", transfer=True)

    def _on_grant(self, body: ReadGrant | Trusted) -> None:
        if isinstance(self._role, Follower) and isinstance(body, ReadGrant):
            self._role.on_read_grant(body)
        elif isinstance(self._role, Follower) and isinstance(body, Trusted):
            self._role.on_trusted(body)

    def _on_read_ask(self, sender: ReplicaId, ask: ReadAsk) -> None:
        if isinstance(self._role, Leader):
            self._role.on_read_ask(sender, ask)
        else:
            self._ground.send(sender, ReadGrant(ask.number, None))

    # ---- roles -------------------------------------------------------------------------------------------------

    def _turn(self, turn: Turn | None) -> None:
        """Carry out a change of role, and what the new role wants at once."""
        while turn is not None:
            self._role.close()
            self._ground.drop_reads()
            cause = turn.cause
            self._role = self._made(turn)
            self.leading = self._role if isinstance(self._role, Leader) else None
            self._ground.report(self._role.role, self._role.leader, cause, votes=turn.votes)
            turn = None if isinstance(self._role, Follower) else self._role.start()

    def _made(self, turn: Turn) -> Follower | PreCandidate | Candidate | Leader:
        ground = self._ground
        if turn.to is TurnTo.FOLLOWER:
            return Follower(ground, turn.leader)
        ensure(self.role is not Role.LEADER, "a leader does not stand for election", turn)
        if turn.to is TurnTo.PRE_CANDIDATE:
            return PreCandidate(ground)
        if turn.to is TurnTo.CANDIDATE:
            return Candidate(ground, transfer=turn.transfer)
        ensure(self.role is Role.CANDIDATE, "only a candidate becomes leader", turn)
        return Leader(ground)


def make_image(core: RaftCore, position: Position, data: bytes, checksum: int) -> Image:
    """Describe an image of the state as applied up to `position`; the shell hands it and `data` to the store."""
    ground = core.ground
    point = ground.log.epochs.point_at(position)
    seal = ground.log.seal_at(position)
    identity = f"{point.epoch}-{point.position}-{seal:08x}-{checksum:08x}-{ground.identity}"
    return Image(identity, point, seal, checksum, len(data), ground.members.at(position).encode())
