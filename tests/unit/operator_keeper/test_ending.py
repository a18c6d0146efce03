"""The keeper as the first process of a container."""

import signal
import subprocess
import sys
from pathlib import Path

from compat.processes import until


def handles(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_the_keeper_ends_when_it_is_told_to() -> None:
    words = ["keep-leader", "--controller=http://127.0.0.1:1", "--cluster=c", "--group=g", "--namespace=n", "--slice=s"]
    words.append("--token-file=/nowhere")
    child = subprocess.Popen([sys.executable, "-m", "logherd", "operator", *words], stderr=subprocess.DEVNULL)
    try:
        until(lambda: handles(child.pid, signal.SIGTERM), seconds=50, what="the keeper handles a signal")
        child.terminate()
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
