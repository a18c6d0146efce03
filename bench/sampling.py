"""CPU and anonymous memory of processes, from /proc."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["Sampler", "anonymous_bytes", "cpu_seconds", "family", "resident_bytes"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def family(pid: int) -> list[int]:
    """A process and all that it and its children have started, the oldest first."""
    found = [pid]
    for each in found:
        for listed in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, listed.read_text().split())
    return found


def anonymous_bytes(pid: int) -> int:
    """Memory that no file stands behind: what really must be in RAM. What a fork still shares counts for each.

    From the kernel's counters. `smaps_rollup` walks the page tables for it, most of a millisecond for each process, in
    which that can map no page and a core is busy: many of a lone sender's slowest messages had met just that.
    """
    _, resident, of_files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return (resident - of_files) * _PAGE_BYTES


def resident_bytes(pid: int) -> int:
    """All resident memory, files' pages too, shared pages divided among their users. Not while latencies are taken."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} shows no Pss; a kernel from 2019 or newer does")


class Sampler:
    """CPU used and highest anonymous memory of some processes between enter and exit."""

    def __init__(self, pids: Sequence[int], *, every_s: float = 0.5) -> None:
        self.pids = pids
        self.cpu_s = 0.0
        self.anonymous_max = 0
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def _run(self) -> None:
        while True:
            self.anonymous_max = max(self.anonymous_max, sum(map(anonymous_bytes, self.pids)))
            if self._over.wait(self._every_s):
                return

    def __enter__(self) -> "Sampler":
        self.cpu_s = -sum(map(cpu_seconds, self.pids))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.cpu_s += sum(map(cpu_seconds, self.pids))
