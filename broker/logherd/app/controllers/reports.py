"""What a controller knows of itself, for redirects, for tools and for the pages of its admin port."""

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from logherd.app.clock import boot_ms
from logherd.app.controllers.board import Board
from logherd.app.controllers.member import Member
from logherd.app.quorum.node import RaftNode
from logherd.peers.identity import name_of
from logherd.peers.options import PeerView
from logherd.replication.messages import ReplicaId
from logherd.service.controllers.desk import QuorumView
from logherd.service.controllers.place import Place
from logherd.service.controllers.standing import Leadership, Peer, Progress, Standing
from logherd.service.controllers.steps import Seat
from logherd.settings.options import ControllerOptions

__all__ = ["Reports"]


class Reports:
    """Reads the parts of a controller and changes none. `bound`: the addresses that were taken, empty while stopped."""

    def __init__(self, options: ControllerOptions, member: Member, board: Board) -> None:
        self._options = options
        self._member = member
        self._board = board
        self._addresses = tuple((each.name, str(each.address)) for each in options.controllers)
        self._shown = _shown(options)
        self._version = version("logherd")
        self.bound: dict[str, str] = {}

    def quorum_view(self) -> QuorumView:
        """The quorum as the desk's redirects and 1005 show it."""
        leader = self._leader()
        return QuorumView(
            group=self._options.cluster_name, own_id=self._options.node_name, leader_id=leader,
            leader_address=dict(self._addresses).get(leader or ""), peers=self._addresses, shown=self._shown,
            machine=lambda: self._board.machine, options=self._board.options,
        )  # fmt: skip

    def place(self, renewed_from: Callable[[Seat], str | None]) -> Place:
        """What the admin port's pages and actions look at."""
        board = self._board
        return Place(
            machine=lambda: board.machine, office=lambda: board.office, standing=self.standing, options=board.options,
            shown=self._shown, renewed_from=renewed_from,
        )  # fmt: skip

    def standing(self) -> Standing:
        """This controller now."""
        options, node = self._options, self._member.node
        return Standing(
            cluster=options.cluster_name, node=options.node_name, identity=self._member.identity, pid=os.getpid(),
            version=self._version, leadership=self._leadership(node), progress=self._progress(node),
            peers=self._peers(node), election_ms=options.election.timeout_ms, settled=_settled(node),
        )  # fmt: skip

    def _leader(self) -> str | None:
        node = self._member.node
        leader = node.core.leader if node is not None else None
        return name_of(leader) if leader is not None else None

    def _leadership(self, node: RaftNode[Any] | None) -> Leadership:
        if node is None:
            return Leadership(role="founding", term=0, leader=None, serving=False, heard_ms=None)
        heard = 0 if node.core.leading is not None else _since(node.core.ground.clock.leader_heard_at)
        return Leadership(
            role=node.core.role.value, term=node.core.ground.term, leader=self._leader(),
            serving=self._board.office is not None, heard_ms=heard,
        )  # fmt: skip

    def _progress(self, node: RaftNode[Any] | None) -> Progress:
        failure = self._member.failure
        if node is None:
            return Progress(applied=0, committed=0, end=0, failure=failure)
        ground = node.core.ground
        return Progress(
            applied=node.position, committed=ground.progress.commit, end=node.log.end, failure=failure,
            flush_ms=_since(ground.durable.waiting_since) or 0, last=ground.last, reset=ground.hard.cluster.reset,
            disk_full=ground.full,
        )  # fmt: skip

    def _peers(self, node: RaftNode[Any] | None) -> tuple[Peer, ...]:
        """All configured controllers and all members; a member that came back wiped stands there as both that it is."""
        views = {view.name: view for view in self._member.peers()}
        members = node.core.ground.members.current.members if node is not None else ()
        found: list[Peer] = []
        for name in dict.fromkeys((*(each.name for each in self._options.controllers), *map(name_of, members))):
            view = views.get(name)
            here = self._member.identity if name == self._options.node_name else view.identity if view else None
            identities: list[ReplicaId | None] = [each for each in members if name_of(each) == name]
            if here not in identities and (here is not None or not identities):
                identities.append(here)
            found += [self._peer(name, each, view, node) for each in identities]
        return tuple(found)

    def _peer(
        self, name: str, identity: ReplicaId | None, view: PeerView | None, node: RaftNode[Any] | None
    ) -> Peer:  # fmt: skip
        configured, own = self._options.member(name), identity == self._member.identity
        answers = view is not None and view.identity in (identity, None)
        return Peer(
            node=name, identity=identity, address=str(configured.address) if configured is not None else None,
            admin=str(configured.admin) if configured is not None and configured.admin is not None else None,
            voter=_voter(identity, node), connected=own or (answers and view is not None and view.connected),
            heard_ms=0 if own else view.heard_ms if view is not None and answers else None,
            match=_match(identity, node, own=own), refused=view.refused if view is not None else None,
        )  # fmt: skip


def _since(moment: int | None) -> int | None:
    return None if moment is None else max(0, boot_ms() - moment)


def _voter(member: ReplicaId | None, node: RaftNode[Any] | None) -> bool | None:
    if member is None or node is None or member not in node.core.ground.members.current.members:
        return None
    return node.core.ground.members.current.is_voter(member)


def _settled(node: RaftNode[Any] | None) -> bool:
    leading = node.core.leading if node is not None else None
    if node is None or leading is None or leading.changing:
        return False
    return not node.core.ground.members.current.joint


def _match(member: ReplicaId | None, node: RaftNode[Any] | None, *, own: bool) -> int | None:
    leading = node.core.leading if node is not None else None
    if node is None or leading is None or member is None or _voter(member, node) is None:
        return None
    return node.log.end if own else leading.shipper.match(member)


def _shown(options: ControllerOptions) -> dict[str, str]:
    """Under RocketMQ's names where it has them, else under ours."""
    peers = ";".join(f"{each.name}-{each.peer.host}:{each.peer.port}" for each in options.controllers)
    return {
        "controllerDLegerGroup": options.cluster_name,
        "controllerDLegerPeers": peers,
        "controllerDLegerSelfId": options.node_name,
        "controllerStorePath": options.data_dir,
        "listen": str(options.listen),
        "peerListen": str(options.peer_listen),
        "adminListen": str(options.admin_listen),
        "leaseMs": str(options.lease_ms),
        "clockDriftPercent": str(options.clock_drift_percent),
        "electionTimeoutMs": str(options.election.timeout_ms),
        "electionSpreadMs": str(options.election.spread_ms),
        "heartbeatMs": str(options.election.heartbeat_ms),
    }
