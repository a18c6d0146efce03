"""Every order of events in a small world: three members, two elections, one proposal, one crash, losses.

Breadth first over copies of the real cores. States are told apart by all that a core can act on; two that are equal are
visited once. Time stands still: what it would bring (a time-out, a resend) is an event of its own. After every event
the observer's rules are checked: one leader in a term, one vote in a term, committed records agree and are durable on a
majority, a leader of a later term holds them.
"""

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

from logherd.model.names import Epoch, Position
from logherd.raft.candidate import Candidate, PreCandidate
from logherd.raft.core import RaftCore, found_group
from logherd.raft.follower import Follower
from logherd.raft.inputs import Applied, Flushed, Propose, Received, Tick
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output, Role
from logherd.raft.store import HardState
from logherd.replication.messages import ClusterId, Envelope, Heartbeat, HeartbeatAck, ReplicaId
from logherd.replication.sender import ShipOptions
from sim.consensus.disk import SimStore

__all__ = ["Broken", "Scope", "explore"]

CLUSTER = ClusterId("small")
OPTIONS = RaftOptions(ship=ShipOptions(message_bytes_max=1))
"""One record in a message: more orders of arrival."""


class Broken(AssertionError):
    """A rule is broken; the events that led there are in the message."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of each kind of event one path may hold."""

    members: int = 3
    elections: int = 2
    proposals: int = 1
    crashes: int = 1
    losses: int = 1
    states: int = 100_000


class State:
    """One state of the small world."""

    def __init__(self, members: int) -> None:
        self.cores: dict[ReplicaId, RaftCore] = {}
        self.stores: dict[ReplicaId, SimStore] = {}
        self.wire: list[Envelope] = []
        self.used = {"elections": 0, "proposals": 0, "crashes": 0, "losses": 0}
        self.leaders: dict[Epoch, ReplicaId] = {}
        self.votes: dict[tuple[ReplicaId, Epoch], ReplicaId] = {}
        self.committed: list[tuple[Position, int, Epoch]] = []
        self.path: list[str] = []
        names = tuple(ReplicaId(name) for name in "abcde"[:members])
        for name in names:
            self.stores[name] = SimStore(1 << 20)
            found_group(self.stores[name], HardState(CLUSTER, name), names)
            self.stores[name].flush(len(self.stores[name].pending))
            self.boot(name)

    def boot(self, name: ReplicaId) -> None:
        """Start a member, long enough ago that it may vote."""
        self.cores[name] = RaftCore(self.stores[name], OPTIONS, hard=HardState(CLUSTER, name), seed=1, now=0)
        self.cores[name].ground.clock.started_at = -10_000

    def key(self) -> str:
        """What tells states apart; numbers of rounds and of tokens do not."""
        parts = [str(sorted(map(repr, map(_plain, self.wire)))), str(self.used)]
        for name, core in self.cores.items():
            ground, store = core.ground, self.stores[name]
            parts.append(f"{core.role.value} {core.leader} {ground.hard.term} {ground.hard.vote} {ground.last}")
            parts.append(f"{ground.progress.commit} {ground.durable.position} {store.disk.end}")
            parts.append(str([(record.epoch, record.end) for record in store.records(Position(0), store.end)]))
            if core.leading is not None:
                ship = core.leading.shipper
                parts.append(str([ship.sender(peer) for peer in self.cores]))
            votes = getattr(core._role, "_votes", None)
            receiver = getattr(core._role, "_receiver", None)
            parts.append(f"{votes} {receiver.verified if receiver else None}")
        return "|".join(parts)


def _plain(envelope: Envelope) -> Envelope:
    body = envelope.body
    if isinstance(body, (Heartbeat, HeartbeatAck)):
        return replace(envelope, body=replace(body, round=0))
    return envelope


def _feed(state: State, name: ReplicaId, event: Tick | Received | Flushed | Propose | Applied) -> None:
    core = state.cores[name]
    _carry_out(state, name, core.step(event, core.ground.clock.now))


def _carry_out(state: State, name: ReplicaId, output: Output) -> None:
    """Flushes end at once here: what waits for them is the other simulation's business. Duplicates are dropped."""
    for envelope in (*output.messages, *output.held):
        if output.held and envelope is output.held[0]:
            state.stores[name].flush(len(state.stores[name].pending))
        if not isinstance(envelope.body, (Heartbeat, HeartbeatAck)) and envelope not in state.wire:
            state.wire.append(envelope)
    if output.flush is not None:
        state.stores[name].flush(len(state.stores[name].pending))
        _feed(state, name, Flushed(output.flush))
    if output.apply_to is not None:
        _feed(state, name, Applied(output.apply_to))
    _check(state, name)


def _check(state: State, name: ReplicaId) -> None:
    core, ground = state.cores[name], state.cores[name].ground
    if core.role is Role.LEADER:
        if state.leaders.setdefault(ground.term, name) != name:
            raise Broken(f"C1 two leaders in term {ground.term}: {state.path}")
        for end, seal, term in state.committed:
            held = end <= ground.log.end and ground.log.seal_at(end) == seal
            if term < ground.term and not held:
                raise Broken(f"C3 a leader lacks a committed record: {state.path}")
    vote = ground.hard.vote
    if vote is not None and state.votes.setdefault((name, ground.term), vote) != vote:
        raise Broken(f"C1 two votes in term {ground.term}: {state.path}")
    commit = ground.progress.commit
    if commit == 0:
        return
    seal = ground.log.seal_at(commit)
    known = {end: (known_seal, term) for end, known_seal, term in state.committed}
    if commit in known:
        if known[commit][0] != seal:
            raise Broken(f"C3 two logs commit different records: {state.path}")
    else:
        holders = [s for s in state.stores.values() if s.disk.end >= commit and s.disk.seal_at(commit) == seal]
        if 2 * len(holders) <= len(state.stores) or core.role is not Role.LEADER:
            raise Broken(f"C4 committed without a majority: {state.path}")
        if ground.log.epochs.epoch_at(commit) != ground.term:
            raise Broken(f"C4 an older term's record is committed by counting: {state.path}")
        if any(end <= ground.log.end and ground.log.seal_at(end) != s for end, s, _ in state.committed):
            raise Broken(f"C3 two logs commit different records: {state.path}")
        state.committed.append((commit, seal, ground.term))


def _events(state: State, scope: Scope) -> Iterator[tuple[str, str, ReplicaId, int]]:
    used = state.used
    for place, envelope in enumerate(state.wire):
        yield "deliver", f"{envelope.sender}>{envelope.to} {type(envelope.body).__name__}", envelope.to, place
        if used["losses"] < scope.losses:
            yield "lose", f"{envelope.sender}>{envelope.to} {type(envelope.body).__name__}", envelope.to, place
    for name, core in state.cores.items():
        if core.leading is None and used["elections"] < scope.elections:
            yield "stand", name, name, 0
        if core.leading is not None and core.leading.ready and used["proposals"] < scope.proposals:
            yield "propose", name, name, 0
        if used["crashes"] < scope.crashes and core.ground.term > 0:
            yield "crash", name, name, 0


def _after(state: State, kind: str, what: str, name: ReplicaId, place: int) -> State:
    following = deepcopy(state)
    following.path.append(f"{kind} {what}")
    if kind == "deliver":
        _feed(following, name, Received(following.wire.pop(place)))
    elif kind == "lose":
        following.used["losses"] += 1
        following.wire.pop(place)
    elif kind == "stand":
        following.used["elections"] += 1
        for core in following.cores.values():
            core.ground.clock.leader_heard_at = None
        role = following.cores[name]._role
        if isinstance(role, (Follower, PreCandidate, Candidate)):
            role._deadline = following.cores[name].ground.clock.now
        _feed(following, name, Tick())
    elif kind == "propose":
        following.used["proposals"] += 1
        _feed(following, name, Propose(1, b"x"))
    else:
        following.used["crashes"] += 1
        following.stores[name] = following.stores[name].reopened()
        following.boot(name)
    return following


def explore(scope: Scope) -> tuple[int, int, bool]:
    """Visit every state in scope; (states, commits seen, whether all were visited). Raises: Broken."""
    first = State(scope.members)
    stack, seen, commits = deque([first]), {first.key()}, 0
    while stack and len(seen) < scope.states:
        state = stack.popleft()
        for kind, what, name, place in _events(state, scope):
            following = _after(state, kind, what, name, place)
            key = following.key()
            if key not in seen:
                seen.add(key)
                commits += bool(following.committed)
                stack.append(following)
    return len(seen), commits, not stack
