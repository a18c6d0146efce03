"""How this controller stands: what its shell knows of itself and of the quorum, and what that says to a probe."""

from dataclasses import dataclass

from logherd.replication.epochs import ORIGIN, Point

__all__ = ["Leadership", "Peer", "Progress", "Standing", "faults", "readiness"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads the quorum, seen from here. `leader` is a node's name.

    `serving`: this controller leads and has applied a record of its own term. `heard_ms`: how long ago the leader was
    heard, 0 at the leader itself, None if it never was.
    """

    role: str
    term: int
    leader: str | None
    serving: bool
    heard_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Positions of the controllers' log. `failure`: why nothing can be written any more.

    `flush_ms`: how long the oldest flush has been under way; 0 if none is. `disk_full`: so little of the disk is free
    that no record is taken, and, at the leader of the quorum, nothing decided.
    """

    applied: int
    committed: int
    end: int
    failure: str | None = None
    flush_ms: int = 0
    disk_full: bool = False
    last: Point = ORIGIN
    """The last record, committed or not."""
    reset: int = 0
    """How often an operator has rebuilt the quorum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A controller that is configured or belongs to the quorum, this one too.

    `voter` is False for a learner and None for one that does not belong. `match`: the end of its log as far as the
    leader knows; None elsewhere. `refused`: why it does not talk to this one, or this one not to it.
    """

    node: str
    identity: str | None = None
    address: str | None = None
    admin: str | None = None
    voter: bool | None = None
    connected: bool = False
    heard_ms: int | None = None
    match: int | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """This controller at one moment. `election_ms`: the shortest silence after which another leader is elected.

    `settled`: it leads, and its members are committed and not being changed.
    """

    cluster: str
    node: str
    identity: str
    pid: int
    version: str
    leadership: Leadership
    progress: Progress
    peers: tuple[Peer, ...]
    election_ms: int
    settled: bool = False

    def peer(self, node: str | None) -> Peer | None:
        """The controller of this name."""
        return next((peer for peer in self.peers if peer.node == node), None)

    @property
    def leader(self) -> Peer | None:
        """The controller that leads, with the addresses that are known of it."""
        name = self.leadership.leader
        return None if name is None else self.peer(name) or Peer(node=name)


def faults(standing: Standing) -> list[str]:
    """Why this process makes no progress; empty if it does. Others being away is no fault of it."""
    progress, found = standing.progress, list[str]()
    if progress.failure is not None:
        found.append(f"the log cannot be written: {progress.failure}")
    if progress.flush_ms >= standing.election_ms:
        found.append(f"the log is stalled: a flush has been under way for {progress.flush_ms} ms")
    return found


def readiness(standing: Standing) -> str | None:
    """Why this controller should not be asked; None if it should: it leads, or hears who does."""
    now = standing.leadership
    if standing.progress.failure is not None:
        return "the log cannot be written"
    if now.leader == standing.node:
        return None if now.serving else "it leads and has not applied a record of its term yet"
    if now.leader is None:
        return "no leader of the quorum is known"
    if now.heard_ms is None or now.heard_ms >= standing.election_ms:
        silence = "never" if now.heard_ms is None else f"{now.heard_ms} ms ago"
        return f"the leader {now.leader} was heard {silence}, which is longer than an election time-out"
    return None
