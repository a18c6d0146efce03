"""Raft mode: the brokers of the group elect their leader among themselves, over their own log.

    not founded --every configured founder has said hello, none founded: the first decides--> founded
                --somebody says who has founded the group--------------------------------> founded, or joined

Who founded the group is in each replica's file for good. A replica that is not among them (a new broker, or one whose
store was lost) begins without a vote; the leader makes it a learner, and a voter once it has everything, in place of
the former store of that broker. Who is not in `replication.peers` or in `replication.raft.members` loses its vote.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import randbits

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import boot_ms
from logherd.app.engine import BrokerFailed
from logherd.app.group.about import About, decode_about, encode_about
from logherd.app.group.lately import Lately
from logherd.app.group.mode import FollowerState, Greeting, Host, Lease, ModeName
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.group.roster import Roster
from logherd.app.group.timing import voting_options
from logherd.app.group.unfounded import Unfounded
from logherd.controller.values import BrokerId
from logherd.group.inputs import Linked, MembersWanted, Patience, Rebuild
from logherd.group.machine import GroupMachine
from logherd.group.output import Ask, Event
from logherd.group.pace import Pace
from logherd.group.seat import Seat, cluster_of, process_of, voter_of
from logherd.group.voting_core import VotingCore
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.peers.founding import Founding, Join, Lost, Step
from logherd.peers.hello import Hello
from logherd.peers.identity import Identity, name_of
from logherd.replica import NotedStore
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import Envelope, ReplicaId
from logherd.service.replica_view import InSyncView, PendingView
from logherd.settings.options import ReplicationOptions
from logherd.telemetry.log import Log

__all__ = ["ByVotes"]

_log = Log("logherd.group")

_FORGET_MS = 60_000


@dataclass(slots=True)
class _Noted:
    """What the machine was told last, and what it has said."""

    roster: Roster
    committed: Lately = field(default_factory=Lately)
    wanted: MembersWanted | None = None
    patience: Patience = field(default_factory=lambda: Patience({}))
    paces: dict[ReplicaId, Pace] = field(default_factory=dict)
    """Of the others, while this replica leads."""
    members: set[BrokerId] | None = None
    gone_since: int | None = None
    """Since when the roster names somebody who is neither a member nor linked."""
    changing_at: int | None = None
    """When a change of members that is under way was met."""


class ByVotes:
    """See Mode."""

    def __init__(self, seat: Seat, options: ReplicationOptions, log: NotedStore, file: ReplicaFile) -> None:
        """Blocks if the group is founded and others are to be told of a longer time-out. Raises: StoreFull, OSError."""
        self.name: ModeName = "raft"
        self.seat = seat
        self._options = options
        self._log = log
        self._file = file
        self._host: Host | None = None
        self._identity = voter_of(seat.broker_id, seat.store_id)
        self._met: dict[BrokerId, tuple[ReplicaId, About]] = {}
        """The latest store of each other broker, and what it says of itself."""
        self._noted = _Noted(Roster(file.files, file.directory))
        self._names = tuple(map(str, options.raft.founders))
        if str(seat.broker_id) not in self._names:
            self._names = (*self._names, str(seat.broker_id))
        identity = Identity(
            cluster=str(seat.group),
            replica=self._identity,
            founders=file.founders,
            reset=file.promise.reset,
            founded=file.founders is not None,
        )
        self._founding = Founding(identity, self._names)
        self.machine: GroupMachine = Unfounded(
            cluster_of(seat.group), self._identity, file.promise.epoch, Position(log.store.committed_position)
        )
        if file.founders is not None:
            self.machine = self._core(file.founders)

    def _core(self, founders: tuple[ReplicaId, ...]) -> VotingCore:
        election = self._options.raft.election
        return VotingCore(
            self.seat, voting_options(election), self._log, promise=self._file.promise,
            founders=founders if self._identity in founders else (),
            commit=Position(self._log.store.committed_position), seed=randbits(64), now=boot_ms(),
            owed_ms=self._file.count_on(election.timeout_ms),
        )  # fmt: skip

    @property
    def core(self) -> VotingCore | None:
        """The machine, once the group is founded."""
        return self.machine if isinstance(self.machine, VotingCore) else None

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def stalled(self) -> bool:
        """See Mode."""
        return self.core is not None and self.core.raft.ground.stalled

    @property
    def pinned(self) -> Position | None:
        """See Mode."""
        return self.core.pinned if self.core is not None else Position(0)

    @property
    def lease(self) -> Lease | None:
        """While this replica may serve without asking: nobody else is elected before the end. The only voter of a
        group has none, for nobody would ever be elected in its place."""
        core, now = self.core, boot_ms()
        leading = core.raft.leading if core is not None else None
        if core is None or leading is None or core.raft.ground.members.current.voters == (self._identity,):
            return None
        until = leading.leased_until
        return Lease(core.epoch, until) if now < until else None

    @property
    def obstacle(self) -> str:
        """Without a majority there is no lease either."""
        return ""

    @property
    def accounted(self) -> bool:
        """Nothing is told here before it is flushed."""
        return True

    @property
    def awaited(self) -> Sequence[int]:
        """See Mode."""
        return self.members().members

    @property
    def leader(self) -> BrokerId | None:
        """See Mode."""
        leader = self.core.raft.leader if self.core is not None else None
        return _broker(leader) if leader is not None else None

    def rules(self, now: int) -> Epoch | None:
        """See Mode. A leader needs a majority that does not heal, so it serves soon."""
        return self.machine.serving(now)

    @property
    def roster(self) -> Roster:
        """See Mode: the members."""
        return self._noted.roster

    def found_at_leaders(self, epoch: Epoch) -> bool:
        """There is nobody to ask: that address is believed."""
        del epoch
        return True

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self, host: Host, guard: TaskGuard) -> None:
        """See Mode."""
        del guard
        self._host = host
        host.join("")
        step = self._founding.start()
        if step is not None:
            self._settle(step)
        elif self.core is None:
            _log.info("the group is not founded yet", waits_for=", ".join(self._founding.missing))

    async def stop(self) -> None:
        """Nobody is asked."""

    def ask(self, question: Ask) -> None:
        """Nobody is there to be asked."""
        ensure(False, "raft mode asks nobody", question)  # noqa: FBT003

    def rebuild(self, order: Rebuild) -> None:
        """An operator's order that was looked at; whoever is linked hears of the rebuilt group."""
        host = self._host
        if host is None or self.core is None:
            return
        host.step(order)
        if self.core.cluster.reset == order.reset:
            survivors = ", ".join(each for each, _ in order.survivors)
            _log.error("the group is rebuilt by an operator", reset=order.reset, epoch=order.epoch, survivors=survivors)
            host.announce()

    def _settle(self, step: Step) -> None:
        """Carry out a step of founding: the file is written and flushed, once in the life of a store."""
        host = self._host
        if host is None:
            return
        if isinstance(step, Lost):
            host.fail(BrokerFailed(step.reason))
            return
        self._file.found(step.founders, step.cluster.reset if isinstance(step, Join) else 0)
        self._founding.kept()
        voter = self._identity in step.founders
        _log.info("group founded" if voter else "joining without a vote", founders=", ".join(step.founders))
        before, self.machine = self.machine, self._core(step.founders)
        host.announce()
        for said in before.said if isinstance(before, Unfounded) else ():
            host.step(said)
        for peer in host.linked():
            host.step(Linked(peer))
        self.tick()

    # ---- what others say and are told --------------------------------------------------------------------------------

    def greet(self) -> Greeting:
        """See Mode. Nodes are compared until the group is founded; who joins it later has none to compare."""
        about = About(
            mode=self.name, address=self.seat.address, learner=self.seat.learner,
            election_ms=self.core.raft.ground.options.election_ms if self.core is not None else 0,
        )  # fmt: skip
        founder = self.seat.broker_id in self._options.raft.founders
        return Greeting(self._founding.founded, self._names if founder else (), encode_about(about))

    def heard(self, hello: Hello) -> None:
        """See Mode."""
        broker_id, about, host = _broker(hello.sender), decode_about(hello.about), self._host
        if broker_id is None or about is None or about.mode != self.name or host is None:
            _log.error("a replica of another mode", replica=hello.sender)
            return
        self._met[broker_id] = (hello.sender, about)
        try:
            step = self._founding.heard(hello)
            if step is not None:
                self._settle(step)
        except Exception as error:  # the file could not be written: the process ends and says why
            host.fail(error)
            return
        self._know(broker_id)  # it is not linked yet, and the next line may tell the machine to make it a member
        self.tick()

    def received(self, envelope: Envelope) -> None:
        """The machine needs no help."""

    def told(self, event: Event) -> None:
        """The machine needs no help."""

    def retime(self, options: ReplicationOptions) -> None:
        """Who belongs to the group may change. The times of elections are the same at all replicas, and fixed."""
        self._options = options
        self.tick()

    def tick(self) -> None:
        """Tell the machine how long others wait for a leader, and who should belong to the group, if that is news."""
        core, noted = self.core, self._noted
        if core is None or self._host is None:
            return
        patience = Patience({store: about.election_ms for store, about in self._met.values() if about.election_ms > 0})
        if patience != noted.patience:
            noted.patience = patience
            self._host.step(patience)
        noted.committed.note(boot_ms(), core.commit)
        self._watch(core, boot_ms())
        self._know()
        if not core.raft.ground.quarantined:
            self._file.wait_less(core.raft.ground.options.election_ms)
        wanted = self._members_wanted(core)
        if wanted != noted.wanted and wanted.voters:
            noted.wanted = wanted
            self._host.step(wanted)

    def _know(self, *besides: BrokerId) -> None:
        """Keep who belongs to the group, as far as the log here says, and who is linked and may come to. Who is neither
        any more stays for a while: a link that comes and goes is not to cost flushes each time."""
        core, host, noted = self.core, self._host, self._noted
        members = _members(core) if core is not None else None
        if not members or host is None:
            return
        linked = {each for each in map(_broker, host.linked()) if each is not None}
        known, now, same = {*members, *linked, *besides}, boot_ms(), noted.members in (None, members)
        noted.members = members
        gone = {*map(BrokerId, self.roster.brokers or ())} - known
        noted.gone_since = (noted.gone_since or now) if gone and same else None
        if noted.gone_since is not None and now - noted.gone_since < _FORGET_MS:
            known |= gone
        try:
            self.roster.follow(known)
        except Exception as error:  # the file could not be written: the process ends and says why
            host.fail(error)

    def _watch(self, core: VotingCore, now: int) -> None:
        """Note what is told of the others and of a change: the machine itself counts in bytes only."""
        leading, noted = core.raft.leading, self._noted
        if leading is None:
            noted.paces, noted.changing_at = {}, None
            return
        others = [each for each in core.raft.ground.members.current.members if each != self._identity]
        noted.paces = {each: noted.paces.get(each) or Pace() for each in others}
        for each, pace in noted.paces.items():
            pace.keep(leading.shipper.match(each), self._log.end, now)
        noted.changing_at = (noted.changing_at or now) if leading.changing else None

    def _members_wanted(self, core: VotingCore) -> MembersWanted:
        """Of each configured broker the store that it has now; of one that was not heard the store that is known."""
        current = core.raft.ground.members.current
        # A broker's former store keeps its vote until the new one is there to take it: voters come last.
        stores = {_broker(each): (each, each not in current.voters) for each in reversed(current.members)}
        stores |= {number: (store, about.learner) for number, (store, about) in self._met.items()}
        stores[self.seat.broker_id] = (self._identity, self.seat.learner)
        belonging = self._options.raft.members or self._options.peers
        wanted = [stores[number] for each in sorted(belonging) if (number := BrokerId(each)) in stores]
        return MembersWanted(
            tuple(store for store, learner in wanted if not learner),
            tuple(store for store, learner in wanted if learner),
        )

    def address_of(self, broker_id: BrokerId) -> str:
        """See Mode."""
        met = self._met.get(broker_id)
        return met[1].address if met is not None else ""

    # ---- how it looks ----------------------------------------------------------------------------------------------

    def members(self) -> InSyncView:
        """At the leader the voters that have all that was committed a moment ago; elsewhere all voters."""
        core = self.core
        if core is None:
            return InSyncView(members=(), version=0, min_in_sync=0)
        ground = core.raft.ground
        current = ground.members.current
        voters = sorted(each for each in map(_broker, current.voters) if each is not None)
        if core.leads is not None:
            present = {each.broker_id for each in self.followers() if each.in_sync} | {self.seat.broker_id}
            voters = [each for each in voters if each in present]
        return InSyncView(members=voters, version=ground.members.since, min_in_sync=len(current.voters) // 2 + 1)

    def followers(self) -> Sequence[FollowerState]:
        """See Mode. A lost store keeps its vote until the next one of its broker has everything: of both, the one that
        is heard is the follower."""
        core = self.core
        leading = core.raft.leading if core is not None else None
        if core is None or leading is None:
            return ()
        ground, ship, found = core.raft.ground, leading.shipper, dict[BrokerId, FollowerState]()
        patient_from, lately = ground.clock.now - ground.options.election_ms, self._noted.committed.position
        needed = ground.progress.commit if lately is None else lately
        for member in sorted(ground.members.current.members, key=lambda each: ship.rounds.heard_at(each) or 0):
            broker_id, flushed, heard = _broker(member), ship.match(member), ship.rounds.heard_at(member)
            if broker_id is None or member == self._identity:
                continue
            recent = heard is not None and heard >= patient_from
            votes = ground.members.current.is_voter(member)
            follows = recent and flushed >= needed and votes
            pace = self._noted.paces.get(member)
            step_at = heard if flushed >= self._log.end else pace.in_step_at if pace is not None else None
            known = flushed if flushed != NOWHERE else None
            awaited = votes or (broker_id in found and found[broker_id].awaited)
            found[broker_id] = FollowerState(broker_id, follows, known, step_at, awaited)
        return [found[each] for each in sorted(found)]

    def pending(self, now: int) -> PendingView | None:
        """Of a change that is on its way the voters, and why."""
        core = self.core
        leading = core.raft.leading if core is not None else None
        if core is None or leading is None or not leading.changing or self._noted.wanted is None:
            return None
        wanted, since = [int(name_of(each)) for each in self._noted.wanted.voters], self._noted.changing_at
        age_ms = max(0, now - since) if since is not None else 0
        return PendingView(members=sorted(wanted), why="members change one store for another", age_ms=age_ms)


def _members(core: VotingCore) -> set[BrokerId]:
    """The brokers of every configuration that may hold; none while this replica has not been told of any."""
    found = [each.members for each in core.raft.ground.members.open(core.commit)]
    return {number for members in found for each in members if (number := _broker(each)) is not None}


def _broker(replica: ReplicaId) -> BrokerId | None:
    process = process_of(replica)
    return process.broker_id if process is not None else None
