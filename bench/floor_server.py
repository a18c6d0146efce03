"""The least that three replicas in Python cost: requests written as they come, no records, no queues, no leader.

A stub (bench.stub_server) that stores: what came of sends is copied to two follower processes and written and flushed
by all three, and the sends are answered once all three have. Nothing is decoded, checked, numbered, elected or kept for
a reader, so nothing of a log is here but its bytes' way. What a stock client reaches with it on this machine, no three
replicas written in Python exceed. Runs travel as LogHerd's do: what comes while one is under way goes together.

`python -m bench.floor_server --directory DIR` prints `listening on HOST:PORT` and runs until it is stopped.
"""

import argparse
import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import cast

import uvloop
from bench.stub_server import StubConnection, StubServer

__all__ = ["FloorServer", "serve"]

_SIZE = Struct(">I")
_FILE_BYTES = 64 << 20
_ZEROS = bytes(1 << 20)
_DONE = b"\x01"
_PR_SET_PDEATHSIG = 1


class _Disk:
    """A file of zeros that is written over from the start, again and again, as a log's prepared blocks are."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT)
        self._at = 0
        for at in range(0, _FILE_BYTES, len(_ZEROS)):
            os.pwrite(self._handle, _ZEROS, at)
        os.fsync(self._handle)

    def keep(self, data: bytes) -> None:
        """Write and flush; blocks."""
        if self._at + len(data) > _FILE_BYTES:
            self._at = 0
        os.pwrite(self._handle, data, self._at)
        os.fdatasync(self._handle)
        self._at += len(data)


class _Follower(asyncio.Protocol):
    """In a follower's process: flush each run, and say so."""

    def __init__(self, disk: _Disk) -> None:
        self._disk = disk
        self._waiting = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        data = self._waiting + data if self._waiting else data
        while len(data) >= 4 and len(data) >= (end := 4 + _SIZE.unpack_from(data)[0]):
            self._disk.keep(data[4:end])
            if self._transport is not None:
                self._transport.write(_DONE)
            data = data[end:]
        self._waiting = data


class _Way(asyncio.Protocol):
    """In the leader's process: the connection to one follower, whose answers are counted."""

    def __init__(self, server: "FloorServer") -> None:
        self._server = server

    def data_received(self, data: bytes) -> None:
        self._server.kept(len(data))


class FloorServer(StubServer):
    """One run at a time is under way; answers wait for its three flushes."""

    def __init__(self, queues: int, disk: _Disk) -> None:
        super().__init__(queues)
        self._disk = disk
        self.ways: list[asyncio.WriteTransport] = []
        self._missing = 0
        self._under_way: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._next: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._bytes: list[bytes] = []
        self._due = False

    def take(self, transport: asyncio.WriteTransport, data: bytes, answers: bytes) -> None:
        """Sends that came together: have them kept, then answer."""
        self._next.append((transport, answers))
        self._bytes.append(data)
        if not self._due and not self._missing:
            self._due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def kept(self, count: int) -> None:
        """So many flushes of the run under way have ended."""
        self._missing -= count
        if self._missing:
            return
        for transport, answers in self._under_way:
            transport.write(answers)
        self._under_way = []
        if self._next:
            self._begin()

    def _begin(self) -> None:
        self._due = False
        run = b"".join(self._bytes)
        self._under_way, self._next, self._bytes = self._next, [], []
        self._missing = 1 + len(self.ways)
        frame = _SIZE.pack(len(run)) + run
        for way in self.ways:
            way.write(frame)
        asyncio.get_running_loop().call_soon(self._keep, run)  # behind the writes, which the loop does first

    def _keep(self, run: bytes) -> None:
        self._disk.keep(run)
        self.kept(1)


class _Connection(StubConnection):
    def send(self, data: bytes, answers: bytes) -> None:
        if self.transport is not None:
            cast("FloorServer", self.stub).take(self.transport, data, answers)


async def follow(disk: _Disk) -> None:
    """A follower's process: say its port, and flush what comes."""
    server = await asyncio.get_running_loop().create_server(lambda: _Follower(disk), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def serve(host: str, port: int, queues: int, directory: Path) -> None:
    """Run until cancelled, or told to end. Behind it no follower lives: who ends the leader need not look for them."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    followers = [_start_follower(directory / f"f{number}") for number in (1, 2)]
    try:
        server = FloorServer(queues, _Disk(directory / "leader"))
        loop = asyncio.get_running_loop()
        for process in followers:
            assert process.stdout is not None
            at = int(process.stdout.readline())
            transport, _ = await loop.create_connection(lambda: _Way(server), "127.0.0.1", at)
            server.ways.append(transport)
        listening = await server.listen(host, port, make=_Connection)
        print(f"listening on {server.address}", flush=True)
        await listening.serve_forever()
    finally:
        for process in followers:
            process.kill()
            process.communicate()


def _start_follower(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.floor_server", "--follow", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--queues", type=int, default=8, help="queues of every topic")
    parser.add_argument("--directory", type=Path, default=Path(), help="where the three files go")
    parser.add_argument("--follow", type=Path, help="be a follower that writes this file")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        if options.follow is None:
            uvloop.run(serve(options.host, options.port, options.queues, options.directory))
        else:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # it ends with its leader, however
            uvloop.run(follow(_Disk(options.follow)))


if __name__ == "__main__":
    main()
