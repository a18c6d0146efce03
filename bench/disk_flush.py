"""What the disk takes from several writers at once, each with a file of its own: `python -m bench.disk_flush DIR`.

Written as a store writes: into zeros that are there already, one write and one `fdatasync` for each piece.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["DiskFigures", "measure_disk"]

_FILE_BYTES = 256 << 20
_ZEROS = bytes(1 << 20)
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """Of the slowest writer: one flush in milliseconds, and bytes per second."""

    p50_ms: float
    p99_ms: float
    bytes_per_second: float


def _write(path: Path, piece: int, seconds: float) -> DiskFigures:
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for at in range(0, _FILE_BYTES, len(_ZEROS)):
            os.pwrite(handle, _ZEROS, at)
        os.fsync(handle)
        data, times, at = os.urandom(piece), [], 0
        begin = time.perf_counter()
        while (before := time.perf_counter()) < begin + seconds:
            os.pwrite(handle, data, at)
            os.fdatasync(handle)
            times.append(time.perf_counter() - before)
            at = (at + piece) % (_FILE_BYTES - piece)
        wall = time.perf_counter() - begin
    finally:
        os.close(handle)
        path.unlink()
    times.sort()
    return DiskFigures(
        p50_ms=times[len(times) // 2] * 1000, p99_ms=times[len(times) * 99 // 100] * 1000,
        bytes_per_second=len(times) * piece / wall,
    )  # fmt: skip


def measure_disk(directory: Path, *, piece: int, seconds: float, writers: int = 3) -> DiskFigures:
    """So many processes at once, each writing pieces of so many bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.disk_flush", str(directory), "--piece", str(piece)]
    started = [
        subprocess.Popen(
            [*command, "--seconds", str(seconds), "--name", str(number)], stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        for number in range(writers)
    ]
    found = [DiskFigures(**json.loads(each.communicate()[0])) for each in started]
    return DiskFigures(
        p50_ms=max(each.p50_ms for each in found), p99_ms=max(each.p99_ms for each in found),
        bytes_per_second=min(each.bytes_per_second for each in found),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--piece", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--name", help="one writer only, of this name")
    options = parser.parse_args()
    if options.name is None:
        print(measure_disk(options.directory, piece=options.piece, seconds=options.seconds))
    else:
        figures = _write(options.directory / f"flushed-{options.name}", options.piece, options.seconds)
        print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
