"""A bench that is ended before its time leaves no process and no folder, and says by its exit code what ended it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
_STRAY = """
import subprocess
print(subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL).pid)
"""
_PROGRAM = f"""
import os, signal, subprocess, sys, time
from bench.place import bench_place, run_bench

def main():
    with bench_place() as place:
        (place / "data").write_bytes(bytes(1000))
        stray = subprocess.run([sys.executable, "-c", {_STRAY!r}], stdout=subprocess.PIPE, text=True, check=True).stdout
        own = subprocess.Popen(["sh", "-c", "trap '' TERM INT; while :; do sleep 1000; done"])
        print(place, own.pid, stray.strip(), flush=True)
        sys.stdin.readline()
        return 7

run_bench(main)
"""

# Always in a callback of a protocol, where uvloop takes what is raised for an error of the connection.
_BUSY = """
import asyncio, socket
from bench.place import bench_place, run_bench, run_loop

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        if not told:
            told.append(print("busy", flush=True))
        sum(range(300_000))
        self.transport.write(data)

async def work():
    loop = asyncio.get_running_loop()
    for end in socket.socketpair():
        transport, _ = await loop.create_connection(Echo, sock=end)
    transport.write(b"x")
    await asyncio.Event().wait()

def main():
    with bench_place():
        run_loop(work())

told = []
run_bench(main)
"""


def lives(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (None, 7)])
def test_nothing_of_a_bench_is_left(tmp_path: Path, number: signal.Signals | None, code: int) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(BENCH.parent)}
    command = ["env", "--default-signal", sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as bench:  # fmt: skip
        try:
            assert bench.stdin is not None
            assert bench.stdout is not None
            place, own, stray = bench.stdout.readline().split()
            assert lives(int(own))
            assert lives(int(stray))
            assert (Path(place) / "data").exists()
            if number is None:
                bench.stdin.close()
            else:
                bench.send_signal(number)
            assert bench.wait(120) == code
        finally:
            bench.kill()
    assert not lives(int(own))
    assert not lives(int(stray))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_midst_of_a_callback_ends_a_bench(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(BENCH.parent)}
    command = ["env", "--default-signal", sys.executable, "-c", _BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as bench:
        try:
            assert bench.stdout is not None
            assert bench.stdout.readline() == "busy\n"
            bench.send_signal(number)
            assert bench.wait(120) == 128 + number
        finally:
            bench.kill()
    assert list(tmp_path.iterdir()) == []


def test_every_bench_that_writes_files_ends_so() -> None:
    for path in BENCH.glob("*.py"):
        text = path.read_text()
        if path.stem != "place":
            assert "import tempfile" not in text, f"{path.name}: bench_place makes the folder"
            assert ("bench_place" in text) == ("run_bench(main)" in text), path.name
