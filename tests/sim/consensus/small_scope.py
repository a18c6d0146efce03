"""Every order of events in a small world: two or three members, two elections, three proposals, one crash, one loss,
one duplicate, one change of members.

Breadth first over copies of the real cores. States are told apart by all that a core can act on and by what has been
promised so far; two that are equal, or become equal when members change names, are visited once. Time stands still:
what it would bring (a time-out, a resend) is an event of its own. After every event the observer's rules are checked:
one leader in a term, one vote in a term, committed records agree and are durable on a majority, a leader of a later
term holds them. `python -m sim.consensus.small_scope` goes as far as it is given states or time.
"""

import argparse
import pickle
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from itertools import permutations
from time import monotonic

from msgspec import structs

from logherd.model.names import Epoch, Position
from logherd.raft.candidate import Candidate, PreCandidate
from logherd.raft.core import RaftCore, found_group
from logherd.raft.follower import Follower
from logherd.raft.inputs import Applied, ChangeMembers, Flushed, Input, Propose, Received, Tick
from logherd.raft.members import Configuration, Goal
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output, Role
from logherd.raft.record import Record
from logherd.raft.store import HardState
from logherd.replication.messages import ClusterId, Envelope, Heartbeat, HeartbeatAck, ReplicaId
from logherd.replication.sender import ShipOptions
from sim.consensus.disk import SimStore

__all__ = ["Broken", "Scope", "explore"]

CLUSTER = ClusterId("small")
OPTIONS = RaftOptions(ship=ShipOptions(message_bytes_max=1, small_bytes=0))
"""One record in a message: more orders of arrival."""


class Broken(AssertionError):
    """A rule is broken; the events that led there are in the message."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of each kind of event one path may hold."""

    members: int = 3
    elections: int = 2
    proposals: int = 3
    crashes: int = 1
    losses: int = 1
    duplicates: int = 1
    changes: int = 1
    states: int = 100_000
    seconds: float = 1e9
    deep: int = 0
    """1: follow one path to its end before the next, which finds late states early; 0: the shortest paths first."""


class State:
    """One state of the small world."""

    def __init__(self, members: int) -> None:
        self.cores: dict[ReplicaId, RaftCore] = {}
        self.stores: dict[ReplicaId, SimStore] = {}
        self.wire: list[Envelope] = []
        self.used = dict.fromkeys(_COUNTED, 0)
        self.leaders: dict[Epoch, ReplicaId] = {}
        self.votes: dict[tuple[ReplicaId, Epoch], ReplicaId] = {}
        self.committed: list[tuple[Position, int, Epoch]] = []
        self.path: list[str] = []
        names = tuple(ReplicaId(f"<{number}>") for number in range(members))
        for name in names:
            self.stores[name] = SimStore(1 << 20)
            self.stores[name].on_truncate = _ignored
            found_group(self.stores[name], HardState(CLUSTER, name), names)
            self.stores[name].flush(len(self.stores[name].pending))
            self.boot(name)

    def boot(self, name: ReplicaId) -> None:
        """Start a member, long enough ago that it may vote."""
        self.cores[name] = RaftCore(self.stores[name], OPTIONS, hard=HardState(CLUSTER, name), seed=1, now=0)
        self.cores[name].ground.clock.started_at = -10_000

    def key(self) -> bytes:
        """What tells states apart; numbers of rounds and of tokens do not, nor do the names of the members."""
        wire = [repr(_plain(envelope)) for envelope in self.wire]
        seen = [f"{term} {name}" for term, name in self.leaders.items()]
        seen += [f"{end} {term}" for end, _, term in self.committed]
        parts = [self._part(name) for name in self.cores]
        forms = []
        for renamed in permutations(self.cores):
            names = dict(zip(self.cores, renamed, strict=True))
            body = [sorted(_renamed(text, names) for text in group) for group in (wire, seen, parts)]
            forms.append(f"{self.used} {body}")
        return blake2b(min(forms).encode(), digest_size=16).digest()

    def _part(self, name: ReplicaId) -> str:
        core, store = self.cores[name], self.stores[name]
        ground = core.ground
        hard = ground.hard
        text = f"{name} {core.role.value} {core.leader} {hard.term} {hard.vote} {ground.last} {ground.progress.commit} "
        text += f"{ground.durable.position} {store.disk.end} {ground.members._known} "
        text += str([(record.epoch, record.end) for record in store.records(Position(0), store.end)])
        if core.leading is not None:
            ship = core.leading.shipper
            text += str(sorted(str(ship.sender(peer)) for peer in self.cores)) + str(core.leading._changing._change)
        votes = getattr(core._role, "_votes", None)
        receiver = getattr(core._role, "_receiver", None)
        given = sorted(f"{peer} {answer}" for peer, answer in votes.items()) if votes else ""
        return f"{text} {given} {receiver.verified if receiver else None}"


_COUNTED = ("elections", "proposals", "crashes", "losses", "duplicates", "changes")


def _ignored(at: Position, gone: list[Record]) -> None:
    """Cuts are judged by what is committed afterwards."""


_GROUP = re.compile(r"\((?:'\{\d>'(?:, )?)+,?\)")
"""Several names: the order of members means nothing."""


def _renamed(text: str, names: dict[ReplicaId, ReplicaId]) -> str:
    for old, new in names.items():
        text = text.replace(old, new.replace("<", "{"))
    return _GROUP.sub(lambda group: str(sorted(group[0].strip("(,)").split(", "))), text)


def _plain(envelope: Envelope) -> Envelope:
    body = envelope.body
    if isinstance(body, (Heartbeat, HeartbeatAck)):
        return structs.replace(envelope, body=structs.replace(body, round=0))
    return envelope


def _feed(state: State, name: ReplicaId, event: Input) -> None:
    core = state.cores[name]
    before = core.ground.members.current
    output = core.step(event, core.ground.clock.now)
    _check(state, name, before)  # before what the step wants is done, which may lead to further commits
    _carry_out(state, name, output)


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


def _check(state: State, name: ReplicaId, before: Configuration) -> None:
    """`before`: the members when the step began, which decide what it may commit."""
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
        disks = {peer: store.disk for peer, store in state.stores.items()}
        holders = [peer for peer, disk in disks.items() if disk.end >= commit and disk.seal_at(commit) == seal]
        halves = [half for half in (before.voters, before.outgoing) if half]
        held = all(2 * len([peer for peer in half if peer in holders]) > len(half) for half in halves)
        # A leader that leaves with its own change commits in its last step.
        if not held or state.leaders.get(ground.term) != name:
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
        if used["duplicates"] < scope.duplicates:
            yield "double", f"{envelope.sender}>{envelope.to} {type(envelope.body).__name__}", envelope.to, place
    for name, core in state.cores.items():
        if core.leading is None and used["elections"] < scope.elections:
            yield "stand", name, name, 0
        if core.leading is not None and core.leading.ready and used["proposals"] < scope.proposals:
            yield "propose", name, name, 0
        if core.leading is not None and core.leading.ready and used["changes"] < scope.changes:
            for number in range(2 * len(state.cores)):
                yield "change", f"{name} {number}", name, number
        if used["crashes"] < scope.crashes and core.ground.term > 0:
            yield "crash", name, name, 0


def _after(state: bytes, kind: str, what: str, name: ReplicaId, place: int) -> State:
    following: State = pickle.loads(state)
    following.path.append(f"{kind} {what}")
    if kind in _USES:
        following.used[_USES[kind]] += 1
    if kind == "deliver":
        _feed(following, name, Received(following.wire.pop(place)))
    elif kind == "double":
        _feed(following, name, Received(following.wire[place]))
    elif kind == "lose":
        following.wire.pop(place)
    elif kind == "stand":
        _stand(following, name)
    elif kind == "propose":
        _feed(following, name, Propose(1, b"x"))
    elif kind == "change":
        _feed(following, name, ChangeMembers(2, _goal(following, name, place)))
    else:
        following.stores[name] = following.stores[name].reopened()
        following.stores[name].on_truncate = _ignored
        following.boot(name)
    return following


_USES = {
    "lose": "losses", "double": "duplicates", "stand": "elections", "propose": "proposals", "change": "changes",
    "crash": "crashes",
}  # fmt: skip


def _stand(state: State, name: ReplicaId) -> None:
    for core in state.cores.values():
        core.ground.clock.leader_heard_at = None
    role = state.cores[name]._role
    if isinstance(role, (Follower, PreCandidate, Candidate)):
        role._deadline = state.cores[name].ground.clock.now
    _feed(state, name, Tick())


def _goal(state: State, leader: ReplicaId, number: int) -> Goal:
    """Without one member, or with it again; by one step, or by a joint group."""
    chosen, single = list(state.cores)[number // 2], number % 2 == 0
    voters = state.cores[leader].ground.members.current.voters
    others = tuple(peer for peer in voters if peer != chosen)
    return Goal(others if chosen in voters and others else (*others, chosen), single=single)


def explore(scope: Scope) -> tuple[int, int, bool]:
    """Visit every state in scope; (states, commits seen, whether all were visited). Raises: Broken."""
    first, until = State(scope.members), monotonic() + scope.seconds
    stack, seen, commits = deque([pickle.dumps(first, -1)]), {first.key()}, 0
    while stack and len(seen) < scope.states and monotonic() < until:
        packed = stack.pop() if scope.deep else stack.popleft()
        for kind, what, name, place in _events(pickle.loads(packed), scope):
            following = _after(packed, kind, what, name, place)
            key = following.key()
            if key not in seen:
                seen.add(key)
                commits += bool(following.committed)
                stack.append(pickle.dumps(following, -1))
    return len(seen), commits, not stack


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Scope):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    scope = Scope(**vars(parser.parse_args()))
    began = monotonic()
    try:
        states, commits, all_of_them = explore(scope)
    except Broken as error:
        print(f"BROKEN: {error}")
        return 1
    whole = "all" if all_of_them else "the first"
    print(f"{scope}: {whole} {states} states are sound, {commits} with commits, {monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
