"""Processes by pid and start time: whoever has the pid by now may be called anything."""

import signal
import subprocess
import sys
import threading

from logherd_operator.local.processes import is_alive, signal_process, started_ticks

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


def test_a_pid_that_became_a_thread_of_somebody_is_no_process() -> None:
    """After a restart of the machine a remembered pid may name anything."""
    started, done = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        started.wait()
        assert thread.native_id is not None
        assert not signal_process(thread.native_id, started_ticks(thread.native_id) or 0, signal.SIGKILL)
    finally:
        done.set()
        thread.join()
