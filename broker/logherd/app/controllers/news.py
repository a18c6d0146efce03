"""Log lines that retell a failover: what the controllers have decided, which the deciding leader writes, once; and what
each tells of their own quorum."""

from collections.abc import Iterable

from logherd.app.clock import boot_ms
from logherd.controller.verdicts import (
    Cleaned,
    Event,
    LossAccepted,
    MasterElected,
    MasterEnded,
    Promoted,
    Registered,
    SyncSetChanged,
    TransferCancelled,
    TransferPlanned,
)
from logherd.raft import output as raft_output
from logherd.replication.shipping import LostData
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog

__all__ = ["complaints", "log_decision", "log_quorum"]

_log = Log("logherd.controller")
_quorum_log = Log("logherd.quorum")
complaints = SparingLog(_quorum_log, lambda: boot_ms() / 1000)
"""`tell` of it is to be called now and then, and at the end."""


def log_decision(event: Event) -> None:
    """Write the line of one event."""
    group = str(event.group)
    match event:
        case MasterElected():
            _log.info(
                "broker elected", group=group, broker=event.broker_id, epoch=event.epoch, grounds=event.cause,
                former=event.former, in_sync=_listed(event.in_sync),
            )  # fmt: skip
        case MasterEnded():
            _log.info(
                "leadership ended", group=group, broker=event.broker_id, epoch=event.epoch, cause=event.cause,
                lease_may_run=not event.released,
            )  # fmt: skip
        case SyncSetChanged():
            # who left it while too few were in sync; mostly nobody, which reads as if nobody could be elected
            eligible = {"also_eligible": _listed(event.eligible)} if event.eligible else {}
            _log.info(
                "in-sync set decided", group=group, members=_listed(event.members), before=_listed(event.before),
                **eligible, version=event.version,
            )  # fmt: skip
        case LossAccepted():
            _log.error(
                "loss accepted: the elected broker may lack what was acknowledged", group=group, broker=event.broker_id,
                had_it=_listed(event.in_sync),
            )  # fmt: skip
        case Registered():
            _log.info(
                "broker registered", group=group, broker=event.broker_id, registration=event.registration,
                lost_data=event.lost,
            )  # fmt: skip
        case TransferPlanned():
            _log.info("hand-over planned", group=group, target=event.target)
        case TransferCancelled():
            _log.info("hand-over cancelled", group=group, target=event.target)
        case Promoted():
            _log.info("broker promoted by hand", group=group, broker=event.broker_id, table=event.table)
        case Cleaned():
            _log.info("brokers forgotten", group=group, brokers=_listed(event.broker_ids) or "all")


def log_quorum(event: raft_output.Event) -> None:
    """Write the line of one event of the quorum."""
    match event:
        case raft_output.RoleChanged():
            _quorum_log.info(
                "role", role=event.role.value, term=event.term, leader=event.leader or "none", cause=event.cause,
                ready=event.ready, **({"votes": ", ".join(event.votes)} if event.votes else {}),
            )  # fmt: skip
        case raft_output.MembersChanged(configuration=now):
            _quorum_log.info(
                "members of the quorum changed", voters=", ".join(now.voters), outgoing=", ".join(now.outgoing) or None,
                learners=", ".join(now.learners) or None, position=event.since,
            )  # fmt: skip
        case LostData():
            _quorum_log.error(
                "a controller lacks what it had on its disk", controller=event.peer, had=event.had, has=event.has
            )
        case raft_output.Strange():
            # whoever sends them sends as many as it likes, and chooses what the reason quotes
            complaints.warning("message dropped", "sender", sender=event.sender, reason=event.reason)
        case _:
            _quorum_log.warning(type(event).__name__, detail=str(event))


def _listed(brokers: Iterable[int]) -> str | None:
    return ",".join(map(str, sorted(brokers))) or None
