"""What a controller says of itself: the view that redirects need, and the documents of the admin port."""

import os
from collections.abc import Mapping

from logherd.app.admin_http import Page
from logherd.app.controllers.board import Board
from logherd.app.controllers.member import Member
from logherd.peers.identity import name_of
from logherd.service.controllers.desk import QuorumView
from logherd.settings.options import ControllerOptions

__all__ = ["Reports"]


class Reports:
    """Reads the parts of a controller and changes none. `bound`: the addresses that were taken, empty while stopped."""

    def __init__(self, options: ControllerOptions, member: Member, board: Board) -> None:
        self._options = options
        self._member = member
        self._board = board
        self._peers = tuple((each.name, str(each.address)) for each in options.controllers)
        self.bound: dict[str, str] = {}

    def quorum_view(self) -> QuorumView:
        """The quorum as the desk's redirects and 1005 show it."""
        leader = self._leader_name()
        return QuorumView(
            group=self._options.cluster_name, own_id=self._options.node_name, leader_id=leader,
            leader_address=dict(self._peers).get(leader or ""), peers=self._peers, shown=self._shown(),
            machine=self._board.machine, options=self._board.options,
        )  # fmt: skip

    def group_names(self) -> tuple[str, ...]:
        """The broker groups that are known, whose leaders a name service should wait for when it starts."""
        return tuple(group.key.name for group in self._board.machine)

    def pages(self) -> Mapping[str, Page]:
        """The reading pages of the admin port."""
        return {"/status": self._status, "/health": self._health, "/ready": self._ready}

    def _leader_name(self) -> str | None:
        node = self._member.node
        leader = node.core.leader if node is not None else None
        return name_of(leader) if leader is not None else None

    def _shown(self) -> dict[str, str]:
        options = self._options
        return {
            "clusterName": options.cluster_name,
            "nodeName": options.node_name,
            "controllers": ";".join(f"{name}:{address}" for name, address in self._peers),
            "listen": str(options.listen),
            "peerListen": str(options.peer_listen),
            "adminListen": str(options.admin_listen),
            "leaseMs": str(options.lease_ms),
            "electionTimeoutMs": str(options.election.timeout_ms),
            "heartbeatMs": str(options.election.heartbeat_ms),
        }

    def _status(self) -> tuple[int, object]:
        node = self._member.node
        document: dict[str, object] = {
            "cluster": self._options.cluster_name,
            "node": self._options.node_name,
            "identity": self._member.identity,
            "pid": os.getpid(),
            "ready": self._is_ready(),
            "leader": self._leader_name(),
            "role": node.core.role.value if node is not None else "founding",
        }
        if node is not None:
            ground = node.core.ground
            document |= {
                "term": ground.term,
                "applied": node.position,
                "committed": ground.progress.commit,
                "end": node.log.end,
            }
        return 200, document

    def _is_ready(self) -> bool:
        node = self._member.node
        if node is None or not self.bound:
            return False
        return self._board.office is not None or node.core.leader is not None

    def _health(self) -> tuple[int, object]:
        healthy = self._member.healthy
        return (200 if healthy else 503), {"healthy": healthy}

    def _ready(self) -> tuple[int, object]:
        ready = self._is_ready()
        return (200 if ready else 503), {"ready": ready}
