"""Python imports this by itself in a process of a test that has it on its path: its wall clock is what a file says.

The file holds two numbers: by how many nanoseconds the clock is off, and what it showed last, which is the proof.
libfaketime does this for any program, but not every machine has it; all of ours ask for the time here.
"""

import mmap
import os
import struct
import time

VARIABLE = "LOGHERD_TEST_WALL_CLOCK"
_OFF = struct.Struct("=q")


def _follow(path: str) -> None:
    with open(path, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 2 * _OFF.size)
    true_time_ns = time.time_ns

    def time_ns() -> int:
        shown = true_time_ns() + int(_OFF.unpack_from(shared)[0])
        _OFF.pack_into(shared, _OFF.size, shown)
        return shown

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if VARIABLE in os.environ:
    _follow(os.environ[VARIABLE])
