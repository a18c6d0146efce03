"""What a scrape reads of a controller."""

from collections import Counter

from logherd.app.clock import boot_ms
from logherd.app.controllers.board import Board
from logherd.app.metrics.parts import read_build
from logherd.app.quorum.node import RaftNode
from logherd.controller.office import Office
from logherd.controller.values import Group
from logherd.controller.verdicts import Verdict
from logherd.raft.output import Role
from logherd.service.controllers.standing import Standing, faults, readiness
from logherd.telemetry import metrics
from logherd.telemetry.metrics import Readings

__all__ = ["read_board", "read_quorum"]

GROUP_STATES = ("serving", "waiting", "leaderless", "new", "empty")
"""Its leader holds a lease; elected or lost, and a lease may still run; nobody may lead; never led; no brokers."""
BROKER_STATES = ("alive", "silent", "exited")
UNKNOWN = "unknown"


def read_quorum(readings: Readings, standing: Standing, node: RaftNode[Verdict] | None) -> None:
    """This member of the quorum, as its status page sees it."""
    leadership, progress = standing.leadership, standing.progress
    read_build(readings, ready=readiness(standing) is None, healthy=not faults(standing))
    readings.one_of(metrics.RAFT_ROLE, tuple(role.value for role in Role), leadership.role)
    readings.tell(metrics.RAFT_TERM, leadership.term)
    readings.tell(metrics.RAFT_POSITION, progress.applied, "applied")
    readings.tell(metrics.RAFT_POSITION, progress.committed, "committed")
    readings.tell(metrics.RAFT_POSITION, progress.end, "end")
    readings.tell(metrics.RAFT_DISK_FULL, progress.disk_full)
    for name in dict.fromkeys(peer.node for peer in standing.peers if peer.node != standing.node):
        of_name = [peer for peer in standing.peers if peer.node == name]
        readings.tell(metrics.RAFT_CONNECTED, any(peer.connected for peer in of_name), name)
        ends = [peer.match for peer in of_name if peer.match is not None]
        if ends:
            readings.tell(metrics.RAFT_LAG, max(progress.end - max(ends), 0), name)
    if node is not None:
        readings.tell(metrics.FLUSH_SECONDS, node.flush_seconds)


def read_board(readings: Readings, board: Board) -> None:
    """Broker groups and what was decided. Looks at every group."""
    counts = board.counts
    readings.tell(metrics.RAFT_CANDIDACIES, counts.candidacies)
    readings.tell(metrics.RAFT_LEADERSHIPS, counts.leaderships)
    readings.tell(metrics.ELECTIONS, counts.elections)
    office, now = board.office, boot_ms()
    readings.tell(metrics.OFFICE, office is not None)
    groups, brokers, leases = Counter[str](), Counter[str](), 0
    for group in board.machine:
        if office is None:
            groups[UNKNOWN] += 1
            brokers[UNKNOWN] += len(group.replicas)
            continue
        state = _state(group, office, now)
        groups[state] += 1
        leases += state == "serving"
        for replica in group.replicas:
            alive = office.alive(group, replica.broker_id, now)
            brokers["alive" if alive else "exited" if replica.exited else "silent"] += 1
    for metric, states, found in ((metrics.GROUPS, GROUP_STATES, groups), (metrics.BROKERS, BROKER_STATES, brokers)):
        for state in states if office is not None else (UNKNOWN,):
            readings.tell(metric, found[state], state)
    if office is not None:
        readings.tell(metrics.LEASES, leases)


def _state(group: Group, office: Office, now: int) -> str:
    if not group.replicas:
        return "empty"
    if office.serving(group, now) is not None:
        return "serving"
    if not group.founded:
        return "new"
    return "waiting" if now < office.over_at(group) else "leaderless"
