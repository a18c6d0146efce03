"""A key-value node over a Raft member, for measuring its log; bench.raft_targets starts three of them.

The member is the one that controllers run (`app.quorum.node`, `peers`), with its log on a real disk; a put is answered
once it is flushed by a majority and applied here. Clients speak the protocol of bench/node_protocol.py on a plain
asyncio protocol: with the remoting frames of logherd.net those would be measured instead of the log. Only the leader
serves.
"""

import argparse
import asyncio
import cProfile
import json
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from secrets import randbits
from struct import Struct
from typing import cast

from bench.inside_load import InsideLoad, Wanted
from bench.node_protocol import (
    ANSWER,
    CAS,
    FAILED,
    GET,
    HEAD,
    MISSING,
    OK,
    OPERATION,
    PUT,
    REFUSED,
    REQUEST_BYTES_MAX,
    RUN,
    STATUS,
    UNKNOWN,
)

from logherd.aiokit.tasks import TaskGuard
from logherd.app.foreground import ServerFailed, run_server
from logherd.app.quorum.node import NodeOptions, RaftNode
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Uncertain
from logherd.peers.hello import Hello
from logherd.peers.links import PeerLinks
from logherd.peers.options import LinkOptions
from logherd.raft.core import found_group
from logherd.raft.options import RaftOptions
from logherd.raft.output import Event
from logherd.raft.record import HEADER_SIZE, Record
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.replication.messages import ClusterId, Envelope, ReplicaId
from logherd.settings.options import LogOptions
from logherd.store.files_os import OsFiles

__all__ = ["LogNode", "Service", "Values", "main"]

_U32 = Struct(">I")
_BODY = HEADER_SIZE + OPERATION.size
_LENGTH_AT = 4
_OUTCOME = tuple[int, bytes]
_DONE: _OUTCOME = (OK, b"")
_CLUSTER = ClusterId("bench")
_IMAGE_RECORDS = 1_000_000
_IMAGE_BYTES = 32 << 20
"""Enough for a group that writes tens of thousands of records a second; controllers write less and keep less."""


class Values:
    """The replicated state: the newest record of each key, in memory. An image is those records in one piece."""

    def __init__(self) -> None:
        self._frames: dict[bytes, bytes] = {}

    def apply(self, record: Record) -> _OUTCOME:
        frame = record.frame
        operation, key_length = OPERATION.unpack_from(frame, HEADER_SIZE)
        key = frame[_BODY : _BODY + key_length]
        if operation == CAS:
            (length,) = _U32.unpack_from(frame, _BODY + key_length)
            expected = _BODY + key_length + 4
            held = self.get(key)[1]
            if held != frame[expected : expected + length]:
                return FAILED, held
        self._frames[key] = frame
        return _DONE

    def get(self, key: bytes) -> _OUTCOME:
        frame = self._frames.get(key)
        if frame is None:
            return MISSING, b""
        at = _BODY + len(key)
        if frame[HEADER_SIZE] == CAS:
            at += 4 + _U32.unpack_from(frame, at)[0]
        return OK, frame[at:]

    def save(self) -> bytes:
        return b"".join(self._frames.values())

    def load(self, data: bytes) -> None:
        self._frames.clear()
        at = 0
        while at < len(data):
            end = at + HEADER_SIZE + _U32.unpack_from(data, at + _LENGTH_AT)[0]
            frame = data[at:end]
            _, key_length = OPERATION.unpack_from(frame, HEADER_SIZE)
            self._frames[frame[_BODY : _BODY + key_length]] = frame
            at = end


class Service:
    """What the connections share. Answers of one loop pass leave in one write for each connection."""

    def __init__(self, node: RaftNode[_OUTCOME], values: Values, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.values = values
        self._call_soon = loop.call_soon
        self._dirty: list[_Connection] = []

    def status(self) -> bytes:
        core = self.node.core
        leading = core.leading
        return json.dumps({"role": core.role.value, "serves": leading is not None and leading.ready}).encode()

    def mark_dirty(self, connection: "_Connection") -> None:
        if not self._dirty:
            self._call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()


class _Connection(asyncio.Protocol):
    def __init__(self, service: Service) -> None:
        self._service = service
        self._propose = service.node.propose
        self._transport: asyncio.WriteTransport | None = None
        self._partial = b""
        self._answers: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
        at, end = 0, len(data)
        while end - at >= HEAD.size + OPERATION.size:
            length, number = HEAD.unpack_from(data, at)
            if length > REQUEST_BYTES_MAX and self._transport is not None:
                self._transport.abort()
                return
            stop = at + 4 + length
            if stop > end:
                break
            self._request(number, data[at + HEAD.size : stop])
            at = stop
        self._partial = data[at:]

    def _request(self, number: int, body: bytes) -> None:
        operation = body[0]
        if operation in (PUT, CAS):
            self._propose(body, partial(self._decided, number))
        elif operation == GET:
            self._service.node.read(partial(self._readable, number, body[OPERATION.size :]))
        elif operation == RUN:
            wanted = Wanted(**json.loads(body[OPERATION.size :]))
            InsideLoad(
                self._service.node, wanted, lambda figures: self._answer(number, OK, json.dumps(figures).encode())
            )
        elif operation == STATUS:
            self._answer(number, OK, self._service.status())
        else:
            self._answer(number, REFUSED, b"no such operation")

    def _decided(self, number: int, outcome: Outcome[_OUTCOME]) -> None:
        if isinstance(outcome, Applied):
            self._answer(number, *outcome.result)
        else:
            self._answer(number, UNKNOWN if isinstance(outcome, Uncertain) else REFUSED, str(outcome).encode())

    def _readable(self, number: int, key: bytes, outcome: ReadOutcome) -> None:
        if isinstance(outcome, ReadAt):
            self._answer(number, *self._service.values.get(key))
        else:
            self._answer(number, REFUSED, str(outcome).encode())

    def _answer(self, number: int, status: int, text: bytes) -> None:
        if not self._answers:
            self._service.mark_dirty(self)
        self._answers.append(ANSWER.pack(9 + len(text), number, status) + text)

    def flush(self) -> None:
        answers, self._answers = self._answers, []
        if self._transport is not None:
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))


class LogNode:
    """A server as `run_server` runs it: the member, its links and the clients' port."""

    def __init__(self, options: argparse.Namespace, *, on_failure: Callable[[], None]) -> None:
        self._options = options
        self._on_failure = on_failure
        self._failure: BaseException | None = None
        addresses = dict(part.split("=", 1) for part in options.peers.split(","))
        self._names = tuple(sorted(addresses))
        self._addresses = {name: _host_port(address) for name, address in addresses.items()}
        self._values = Values()
        self._guard = TaskGuard()
        self._instance = randbits(64)
        self._links = PeerLinks(
            self._hello, self._addresses, on_envelopes=self._arrived, on_linked=self._linked,
            on_hello=lambda hello: None, options=LinkOptions(),
        )  # fmt: skip
        # Not all members at the same record: a majority goes on while one is busy with its image.
        image_bytes = _IMAGE_BYTES * (8 + self._names.index(options.name)) // 8
        node_options = NodeOptions(raft=RaftOptions(), image_records=_IMAGE_RECORDS, image_bytes=image_bytes)
        self._node: RaftNode[_OUTCOME] = RaftNode(
            self._open_log(), self._values, node_options, sender=self._links, on_event=_tell, on_failure=self.fail
        )
        self._clients: asyncio.Server | None = None

    @staticmethod
    async def start(options: argparse.Namespace, on_failure: Callable[[], None]) -> "LogNode":
        """Found the group if the directory is empty, and serve."""
        server = LogNode(options, on_failure=on_failure)
        await server._links.listen_on(socket.create_server(server._addresses[options.name]))
        server._links.start(server._guard)
        loop = asyncio.get_running_loop()
        service = Service(server._node, server._values, loop)
        host, port = _host_port(options.listen)
        server._clients = await loop.create_server(lambda: _Connection(service), host, port, backlog=1024)
        server._node.start()
        return server

    def addresses(self) -> dict[str, str]:
        return {"address": self._options.listen, "node": self._options.name}

    def check(self) -> None:
        if self._failure is not None:
            raise ServerFailed(str(self._failure)) from self._failure

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._on_failure()

    async def stop(self) -> None:
        if self._clients is not None:
            self._clients.close()
        await self._guard.stop(1)
        await self._links.stop()
        await self._node.stop(5)

    async def abandon(self) -> None:
        await self.stop()

    def _open_log(self) -> RaftLog:
        """The member's log; an empty one is founded with all configured members, whose incarnations are fixed here."""
        log = RaftLog.open(OsFiles(), str(self._options.directory), RaftLogOptions())
        if log.hard_state() is None:
            founders = tuple(map(_identity, self._names))
            found_group(log, HardState(_CLUSTER, _identity(self._options.name)), founders)
            log.take_batch(0).write_and_flush()
        return log

    def _hello(self) -> Hello:
        return Hello(
            cluster=_CLUSTER, sender=_identity(self._options.name), instance=self._instance,
            segment_bytes=RaftLogOptions().segment_bytes, founded=tuple(map(_identity, self._names)),
            nodes=self._names,
        )  # fmt: skip

    def _arrived(self, envelopes: Sequence[Envelope]) -> None:
        self._node.receive(envelopes)

    def _linked(self, peer: ReplicaId) -> None:
        self._node.linked(peer)


def _identity(name: str) -> ReplicaId:
    return ReplicaId(f"{name}.{name.encode().hex():0>16}")


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _tell(event: Event) -> None:
    print(event, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--listen", required=True, help="host:port for clients")
    parser.add_argument("--peers", required=True, help="NAME=HOST:PORT of every member, separated by commas")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--profile", type=Path, help="where a profile of the loop's thread goes")
    options = parser.parse_args()
    log = LogOptions(level="warning", format="text")

    def run() -> int:
        return run_server("log node", lambda _lent, failed: LogNode.start(options, failed), log, ready_file=None)

    if options.profile is None:
        sys.exit(run())
    profiler = cProfile.Profile()
    profiler.runcall(run)
    profiler.dump_stats(options.profile)


if __name__ == "__main__":
    main()
