"""What must be true of a group after all faults: its log as clients saw it, and the same bytes on every replica."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from system.broker_groups import BrokerGroup
from system.nodes import NotSettled

__all__ = ["compare_replicas", "settle_positions", "verified"]

_CHUNK = 1 << 20


def settle_positions(group: BrokerGroup, *, seconds: float = 180.0) -> int:
    """Wait until all replicas have the same log and know all of it to be committed; its end. Raises NotSettled."""
    deadline = time.monotonic() + seconds
    while True:
        said = {name: group.ask(name).get("applied") for name in group.nodes}
        ends = {end for each in said.values() for end in (each or (None,))}
        if len(ends) == 1 and None not in ends:
            return int(ends.pop() or 0)
        if time.monotonic() > deadline:
            raise NotSettled(f"ends and committed positions after {seconds:g} s: {said}")
        time.sleep(0.05)


class _Log:
    """The log files of a stopped replica as one range of bytes."""

    def __init__(self, data: Path) -> None:
        self._segments = {int(path.name): path for path in (data / "commitlog").iterdir() if path.name.isdecimal()}
        self.start = min(self._segments)
        self._size = self._segments[self.start].stat().st_size

    def read(self, at: int, count: int) -> bytes:
        """Up to `count` bytes, less at the end of a file."""
        begin = max(start for start in self._segments if start <= at)
        with self._segments[begin].open("rb") as file:
            file.seek(at - begin)
            return file.read(min(count, begin + self._size - at))


def compare_replicas(directories: Mapping[str, Path], end: int) -> Iterator[str]:
    """Where stores differ below `end`, in one sentence each (H11)."""
    logs = {name: _Log(data) for name, data in directories.items()}
    (first, log), *others = logs.items()
    for name, other in others:
        at = max(log.start, other.start)
        while at < end:
            mine, theirs = log.read(at, min(_CHUNK, end - at)), other.read(at, min(_CHUNK, end - at))
            if not mine or mine != theirs:
                differ = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(mine))
                yield f"{first} and {name} differ at {at + differ}, below {end}"
                break
            at += len(mine)


def verified(directories: Sequence[Path], end: int) -> Iterator[str]:
    """What `logherd store verify` finds wrong, and logs that end too early."""
    for data in directories:
        command = [sys.executable, "-m", "logherd", "store", "verify", str(data), "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        try:
            report: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            yield f"{data}: {done.stderr[-2000:]}"
            continue
        problems = [f"{file['path']}: {problem}" for file in report["files"] for problem in file["problems"]]
        yield from (f"{data}: {problem}" for problem in problems)
        if report["endPosition"] < end:
            yield f"{data} ends at {report['endPosition']}, {end} was committed"
