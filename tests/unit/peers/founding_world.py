"""Every order of hellos, crashes and lost disks of a small group, walked through; what a run leaves is judged.

A node's part in a founding is three writes (see prepare.py), and it can crash before each. A hello is a moment in which
two living processes look at each other, except that a dead process's last hello may still be read from its connection
by a process that had accepted it (`stale`).
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from logherd.peers.founding import Found, Founding, Join, Lost
from logherd.peers.hello import Hello
from logherd.peers.identity import Identity
from logherd.replication.messages import ReplicaId
from unit.peers.fakes import CLUSTER, hello_of, replica

Founders = tuple[ReplicaId, ...]
Event = tuple[str, ...]


@dataclass
class Member:
    """One node: its disk, and while it is up its process."""

    identity: Identity
    prepared: Founders | None = None
    """As a voter of these; an empty tuple as a stranger."""
    founding: Founding | None = None
    step: Found | Join | None = None

    def clone(self) -> "Member":
        made = copy(self)
        made.__dict__.pop("key", None)
        if self.founding is not None:
            made.founding = copy(self.founding)
            made.founding._unfounded = dict(self.founding._unfounded)
        return made

    @cached_property
    def key(self) -> int:
        founding = self.founding
        known = (
            None if founding is None else (tuple(sorted(founding._unfounded.items())), founding._step, founding._said)
        )
        return hash((self.identity, self.prepared, known, self.step))

    @property
    def hello(self) -> Hello:
        assert self.founding is not None
        name, _, incarnation = self.identity.replica.rpartition(".")
        return hello_of(name, incarnation=int(incarnation, 16), founded=self.founding.founded)

    @property
    def acts(self) -> Founders | None:
        """The founders that it votes with, if its core may run."""
        up = self.founding is not None and self.identity.founded
        return self.prepared if up and self.prepared else None


@dataclass
class World:
    names: tuple[str, ...]
    crashes: int
    wipes: int
    stale: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    late: dict[tuple[ReplicaId, str], Hello] = field(default_factory=dict)
    together: frozenset[tuple[Founders, ReplicaId, ReplicaId]] = frozenset()

    @staticmethod
    def begin(names: str, *, crashes: int, wipes: int, stale: bool = False) -> "World":
        world = World(tuple(names), crashes, wipes, stale)
        for name in names:
            world.members[name] = Member(Identity(cluster=CLUSTER.name, replica=replica(name)))
        return world

    @property
    def key(self) -> int:
        late = tuple(sorted((key, hello.founded or ()) for key, hello in self.late.items()))
        return hash((*(self.members[name].key for name in self.names), self.crashes, self.wipes, late, self.together))

    def events(self) -> Iterator[Event]:
        """Everything that can happen next."""
        for name, member in self.members.items():
            if member.founding is None:
                yield "start", name
                continue
            if member.step is not None:
                yield "write", name
            for other, their in self.members.items():
                if other != name and their.founding is not None:
                    yield "hello", other, name
            if self.crashes:
                yield "crash", name
            if self.wipes:
                yield "wipe", name
        for source, target in self.late:
            yield "late", source, target

    def after(self, event: Event) -> "World":
        """The world once it has happened."""
        world = copy(self)
        world.members = dict(self.members)
        touched = event[-1]  # a hello changes only who hears it
        world.members[touched] = self.members[touched].clone()
        world.late = dict(self.late)
        getattr(world, f"_{event[0]}")(*event[1:])
        world._note()
        return world

    def _start(self, name: str) -> None:
        member = self.members[name]
        member.founding = Founding(member.identity, self.names)
        self._do(member, member.founding.start())

    def _do(self, member: Member, step: Found | Join | Lost | None) -> None:
        assert not isinstance(step, Lost), "nothing was lost that was promised"
        if step is not None:
            assert member.step is None, "a step is given once"
            member.step = step

    def _hello(self, source: str, target: str) -> None:
        self._hear(target, self.members[source].hello)

    def _late(self, source: ReplicaId, target: str) -> None:
        self._hear(target, self.late.pop((source, target)))

    def _hear(self, target: str, hello: Hello) -> None:
        member = self.members[target]
        assert member.founding is not None
        if member.founding.founded is None or hello.founded is None:
            self._do(member, member.founding.heard(hello))

    def _write(self, name: str) -> None:
        """The next of the three writes of prepare.py."""
        member, identity = self.members[name], self.members[name].identity
        step, founding = member.step, member.founding
        assert step is not None
        assert founding is not None
        if identity.founders is None:
            member.identity = replace(identity, founders=step.founders)
        elif member.prepared is None:
            assert identity.founders == step.founders, "the intent is final"
            member.prepared = step.founders if isinstance(step, Found) else ()
        else:
            member.identity = replace(identity, founded=True)
            founding.kept()
            member.step = None

    def _crash(self, name: str) -> None:
        self.crashes -= 1
        self._die(name)

    def _wipe(self, name: str) -> None:
        self.wipes -= 1
        self._die(name)
        number = int(self.members[name].identity.replica.rpartition(".")[2], 16)
        self.members[name] = Member(Identity(cluster=CLUSTER.name, replica=replica(name, number + 1)))

    def _die(self, name: str) -> None:
        member = self.members[name]
        self.late = {key: hello for key, hello in self.late.items() if key[1] != name}
        if self.stale:
            for other, their in self.members.items():
                if other != name and their.founding is not None:
                    self.late[member.identity.replica, other] = member.hello
        member.founding = member.step = None

    def _note(self) -> None:
        """Who could have worked with whom."""
        acting = [(acts, m.identity.replica) for m in self.members.values() if (acts := m.acts)]
        pairs = {(a, x, y) for a, x in acting for b, y in acting if a == b}
        if not pairs <= self.together:
            self.together |= pairs

    # ---- judging -----------------------------------------------------------------------------------------------------

    def majorities(self) -> list[tuple[Founders, frozenset[ReplicaId]]]:
        """The majorities that could have elected somebody: a leader with whom all of it lived at one time."""
        found = []
        for founders in {founders for founders, _, _ in self.together}:
            for group in combinations(founders, len(founders) // 2 + 1):
                led = (leader for leader in group if all((founders, leader, m) in self.together for m in group))
                found.extend((founders, frozenset(group)) for _ in led)
        return found

    def check(self) -> None:
        """No two groups can decide without knowing of each other."""
        found = self.majorities()
        for (one, left), (two, right) in combinations(found, 2):
            assert one == two or left & right, f"{left} and {right} have founded two groups"

    def settled(self) -> "World":
        """The world once everybody is up, has done what it had to, and nothing more is lost."""
        world = self
        while True:
            event = next((e for e in world.events() if e[0] in ("start", "write")), None)
            if event is None:
                before = world.key
                for event in [e for e in world.events() if e[0] == "hello"]:
                    world = world.after(event)
                if world.key == before:
                    return world
            else:
                world = world.after(event)


def explore(world: World, states_max: int) -> list[World]:
    """Every world that can follow, each once."""
    seen = {world.key: world}
    waiting = [world]
    while waiting:
        current = waiting.pop()
        for event in current.events():
            following = current.after(event)
            if following.key not in seen:
                assert len(seen) < states_max, "the walk is larger than it was meant to be"
                seen[following.key] = following
                waiting.append(following)
    return list(seen.values())
