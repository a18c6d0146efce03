"""What a replica's machine reports, as log lines that retell a failover."""

from collections.abc import Iterable

from logherd.app.clock import boot_ms
from logherd.group.output import (
    Cut,
    Drained,
    Draining,
    Event,
    Fenced,
    Following,
    Installed,
    Leading,
    MustRebuild,
    Resumed,
    Serving,
    SetChanged,
    StorageStalled,
    Strange,
)
from logherd.replication.shipping import LostData, RefusedAck
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog

__all__ = ["complaints", "log_event"]

_log = Log("logherd.group")
complaints = SparingLog(_log, lambda: boot_ms() / 1000)
"""`tell` of it is to be called now and then, and at the end."""


def log_event(event: Event) -> None:
    """Write the line of one event."""
    match event:
        case Leading():
            by = {"in_sync": _listed(event.in_sync), "votes": _listed(event.votes)}
            known = {name: brokers for name, brokers in by.items() if brokers is not None}
            _log.info("elected", epoch=event.epoch, log_end=event.after, **known)
        case Serving():
            _log.info("leads", epoch=event.epoch)
        case Fenced():
            _log.warning("leads no more", epoch=event.epoch, cause=event.cause)
        case Draining():
            _log.info("hands leadership over", epoch=event.epoch, target=event.target)
        case Resumed():
            _log.info("hand-over given up", epoch=event.epoch)
        case Following():
            if event.leader is None:
                _log.info("nobody leads", epoch=event.epoch)
            else:
                _log.info("follows", epoch=event.epoch, leader=event.leader, address=event.address or None)
        case Cut():
            _log.warning("log cut", at=event.at)
        case SetChanged():
            before, after = set(event.before), set(event.members)
            _log.info(
                "in-sync set changed", members=_listed(event.members), joined=_listed(after - before),
                left=_listed(before - after), version=event.version,
            )  # fmt: skip
        case _:
            _log_rest(event)


def _log_rest(event: Event) -> None:
    match event:
        case Installed():
            _log.info("log begins with an image", position=event.image.point.position)
        case MustRebuild():
            _log.error(
                "the leader lacks what is committed here", committed=event.committed.position, leader=event.leader
            )
        case Drained():
            _log.info("the group has let this replica go")
        case StorageStalled():
            _log.error("a flush does not end", after_ms=max(0, boot_ms() - event.since))
        case Strange():
            # whoever sends them sends as many as it likes, and chooses what the reason quotes
            complaints.warning("message dropped", "sender", sender=event.sender, reason=event.reason)
        case LostData() | RefusedAck():
            _log.error("a replica has lost what it acknowledged", news=str(event))
        case _:
            pass


def _listed(members: Iterable[int]) -> str | None:
    return ",".join(map(str, sorted(members))) or None
