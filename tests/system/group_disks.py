"""What can happen to disks of a group: power cuts, failing writes and flushes, older copies, no room left."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from checkers.history import Outcome
from logherd.store.files_os import OsFiles
from logherd.store.mending import replica_checkpoint
from system.broker_groups import BROKERS, GroupBench
from system.disks import MIB, LoopDisk
from system.faults import UnprovedFault, prove_within
from system.group_rounds import Round, Shape, apply

__all__ = ["DISK_SHAPES"]

EXIT_STORE_FAILED = 4
_LEAVE_BYTES = 16 * MIB
"""Below the reserve, so that messages are refused; enough for what the reserve is kept for."""


def _lose(r: Round, names: Sequence[str]) -> None:
    """The power of these, as nearly at once as one process can: first everybody stands still."""
    bench = r.bench
    for name in names:
        pause = r.paused(name)
        pause.inject()
        pause.prove()
    for name in names:
        _stop_disk(bench.disks[name], name)
    for name in names:
        bench.group.nodes[name].kill()
        bench.disks[name].unmount()


def _stop_disk(disk: LoopDisk, name: str) -> None:
    disk.lose_power()
    if not disk.is_dead():
        raise UnprovedFault(f"the disk of {name} still takes writes")


def _return(bench: GroupBench, names: Sequence[str]) -> None:
    for name in names:
        bench.disks[name].mount()
        bench.group.nodes[name].launch()
    for name in names:
        bench.group.nodes[name].wait_ready()


def _power_of_leader(r: Round) -> None:
    _lose(r, [r.leader])
    r.another_leads()
    _return(r.bench, [r.leader])


def _power_of_follower(r: Round) -> None:
    _lose(r, [r.follower])
    r.goes_on()
    _return(r.bench, [r.follower])


def _power_of_all(r: Round) -> None:
    _lose(r, BROKERS)
    _return(r.bench, r.draw.sample(BROKERS, len(BROKERS)))


def _power_moves_the_group(r: Round) -> None:
    """The one that slept and the one that lost power must together know what the other two had answered.

    Source: Jepsen on NATS 2.12.1; P06 of the fault plan.
    """
    sleeper = r.follower
    loser, rest = r.draw.sample([name for name in BROKERS if name != sleeper], 2)
    asleep, paused = (r.paused(name) for name in (sleeper, rest))
    lost = False
    try:
        asleep.inject()
        asleep.prove()
        r.group.wait_in_sync(without=sleeper)
        r.goes_on()
        _lose(r, [loser])
        lost = True
        paused.inject()
        paused.prove()
        asleep.heal()
        _return(r.bench, [loser])
        lost = False
        r.hold(2.0, 5.0)
    finally:
        asleep.heal()
        paused.heal()
        if lost:
            _return(r.bench, [loser])
    paused.prove_healed()


def _failing(r: Round, name: str) -> None:
    """Every write and flush fails from now on: the process says so and ends, and answers nothing that it could not
    keep; with its disk back it comes again with what it had flushed."""
    node = r.group.brokers[name]
    _stop_disk(r.bench.disks[name], name)
    if node.guarded:
        said = f"the child has exited: code={EXIT_STORE_FAILED}"
        prove_within(60, said, lambda: said in node.log_text())
        node.kill()
    else:
        code = node.wait(60)
        assert code == EXIT_STORE_FAILED, f"{code}: {node.condition()}"
    if name == r.leader:
        r.another_leads()
    else:
        r.goes_on()
    r.bench.disks[name].unmount()
    _return(r.bench, [name])


def _failing_leader(r: Round) -> None:
    _failing(r, r.leader)


def _failing_follower(r: Round) -> None:
    _failing(r, r.follower)


def _older_copy(r: Round) -> None:
    """All machines go down, and a follower's comes back first, with its disk as it was a hundred messages ago: it has
    acknowledged what it has not. Nobody leads before somebody is there who has everything (P22, R11).

    The controllers must have heard by then that more is committed than the copy has: before that nobody can tell it
    from the store that it was taken from.
    """
    node, rest = r.group.brokers[r.follower], next(name for name in r.followers if name != r.follower)
    copy = node.data.with_name("older")
    node.kill()
    beyond = int(r.group.ask(r.leader)["applied"][0])
    shutil.copytree(node.data, copy)
    node.start()
    r.group.agree()
    r.goes_on()
    if r.bench.mode.led_by_controllers:
        prove_within(20, f"{r.follower} has acknowledged", lambda: _heard(r) > beyond)
    for each in r.group.nodes.values():
        each.kill()
    if _committed(copy) >= _committed(node.data):
        raise UnprovedFault(f"the older disk of {r.follower} lacks nothing")
    shutil.rmtree(node.data)
    copy.rename(node.data)
    node.start()
    r.hold(4.0, 5.0)  # longer than a lease
    assert r.group.ask(r.follower).get("leads") is False, f"{r.follower} leads without what it has acknowledged"
    r.group.nodes[rest].start()
    if r.bench.mode.led_by_controllers:
        assert r.group.leader(among=r.followers, seconds=180) == rest
    r.group.nodes[r.leader].start()


def _heard(r: Round) -> int:
    """What the controllers know to be committed."""
    return int(r.group.group_page().get("committed", {}).get("position", 0))


def _committed(data: Path) -> int:
    return replica_checkpoint(OsFiles(), str(data)).committed or 0


class _Full:
    """No room on a disk but the store's reserve."""

    def __init__(self, disk: LoopDisk, name: str) -> None:
        self.name = f"the disk of {name} is full"
        self._disk = disk

    def inject(self) -> None:
        self._filler = self._disk.fill(leave_bytes=_LEAVE_BYTES)

    def prove(self) -> None:
        if self._disk.free_bytes > _LEAVE_BYTES:
            raise UnprovedFault(f"{self.name}: {self._disk.free_bytes} bytes are free")

    def heal(self) -> None:
        self._disk.remove(self._filler)

    def prove_healed(self) -> None:
        prove_within(60, f"{self.name}, ended", lambda: self._disk.free_bytes > _LEAVE_BYTES)


def _full_leader(r: Round) -> None:
    """Sends are refused by name or another leads; nobody ends, and all is well again when there is room."""

    def meanwhile() -> None:
        before = r.load.count(Outcome.FAILED)
        prove_within(
            30, "sends are refused, or another leads",
            lambda: r.load.count(Outcome.FAILED) > before or not r.group.ask(r.leader).get("leads"),
        )  # fmt: skip
        r.hold(1.0, 3.0)

    apply(meanwhile, _Full(r.bench.disks[r.leader], r.leader))


def _full_follower(r: Round) -> None:
    def meanwhile() -> None:
        for _ in range(3):
            r.goes_on()

    apply(meanwhile, _Full(r.bench.disks[r.follower], r.follower))


def _full_everywhere(r: Round) -> None:
    """Disks of one size fill up together, and then the leader dies: another one leads, so that the backlog can be read
    and offsets are kept, and only messages are refused."""
    node = r.group.brokers[r.leader]

    def meanwhile() -> None:
        before = r.load.count(Outcome.FAILED)
        prove_within(30, "sends are refused", lambda: r.load.count(Outcome.FAILED) > before)
        node.kill()
        try:
            r.operator.promote_another(r.leader)
            r.group.leader(among=r.followers, seconds=60)
        finally:
            node.start()
        r.hold(1.0, 3.0)

    apply(meanwhile, *(_Full(r.bench.disks[name], name) for name in BROKERS))


DISK_SHAPES: Mapping[str, Shape] = {
    "power cut of the leader": _power_of_leader,
    "power cut of a follower": _power_of_follower,
    "power cut of all brokers": _power_of_all,
    "power moves the group": _power_moves_the_group,
    "disk of the leader fails": _failing_leader,
    "disk of a follower fails": _failing_follower,
    "disk of a follower is an older copy": _older_copy,
    "disk of the leader is full": _full_leader,
    "disk of a follower is full": _full_follower,
    "all disks are full, and the leader dies": _full_everywhere,
}
