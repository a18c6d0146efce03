"""Processes by pid and start time: whoever has the pid by now may be called anything."""

import subprocess
import sys

from logherd_operator.local.processes import is_alive, started_ticks

CALLED_SO = (
    "import ctypes, sys\nctypes.CDLL(None).prctl(15, b'\\xd0) Z \\xff', 0, 0, 0)\nprint(flush=True)\nsys.stdin.read()\n"
)


def test_a_process_may_have_any_bytes_as_its_name() -> None:
    command = [sys.executable, "-c", CALLED_SO]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ticks = started_ticks(process.pid)
        assert ticks is not None
        assert is_alive(process.pid, ticks)
        process.kill()
        process.wait()
    assert started_ticks(process.pid) is None
