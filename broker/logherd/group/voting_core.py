"""One replica of a broker group in raft mode: the replicas vote among themselves, over the broker's own log.

A RaftCore decides; here it gets the inputs and gives the output that the brokers' shell knows. A term is an epoch, and
the record with which a term begins is the barrier that the services append on `Leading`. A vote is kept with the epoch
(`Output.keep`). Answers leave only while `serving` holds: a majority has answered a heartbeat so lately that none of it
votes for anybody else (raft/lease.py).

Who votes: a broker with its store (`seat.voter_of`). The founders are configured; who comes or goes later is a record
of the log, by joint majorities, towards what `MembersWanted` says; or `Rebuild` after a majority was lost.

Source: raft-log 5; controller-ha R1, R3, R4, R8, R10, R13, R14.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from logherd.controller.values import BrokerId
from logherd.group.inputs import (
    Appended,
    Assigned,
    Drain,
    Flushed,
    HandOver,
    Health,
    Heard,
    Input,
    Linked,
    MembersWanted,
    Noticed,
    Patience,
    ReadWanted,
    Rebuild,
    Received,
    Registered,
    SetAnswered,
    Tick,
    Unlinked,
)
from logherd.group.output import (
    Closed,
    Drained,
    Draining,
    Event,
    Fenced,
    Following,
    Leading,
    Outbox,
    Output,
    Promise,
    Resumed,
    Serving,
    SetChanged,
    StorageStalled,
    Strange,
)
from logherd.group.seat import Seat, cluster_of, process_of, voter_of
from logherd.group.voting_log import NotedLog, VotingLog
from logherd.group.voting_reads import VotedReads
from logherd.kit.errors import broken, ensure
from logherd.model.names import Epoch, Position
from logherd.raft import inputs as raft_inputs
from logherd.raft import output as raft_output
from logherd.raft.core import RaftCore
from logherd.raft.leader import Leader
from logherd.raft.members import Configuration, Goal
from logherd.raft.options import RaftOptions
from logherd.raft.store import HardState
from logherd.raft.voting import hears_leader
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.replication.shipping import LostData, RefusedAck

__all__ = ["VotingCore"]

_APPENDED = (raft_inputs.Appended(),)
_OTHERS = (Heard, Noticed, SetAnswered, Registered, Assigned)


@dataclass(slots=True)
class _Told:
    """What the shell was told last."""

    leads: Epoch | None = None
    serves: Epoch | None = None
    draining: ReplicaId | None = None
    following: Following | None = None
    members: tuple[BrokerId, ...] = ()
    configuration: Configuration = field(default_factory=Configuration)
    drained: bool = False


@dataclass(slots=True)
class _Wishes:
    """What the shell has said: how the store is, whether the process is about to stop, who should be a member."""

    health: Health = field(default_factory=Health)
    stopping: bool = False
    goal: Goal | None = None
    requests: int = 0
    switch: int = 0
    """The request of the operator's latest order to hand over."""


class VotingCore:
    """See GroupMachine. What is in the log when the core is made must be durable, and so must `promise`.

    `founders`: the voters of the group's first start, the same for all of them, at each start; empty for who joins a
    group that exists. `seed` must differ between starts. A store that begins anew at a leader's base keeps its promise.
    """

    def __init__(
        self, seat: Seat, options: RaftOptions, log: NotedLog, *, promise: Promise, founders: tuple[ReplicaId, ...],
        commit: Position, seed: int, now: int, owed_ms: int = 0,
    ) -> None:  # fmt: skip
        """Start as a follower. `commit`: up to where the log is known to be committed. `owed_ms`: see RaftCore."""
        self._me = seat.broker_id
        identity = voter_of(seat.broker_id, seat.store_id)
        cluster = cluster_of(seat.group, promise.reset)
        hard = HardState(cluster, identity, promise.epoch, promise.vote, promise.doubtful)
        self._log = VotingLog(log, hard, founders)
        options = replace(options, owner_appends=True)
        self._raft = RaftCore(
            self._log, options, hard=hard, seed=seed, now=now, commit=commit, owed_ms=owed_ms,
        )  # fmt: skip
        self._out = Outbox()
        self._told = _Told(members=self._members(), configuration=self._raft.ground.members.current)
        self._wishes = _Wishes()
        self._reads = VotedReads(commit)

    # ---- what the shell asks ---------------------------------------------------------------------------------------

    @property
    def raft(self) -> RaftCore:
        """The core inside; to be read."""
        return self._raft

    @property
    def identity(self) -> ReplicaId:
        """See GroupMachine."""
        return self._raft.ground.identity

    @property
    def cluster(self) -> ClusterId:
        """See GroupMachine."""
        return self._raft.ground.hard.cluster

    @property
    def epoch(self) -> Epoch:
        """See GroupMachine."""
        return self._raft.ground.term

    @property
    def commit(self) -> Position:
        """See GroupMachine."""
        return self._raft.ground.progress.commit

    @property
    def hears_leader(self) -> bool:
        """Whether this replica leads, or has heard a leader so lately that no other one may be elected."""
        return self._raft.leading is not None or hears_leader(self._raft.ground)

    @property
    def leads(self) -> Epoch | None:
        """See GroupMachine."""
        return self._raft.ground.term if self._raft.leading is not None else None

    @property
    def pinned(self) -> Position:
        """Records that end above this must be kept: the newest that says who belongs to the group is among them."""
        ground = self._raft.ground
        since = ground.members.committed_since(min(ground.progress.commit, ground.durable.position))
        return Position(max(since - 1, 0))

    def serving(self, now: int) -> Epoch | None:
        """R1: the epoch in which this replica may answer as the leader at this moment."""
        leader = self._raft.leading
        return self._raft.ground.term if leader is not None and leader.leased(now) else None

    def closed(self, now: int) -> Closed | None:
        """Why a client's write may not be appended at this moment; None if it may."""
        leader = self._raft.leading
        if leader is None or self.serving(now) is None:
            return Closed.NOT_SERVING
        if self._wishes.stopping or leader.handing_over is not None:
            return Closed.DRAINING
        return None if self._wishes.health.space else Closed.NO_SPACE

    def readable(self, now: int) -> Position | None:
        """Up to where this follower may answer reads itself at this moment; None: the leader must."""
        return self._reads.readable(self.epoch, now) if self._raft.leading is None else None

    # ---- the one entry ---------------------------------------------------------------------------------------------

    def step(self, event: Input, now: int) -> Output:
        """Take one input; see output.py. Raises: what the log raises."""
        if isinstance(event, _OTHERS):
            broken("an input of another mode", event)
        commit = None
        for each in self._meant(event, now):
            commit = self._take(self._raft.step(each, now)) or commit
        if isinstance(event, Tick):
            for each in self._due():
                commit = self._take(self._raft.step(each, now)) or commit
        if commit is not None:
            self._reads.shown(commit)
            if self._reads.waits:
                self._take(self._raft.step(raft_inputs.Applied(commit), now))
        self._mind_service(now)
        self._out.keep, self._log.keep = self._log.keep, None
        return self._out.drain(commit)

    def _meant(self, event: Input, now: int) -> Sequence[raft_inputs.Input]:
        """What the input is for the core."""
        match event:
            case Tick():
                return (raft_inputs.Tick(),)
            case Received():
                return (raft_inputs.Received(event.envelope),)
            case Flushed():
                return (raft_inputs.Flushed(event.token),)
            case Appended():
                return _APPENDED
            case Linked() | Patience():
                return (_of_others(event),)
            case Health():
                self._wishes.health = event
                short = not event.takes_messages
                full = raft_inputs.DiskFull(not event.room, short=short, barrier=event.barrier)
                return (full, raft_inputs.StoreBroken(not event.healthy))
            case HandOver():
                return self._hand_over(event)
            case ReadWanted():
                return self._reads.want(self._request(), self.epoch, now) if self._raft.leading is None else ()
            case Rebuild():
                return (raft_inputs.RecoverQuorum(self._request(), event.reset, event.epoch, event.survivors),)
            case Drain():
                self._wishes.stopping = True
            case MembersWanted():
                both = [peer for peer in event.learners if peer in event.voters]
                ensure(len(event.voters) > 0 and not both, "a group has voters, who are no learners", event)
                self._wishes.goal = Goal(event.voters, event.learners)
            case _:
                ensure(isinstance(event, Unlinked), "every input is known", event)
        return _APPENDED

    # ---- what is wanted, again and again ---------------------------------------------------------------------------

    def _due(self) -> Sequence[raft_inputs.Input]:
        """What to ask of the core, besides what has happened."""
        leader, wishes = self._raft.leading, self._wishes
        if wishes.stopping:
            return self._stop(leader)
        if leader is None or not leader.ready or wishes.goal is None or leader.handing_over is not None:
            return ()
        current = self._raft.ground.members.current
        if leader.goal == wishes.goal or current.joint or wishes.goal.reached(current):
            return ()
        # What is wanted now takes the place of a change that waits for new voters: their stores may be lost for good.
        if leader.goal is None and leader.changing:
            return ()
        return (raft_inputs.ChangeMembers(self._request(), wishes.goal, instead=True),)

    def _stop(self, leader: Leader | None) -> Sequence[raft_inputs.Input]:
        """Hand over, and then stand no more. The only voter has nobody to hand over to."""
        ground = self._raft.ground
        alone = ground.members.current.voters == (self.identity,) and not ground.members.current.joint
        if leader is not None and not alone:
            return () if leader.handing_over is not None else self._transfer(raft_inputs.Transfer(self._request()))
        if not self._told.drained and (leader is None or ground.progress.announced >= ground.log.end):
            self._told.drained = True
            self._report(Drained())
        return () if ground.disk.broken or leader is not None else (raft_inputs.StoreBroken(broken=True),)

    def _hand_over(self, order: HandOver) -> Sequence[raft_inputs.Input]:
        voters = self._raft.ground.members.current.voters
        named = [peer for peer in voters if _broker(peer) == order.target]
        if order.target is None or named:
            self._wishes.switch = self._request()
            return self._transfer(raft_inputs.Transfer(self._wishes.switch, named[0] if named else None))
        self._report(Strange(self.identity, f"broker {order.target} has no vote, and cannot be handed leadership"))
        return ()

    def _transfer(self, order: raft_inputs.Transfer) -> Sequence[raft_inputs.Input]:
        """Hand over in place of a change that waits for new voters, be it for hours: the next leader begins it anew."""
        leader, current = self._raft.leading, self._raft.ground.members.current
        if leader is None or leader.goal is None:
            return (order,)
        goal = Goal(current.voters, current.learners)
        return (raft_inputs.ChangeMembers(self._request(), goal, instead=True), order)

    def _request(self) -> int:
        self._wishes.requests += 1
        return self._wishes.requests

    # ---- what the core says ----------------------------------------------------------------------------------------

    def _take(self, done: raft_output.Output) -> Position | None:
        """Collect an output of the core."""
        out = self._out
        for news in (*self._log.news, *done.events):
            self._on_news(news)
        self._log.news.clear()
        out.messages += done.messages
        out.held += done.held
        out.flush = done.flush if done.flush is not None else out.flush
        for answer in done.answers:
            self._reads.on_answer(answer)
            if isinstance(answer, raft_output.Refused) and answer.request == self._wishes.switch:
                self._report(Strange(self.identity, f"leadership was not handed over: {answer.reason.value}"))
        return done.apply_to

    def _on_news(self, news: Event | raft_output.Event) -> None:
        match news:
            case raft_output.RoleChanged():
                self._on_role(news)
            case raft_output.MembersChanged():
                self._on_members(news)
            case raft_output.Strange():
                self._report(Strange(news.sender, news.reason))
            case raft_output.StorageStalled():
                self._report(StorageStalled(news.since))
            case raft_output.DoubtEnded() | raft_output.QuorumRecovered():
                pass  # Both show in what is kept.
            case LostData() | RefusedAck() | _:
                self._report(news)

    def _on_members(self, news: raft_output.MembersChanged) -> None:
        """A leader says them again and again, which is no news."""
        told = self._told
        if news.configuration != told.configuration:
            before, told.members, told.configuration = told.members, self._members(), news.configuration
            self._report(SetChanged(before, told.members, news.since))

    def _on_role(self, news: raft_output.RoleChanged) -> None:
        """The role in its term, each said once."""
        told = self._told
        if told.leads is not None and (told.leads != news.term or news.role is not raft_output.Role.LEADER):
            self._report(Fenced(told.leads, news.cause))
            told.leads = told.serves = told.draining = None
        if news.role is raft_output.Role.LEADER:
            if told.leads is None:
                told.leads, told.following = news.term, None
                voters = (_broker(each) for each in news.votes)
                votes = tuple(sorted(each for each in voters if each is not None))
                self._report(Leading(news.term, self._log.end, votes=votes))
            return
        leader = _broker(news.leader) if news.leader is not None else None
        following = Following(news.term, leader, "")
        if following != told.following:
            told.following = following
            self._report(following)

    def _mind_service(self, now: int) -> None:
        """Say at once when leadership is being handed over, and when service begins or ends."""
        told, leader, serves = self._told, self._raft.leading, self.serving(now)
        if leader is not None and leader.handing_over != told.draining:
            self._mind_handover(leader.handing_over)
        if told.serves is not None and serves is None:
            handed = leader is not None and leader.given_away
            cause = f"leadership is handed over to {told.draining}" if handed else "the lease is over"
            self._report(Fenced(told.serves, cause))
        elif told.serves is None and serves is not None:
            self._report(Serving(serves))
        told.serves = serves

    def _mind_handover(self, target: ReplicaId | None) -> None:
        self._told.draining = target
        if target is not None:
            self._report(Draining(self.epoch, _broker(target)))
        elif not self._wishes.stopping:
            self._report(Resumed(self.epoch))

    def _members(self) -> tuple[BrokerId, ...]:
        voters = map(_broker, self._raft.ground.members.current.voters)
        return tuple(sorted(each for each in voters if each is not None))

    def _report(self, event: Event) -> None:
        self._out.events.append(event)


def _of_others(event: Linked | Patience) -> raft_inputs.Input:
    return raft_inputs.Linked(event.peer) if isinstance(event, Linked) else raft_inputs.Patience(event.election_ms)


def _broker(replica: ReplicaId) -> BrokerId | None:
    process = process_of(replica)
    return process.broker_id if process is not None else None
