"""This process' place in the quorum: its identity, its log, its links, and the running node once the group is founded.

    identity.json   who this data directory is, and who founded the group (peers/identity.py)
    raft/           term, vote, log and images (raftlog)
    silent-since.json   after an orderly stop: since when (app/quorum/rest.py)

What must be durable before what is said: the identity before the first hello; the founders and the log that begins with
them before a hello says `founded`, and before the node runs.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from secrets import randbits

from logherd.aiokit.tasks import TaskGuard
from logherd.app.controllers.board import Board, Told
from logherd.app.controllers.decisions import Decisions
from logherd.app.controllers.news import log_quorum
from logherd.app.data_dir import make_data_dir
from logherd.app.quorum.node import NodeFailed, NodeOptions, RaftNode
from logherd.app.quorum.outcomes import Outcome, ReadOutcome, Rejected
from logherd.app.quorum.rest import leave_word, take_word
from logherd.controller.silence import successor
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import LogHerdError
from logherd.peers.founding import Found, Founding, Lost, Step
from logherd.peers.hello import Hello
from logherd.peers.identity import Identity, open_identity
from logherd.peers.links import PeerLinks
from logherd.peers.options import LinkOptions, PeerView
from logherd.peers.prepare import prepare_log
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.members import Goal
from logherd.raft.options import RaftOptions
from logherd.raft.output import Event, QuorumRecovered, Refusal, Role, RoleChanged
from logherd.raftlog.log import RaftLog
from logherd.raftlog.options import RaftLogOptions
from logherd.replication.messages import ClusterId, Envelope, ReplicaId
from logherd.replication.sender import ShipOptions
from logherd.settings.options import ControllerOptions, Endpoint
from logherd.store.errors import ReplicaDamaged
from logherd.store.files_os import OsFiles
from logherd.telemetry.log import Log

__all__ = ["Member", "PromisesLost"]

_FILES = OsFiles()

_FIRST_ELECTION_MS = 200
"""A quorum that was founded a moment ago has nobody to wait for."""

_AGAIN_SECONDS = 0.05

_log = Log("logherd.quorum")


class PromisesLost(LogHerdError):
    """A group counts on what this data directory has promised, and the directory does not know of it."""


class Member:
    """One member of the controllers' quorum. Belongs to the loop on which `start` ran. It is the board's `Quorum`."""

    def __init__(
        self, options: ControllerOptions, decisions: Decisions, board: Board, *, on_failure: Callable[[], None]
    ) -> None:
        """Open the identity and the log; blocks. Raises: NoDataDir, IdentityError, StoreError, ReplicaDamaged,
        OSError."""
        self._options = options
        self._decisions = decisions
        self._board = board
        self._on_failure = on_failure
        self._failure: NodeFailed | None = None
        make_data_dir(options.data_dir)
        self._log = RaftLog.open(_FILES, f"{options.data_dir}/raft", RaftLogOptions())
        try:
            self._identity = open_identity(
                _FILES, options.data_dir, cluster=options.cluster_name, name=options.node_name,
                log_empty=self._log.hard_state() is None,
            )  # fmt: skip
            _check_founding(self._identity, self._log, options.data_dir)
        except BaseException:
            self._log.close()
            raise
        self.node: RaftNode[Verdict] | None = None
        names = tuple(each.name for each in options.controllers)
        self._founding = Founding(self._identity, names)
        self._instance = randbits(64)
        others = {each.name: (each.peer.host, each.peer.port) for each in options.controllers}
        self._links = PeerLinks(  # which leaves out the own name
            self._hello, others, on_envelopes=self._arrived, on_linked=self._linked, on_hello=self._heard,
            options=LinkOptions(),
        )  # fmt: skip
        self._links_up = False

    @property
    def identity(self) -> ReplicaId:
        """The name and incarnation of this data directory."""
        return self._identity.replica

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Whom the founding of the group waits for; empty once it is founded."""
        return self._founding.missing

    @property
    def failure(self) -> str | None:
        """Why nothing can be written any more."""
        return str(self._failure) if self._failure is not None else None

    def peers(self) -> tuple[PeerView, ...]:
        """The other members as their links are now."""
        return self._links.views()

    async def start(self, listening: socket.socket, guard: TaskGuard) -> Endpoint:
        """Listen for peers, dial them, and run as soon as the group is founded. Raises: OSError, StoreError."""
        step = self._founding.start()
        if step is not None:
            self._settle(step)
        elif self._founding.founded is not None:
            self._run()
        host, port = await self._links.listen_on(listening)
        self._links.start(guard)
        self._links_up = True
        return Endpoint(host=host, port=port)

    async def hand_over(self, seconds: float) -> None:
        """Before a planned stop: have another member lead, so that nobody need notice. Waits for `seconds` at most."""
        node = self.node
        if node is None or node.core.role is not Role.LEADER or len(node.core.ground.members.current.voters) == 1:
            return
        reason = Refusal.TIMED_OUT
        try:
            async with asyncio.timeout(seconds):
                while (outcome := await _handed_over(node)) == Rejected(Refusal.RUNNING, self.identity):
                    reason = Refusal.RUNNING
                    await asyncio.sleep(_AGAIN_SECONDS)  # a step of a change is on its way to the others' disks
        except TimeoutError:
            outcome = Rejected(reason, self.identity)
        if isinstance(outcome, Rejected) and outcome.reason is not Refusal.NOT_LEADER:
            why = outcome.reason.value
            _log.warning("leadership was not handed over before the stop", reason=why, seconds=seconds)

    async def stop(self, seconds: float) -> None:
        """Close links, node and log. Idempotent."""
        if self._links_up:
            self._links_up = False
            await self._links.stop()
            if self._failure is None:  # before the log, and with it the directory, is another life's
                leave_word(Path(self._options.data_dir))
        if self.node is None:
            self._log.close()
            return
        if not await self.node.stop(seconds):
            _log.error("the writer does not end", seconds=seconds)

    def check(self) -> None:
        """Raises: NodeFailed if the member has failed."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """The process must end: what is said after this could be wrong."""
        if self._failure is None:
            self._failure = NodeFailed(f"{type(error).__name__}: {error}")
            _log.error("the member failed", cause=error)
            self._on_failure()

    # ---- what the board asks ------------------------------------------------------------------------------------

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None:
        """See RaftNode."""
        if self.node is None:
            then(Rejected(Refusal.NOT_READY, None))
        else:
            self.node.propose(body, then)

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        """See RaftNode."""
        if self.node is None:
            then(Rejected(Refusal.NOT_READY, None))
        else:
            self.node.read(then)

    def hand_over_to(self, identity: str | None, then: Told) -> None:
        """Hand leadership to this voter, or to the one with the longest log."""
        if self.node is None:
            then(Rejected(Refusal.NOT_READY, None))
        else:
            self.node.transfer(None if identity is None else ReplicaId(identity), then)

    def give_way(self, turn: int) -> None:
        """Have another voter lead, because too few brokers are heard here; see `Silence`."""
        node = self.node
        target = None if node is None else successor(node.core.ground.members.current.voters, self.identity, turn)
        if node is not None and target is not None:
            _log.warning("too few brokers reach this controller, another one shall lead", target=target)
            node.transfer(target, lambda outcome: _say_if_refused(outcome, target))

    def resettle(self, voters: tuple[str, ...], learners: tuple[str, ...], then: Told) -> None:
        """Work towards these members."""
        if self.node is None:
            then(Rejected(Refusal.NOT_READY, None))
            return
        goal = Goal(tuple(map(ReplicaId, voters)), tuple(map(ReplicaId, learners)))
        self.node.change_members(goal, then)

    def rebuild(self, order: RecoverQuorum, then: Told) -> None:
        """Carry out an operator's decision that lost voters never come back."""
        if self.node is None:
            then(Rejected(Refusal.NOT_READY, None))
        else:
            self.node.recover_quorum(order, then)

    # ---- founding -----------------------------------------------------------------------------------------------

    def _hello(self) -> Hello:
        node = self.node
        cluster = node.core.ground.hard.cluster if node is not None else ClusterId(self._options.cluster_name)
        return Hello(
            cluster=cluster, sender=self._identity.replica, instance=self._instance,
            segment_bytes=RaftLogOptions().segment_bytes, founded=self._founding.founded,
            software=f"logherd {version('logherd')}", nodes=tuple(each.name for each in self._options.controllers),
        )  # fmt: skip

    def _heard(self, hello: Hello) -> None:
        try:
            step = self._founding.heard(hello)
            if step is not None:
                self._settle(step)
        except Exception as error:  # the data directory could not be prepared: the process ends and says why
            self.fail(error)

    def _settle(self, step: Step) -> None:
        """Carry out a step of founding: some files are written and flushed, once in the life of a data directory."""
        if isinstance(step, Lost):
            raise PromisesLost(step.reason)
        self._identity = prepare_log(_FILES, self._options.data_dir, self._identity, self._log, step)
        self._founding.kept()
        what = "group founded" if isinstance(step, Found) else "joining without a vote"
        _log.info(what, founders=", ".join(step.founders))
        self._run()
        if self._links_up:
            self._links.announce()

    def _run(self) -> None:
        recovered = self._log.recovered
        _log.info("log recovered", rows="; ".join(recovered.rows), cut_bytes=recovered.cut_bytes)
        if recovered.doubtful:
            _log.warning(
                "what this controller promised last may be lost: it has no vote until a leader has sent it everything, "
                "and if it is the only one it waits for others for five election time-outs first"
            )
        node = RaftNode(
            self._log, self._decisions, _node_options(self._options), sender=self._links, on_event=self._told,
            on_failure=self.fail, silent_since=take_word(Path(self._options.data_dir)),
        )  # fmt: skip
        self.node = node
        self._board.quorum = self
        node.start()
        for view in self._links.views():
            if view.connected and view.identity is not None:
                node.linked(view.identity)

    # ---- what the links and the node tell -----------------------------------------------------------------------

    def _arrived(self, envelopes: Sequence[Envelope]) -> None:
        if self.node is not None:
            self.node.receive(envelopes)

    def _linked(self, peer: ReplicaId) -> None:
        if self.node is not None:
            self.node.linked(peer)

    def _told(self, event: Event) -> None:
        log_quorum(event)
        if isinstance(event, RoleChanged):
            recoveries = self.node.core.ground.hard.cluster.reset if self.node is not None else 0
            self._board.role_changed(event, recoveries=recoveries)
        elif isinstance(event, QuorumRecovered):
            self._links.announce()


async def _handed_over(node: RaftNode[Verdict]) -> Outcome[None]:
    """Hand over in place of a change that waits for new voters, be it for minutes: whoever wants it asks again."""
    leading, current = node.core.leading, node.core.ground.members.current
    if leading is not None and leading.goal is not None:
        node.change_members(Goal(current.voters, current.learners), lambda _outcome: None, instead=True)
    done, outcomes = asyncio.Event(), list[Outcome[None]]()

    def told(outcome: Outcome[None]) -> None:  # maybe when nobody waits any more
        outcomes.append(outcome)
        done.set()

    node.transfer(None, told)
    await done.wait()
    return outcomes[0]


def _check_founding(identity: Identity, log: RaftLog, data_dir: str) -> None:
    """A founder's log begins with an image that names the voters. Without it this member would know of none, not stand
    for election, and say nothing of it. Raises: ReplicaDamaged."""
    if identity.founded and not identity.stranger and log.image() is None:
        raise ReplicaDamaged(f"{data_dir}/raft/images", 0, "image missing: this node has founded the group with one")


def _node_options(options: ControllerOptions) -> NodeOptions:
    election = options.election
    raft = RaftOptions(
        election_ms=election.timeout_ms, election_spread_ms=election.spread_ms,
        first_election_ms=min(_FIRST_ELECTION_MS, election.timeout_ms),
        ship=ShipOptions(heartbeat_ms=election.heartbeat_ms),
    )  # fmt: skip
    return NodeOptions(raft=raft, image_records=options.snapshot_records, image_bytes=options.snapshot_bytes)


def _say_if_refused(outcome: Outcome[None], target: str) -> None:
    if isinstance(outcome, Rejected):
        _log.warning(
            "the other controller does not lead; the next one is asked later",
            target=target,
            reason=outcome.reason.value,
        )
