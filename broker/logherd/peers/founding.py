"""How a group comes to be: one node founds it once it knows every other one, and the rest learn of it.

    unfounded --all configured nodes are unfounded and this is the first one--> Found (as itself decides)
              --a peer's founders include this incarnation-------------------> Found (as it was told)
              --a peer's founders do not, or its quorum was rebuilt------------> Join  (a stranger, without a vote)

What has to be kept before anything is said of it is given as a step; `kept()` tells that it is durable. A group is
founded once: the founder decides alone, durably and before anybody hears of it, and a wiped founder is another
incarnation, which founds only if nobody was told of the first one. Two such foundings differ by one dead member, so
that any two majorities still meet.
"""

from dataclasses import dataclass

from logherd.kit.errors import ensure
from logherd.peers.hello import Hello
from logherd.peers.identity import Identity, name_of
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["Found", "Founding", "Join", "Lost", "Step"]


@dataclass(frozen=True, slots=True)
class Found:
    """Begin the log as one of these voters. The same for all of them."""

    founders: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Begin with a hard state of this cluster and nothing else: the group was founded without this incarnation."""

    founders: tuple[ReplicaId, ...]
    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class Lost:
    """A group counts on what this incarnation has promised, and it has no such memory. The process must not start."""

    reason: str


Step = Found | Join | Lost


class Founding:
    """One node's way into its group. No I/O; the shell carries out each step and calls `kept`.

    Invariants: (1) at most one Found or Join is given in a life, and after it nothing changes it; (2) what the founder
    has decided is not said before it is durable; what was told by others is passed on at once, else a founder that has
    just lost its disk would take this node for unfounded; (3) only the first configured node decides who founds.
    """

    def __init__(self, identity: Identity, nodes: tuple[str, ...]) -> None:
        """`nodes` are all configured names, the own one among them, the same on every node."""
        ensure(identity.name in nodes, "a node is configured", identity.name, nodes)
        self._identity = identity
        self._nodes = nodes
        self._unfounded: dict[str, ReplicaId] = {identity.name: identity.replica}
        self._step: Found | Join | None = None
        self._said = True
        self._kept = identity.founded
        if identity.founders is not None:
            self._step = self._settled(identity.founders, ClusterId(identity.cluster, identity.reset))

    @property
    def founded(self) -> tuple[ReplicaId, ...] | None:
        """What a hello says: the founders, once they may be known."""
        return self._step.founders if self._said and self._step is not None else None

    @property
    def missing(self) -> tuple[str, ...]:
        """Whom this node waits for; empty once it is settled."""
        if self._step is not None:
            return ()
        return tuple(name for name in self._nodes if name not in self._unfounded)

    def start(self) -> Step | None:
        """What an earlier life has left to do, or a node that is alone does at once. Called once, first."""
        if self._kept:
            return None
        if self._step is not None:
            return self._step
        return self._decide()

    def heard(self, hello: Hello) -> Step | None:
        """Take an accepted hello; what to do now, or nothing. `Lost` ends the process."""
        if self._step is not None:
            return None
        if hello.founded is not None:
            return self._told(hello.founded, hello.cluster)
        name = name_of(hello.sender)
        if name in self._nodes:
            self._unfounded[name] = hello.sender
        return self._decide()

    def kept(self) -> None:
        """The step is durable: from now on others may hear of it."""
        ensure(self._step is not None, "what is kept was decided", self._identity)
        self._kept = self._said = True

    def _decide(self) -> Step | None:
        if self._nodes[0] != self._identity.name or self.missing:
            return None
        self._step = Found(tuple(self._unfounded[name] for name in self._nodes))
        self._said = False
        return self._step

    def _told(self, founders: tuple[ReplicaId, ...], cluster: ClusterId) -> Step:
        if self._identity.replica in founders and name_of(founders[0]) == self._identity.name:
            return Lost(f"{self._identity.replica} has founded its group, and its own log does not know of it")
        self._step = self._settled(founders, cluster)
        return self._step

    def _settled(self, founders: tuple[ReplicaId, ...], cluster: ClusterId) -> Found | Join:
        """After a rebuilt quorum the founders are no longer who decides: whoever comes only now has no vote."""
        if self._identity.replica in founders and cluster.reset == 0:
            return Found(founders)
        return Join(founders, cluster)
