"""What must hold at a broker itself, besides the rules of its group (`sim.leases.fate`).

W1 what is shown as committed never falls, equals what is committed everywhere, and is flushed here; W2 nothing that is
shown as committed is cut; R4 what is answered in an epoch leaves only when that epoch is durable; R14 what is
acknowledged is flushed; F1 what a follower lets clients read is committed; F2 and holds all that clients were told a
while before; R10 a planned end leaves nobody without an answer.
"""

from typing import TYPE_CHECKING

from logherd.group.output import Fenced
from logherd.group.reading import READ_MS
from logherd.model.names import Position
from logherd.replication.messages import AppendAck, AppendReject, CopyAck, Envelope, HeartbeatAck
from sim.groups.volume import GroupVolume
from sim.leases.fate import require

if TYPE_CHECKING:
    from sim.groups.broker import GroupBroker

__all__ = ["check_commit", "check_cut", "check_fenced", "check_read", "check_sent", "is_flushed"]

_READ_US = 1_050 * READ_MS
"""By a clock that may run slow."""


def check_commit(broker: "GroupBroker", position: Position) -> None:
    """The core says that everything up to here is committed."""
    volume, fate = broker.volume, broker.world.observer.fate_of(broker)
    count = volume.store.count_at(position)
    require(count > volume.committed, "W1", f"{broker.name} shows {count} records after {volume.committed}")
    require(is_flushed(volume, position), "W1", f"{broker.name} shows {count} records, not all are flushed")
    volume.committed = count
    leader = broker.core.leading
    if leader is not None:
        require(leader.leased(broker.now_ms()), "R1", f"{broker.name} commits without a lease")
        broker.world.observer.on_committed(broker, volume.log[:count])
    elif not fate.dissolved:
        same = fate.was_committed(volume.log[:count])
        require(same, "W1", f"{broker.name} shows {count} records, of which {len(fate.committed)} are committed")


def check_fenced(broker: "GroupBroker", fenced: Fenced, waiting: int) -> None:
    """Service ends; if that was planned, nobody waits for an answer any more."""
    planned = "handed over" in fenced.cause or "about to stop" in fenced.cause
    require(not planned or not waiting, "R10", f"{broker.name} hands over while {waiting} wait for an answer")


def check_cut(broker: "GroupBroker", count: int) -> None:
    """A follower cuts its log."""
    broker.world.observer.on_truncate(broker, count)
    require(count >= broker.volume.committed, "W2", f"{broker.name} cuts at {count}, below {broker.volume.committed}")


def check_read(broker: "GroupBroker", position: Position) -> None:
    """A follower would answer reads up to here. What was ever lost by an operator's leave is not looked for."""
    world, volume = broker.world, broker.volume
    world.seen["read"] += 1
    if position < volume.store.epochs.base.position:
        return  # a log that begins anew behind that, and is not flushed yet: nobody finds anything there
    count = volume.store.count_at(position)
    require(count <= volume.committed, "F1", f"{broker.name} lets read {count} records, {volume.committed} are shown")
    if world.may_lose(broker):
        return
    committed = world.observer.fates[broker.key].committed
    require(volume.log[:count] == committed[:count], "F1", f"{broker.name} lets read another history")
    told = world.told_before(broker, world.now_us - _READ_US)
    require(count >= told, "F2", f"{broker.name} lets read {count} records, clients had been told of {told}")


def check_sent(broker: "GroupBroker", envelope: Envelope) -> None:
    """A message leaves."""
    body, disk = envelope.body, broker.volume.disk
    if not isinstance(body, (AppendAck, AppendReject, HeartbeatAck, CopyAck)):
        return
    kept = broker.volume.kept.epoch
    promised = max(kept, disk.epochs.last_epoch)
    require(promised >= envelope.epoch, "R4", f"{broker.name} answers in epoch {envelope.epoch}, {kept} is durable")
    if isinstance(body, AppendAck):
        flushed = is_flushed(broker.volume, body.durable)
        require(flushed, "R14", f"{broker.name} acknowledges {body.durable}, {disk.end} is flushed")
    if isinstance(body, HeartbeatAck):
        require(is_flushed(broker.volume, body.end), "R14", f"{broker.name} claims {body.end}, {disk.end} is flushed")


def is_flushed(volume: GroupVolume, position: Position) -> bool:
    """Whether what this process has up to here is on the disk, and not what it has cut there and written anew."""
    store, disk = volume.store, volume.disk
    if position < store.epochs.base.position:
        return position <= disk.end
    return disk.epochs.matches(store.epochs.point_at(position), disk.end)
