"""What can become scarce for a group: a disk's speed, processor time, descriptors, memory. Nobody has died of it.

Disks are slowed where the kernel slows them, at the loop device, so that a process that flushes hangs as it would on a
worn or shared volume (P19, P20 and P24 of the fault plan).
"""

import contextlib
import os
import resource
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, NoAnswerError
from system.broker_groups import BROKER_PORT
from system.control_groups import ControlGroup
from system.controllers import CLIENTS
from system.disks import LoopDisk
from system.faults import prove_within
from system.group_load import TOPIC
from system.group_memory import MEMORY, MEMORY_SHAPES
from system.group_rounds import Round, Shape, apply
from system.netns import Network

__all__ = ["PRESSURE_SHAPES", "why_no_pressure"]

_THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_PROCESSORS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 100_000
_SLOW_BYTES, _STUCK_BYTES = 128 * 1024, 256
"""A second: of a disk that is worn out, and of one that hardly answers."""


def why_no_pressure() -> str:
    """What is missing here to make things scarce; empty if nothing."""
    needed = (_THROTTLE, _PROCESSORS / "cpu.cfs_period_us", MEMORY / "cgroup.procs")
    missing = [str(path) for path in needed if not os.access(path, os.W_OK)]
    return f"not to be written here: {', '.join(missing)} (control groups of version 1)" if missing else ""


class _SlowDisk:
    """Writes to one disk pass at `bytes_per_second`, and no faster."""

    def __init__(self, disk: LoopDisk, whose: str, *, bytes_per_second: int) -> None:
        self.name = f"the disk of {whose} takes {bytes_per_second} bytes a second"
        self._disk = disk
        self._device = disk.device
        self._limit = bytes_per_second

    def inject(self) -> None:
        _THROTTLE.write_text(f"{self._device} {self._limit}")

    def prove(self) -> None:
        prove_within(2, self.name, lambda: f"{self._device} {self._limit}" in _THROTTLE.read_text().splitlines())
        if self._limit >= _SLOW_BYTES:
            assert self._write_seconds(self._limit // 2) > 0.25, self.name

    def heal(self) -> None:
        _THROTTLE.write_text(f"{self._device} 0")

    def prove_healed(self) -> None:
        prove_within(30, f"{self.name}, ended", lambda: self._write_seconds(_SLOW_BYTES // 2) < 0.25)

    def _write_seconds(self, size: int) -> float:
        probe = self._disk.mount_point / "probe"
        began = time.monotonic()
        with probe.open("wb") as file:
            file.write(b"\1" * size)
            file.flush()
            os.fdatasync(file.fileno())
        took = time.monotonic() - began
        probe.unlink()
        return took


class _LittleProcessor:
    """All threads of a process together get a share of one processor."""

    def __init__(self, pid: int, whose: str, *, share: float) -> None:
        self.name = f"{whose} has {share:.0%} of a processor"
        self._pid = pid
        quota = str(int(share * _PERIOD_US))
        self._group = ControlGroup(
            _PROCESSORS, whose, {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": quota}
        )

    def inject(self) -> None:
        self._group.enter(self._pid)

    def prove(self) -> None:
        prove_within(20, self.name, lambda: self._throttled() > 0)

    def _throttled(self) -> int:
        lines = self._group.read("cpu.stat").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("nr_throttled"))

    def heal(self) -> None:
        self._group.leave()

    def prove_healed(self) -> None:
        self._group.prove_left()


class _FewDescriptors:
    """A broker may open hardly any more files, and strangers take what is left."""

    _SPARE = 12

    def __init__(self, network: Network, pid: int, whose: str) -> None:
        self.name = f"{whose} has {self._SPARE} descriptors left"
        self._network, self._pid, self._whose = network, pid, whose
        self._before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        self._strangers: list[socket.socket] = []

    def _open(self) -> int:
        return max(int(each) for each in os.listdir(f"/proc/{self._pid}/fd"))

    def inject(self) -> None:
        most = self._open() + 1 + self._SPARE
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (most, self._before[1]))
        address = self._network.address(self._whose)
        for _ in range(2 * self._SPARE):
            with contextlib.suppress(OSError):
                self._strangers.append(self._network.doorway(CLIENTS).connect(address, BROKER_PORT, seconds=1))

    def prove(self) -> None:
        """Nothing can be opened any more, or strangers are shown the door so that something can."""
        prove_within(10, self.name, lambda: any(map(_ended, self._strangers)) or self._none_left())

    def _none_left(self) -> bool:
        most = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)[0]
        return len(os.listdir(f"/proc/{self._pid}/fd")) >= most

    def heal(self) -> None:
        for each in self._strangers:
            each.close()
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._before)

    def prove_healed(self) -> None:
        """The limit is what it was, and a stranger is let in, unless the process has ended and the limit with it."""
        if not Path(f"/proc/{self._pid}").exists():
            return
        assert resource.prlimit(self._pid, resource.RLIMIT_NOFILE) == self._before, f"{self.name} goes on"
        prove_within(15, f"{self.name}, ended", self._lets_in)

    def _lets_in(self) -> bool:
        """Whether who connects now is answered."""
        address = self._network.address(self._whose)
        try:
            made = self._network.doorway(CLIENTS).connect(address, BROKER_PORT, seconds=1)
            client = BlockingClient(BROKER_PORT, made=made)
        except OSError:
            return False
        try:
            client.offset(RequestCode.GET_MIN_OFFSET, TOPIC, 0)
        except NoAnswerError:
            return False
        finally:
            client.close()
        return True


def _ended(stranger: socket.socket) -> bool:
    stranger.settimeout(0)
    try:
        return stranger.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _slow_leader(r: Round) -> None:
    """It leads on, slowly, or another does."""
    apply(lambda: r.hold(3.0, 6.0), _SlowDisk(r.bench.disks[r.leader], r.leader, bytes_per_second=_SLOW_BYTES))


def _slow_follower(r: Round) -> None:
    apply(r.goes_on, _SlowDisk(r.bench.disks[r.follower], r.follower, bytes_per_second=_SLOW_BYTES))


def _stuck_leader(r: Round) -> None:
    """Its process lives and its heartbeats would go on: they must not vouch for a disk that answers nothing."""
    apply(
        lambda: (r.another_leads(), None)[1],
        _SlowDisk(r.bench.disks[r.leader], r.leader, bytes_per_second=_STUCK_BYTES),
    )


def _stuck_follower(r: Round) -> None:
    def meanwhile() -> None:
        r.group.wait_in_sync(without=r.follower)
        r.goes_on()

    apply(meanwhile, _SlowDisk(r.bench.disks[r.follower], r.follower, bytes_per_second=_STUCK_BYTES))


def _starved(r: Round, name: str) -> None:
    apply(lambda: r.hold(3.0, 6.0), _LittleProcessor(r.group.brokers[name].broker_pid, name, share=0.1))


def _starved_leader(r: Round) -> None:
    _starved(r, r.leader)


def _starved_follower(r: Round) -> None:
    _starved(r, r.follower)


def _few_descriptors(r: Round) -> None:
    apply(r.goes_on, _FewDescriptors(r.bench.network, r.group.brokers[r.leader].broker_pid, r.leader))


PRESSURE_SHAPES: Mapping[str, Shape] = {
    "disk of the leader is slow": _slow_leader,
    "disk of a follower is slow": _slow_follower,
    "disk of the leader is stuck": _stuck_leader,
    "disk of a follower is stuck": _stuck_follower,
    "leader has little processor": _starved_leader,
    "follower has little processor": _starved_follower,
    "leader has few descriptors": _few_descriptors,
    **MEMORY_SHAPES,
}
