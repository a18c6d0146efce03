"""What the controllers have decided, as log lines that retell a failover: the deciding leader writes them, once."""

from collections.abc import Iterable

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
from logherd.telemetry.log import Log

__all__ = ["log_decision"]

_log = Log("logherd.controller")


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


def _listed(brokers: Iterable[int]) -> str | None:
    return ",".join(map(str, sorted(brokers))) or None
