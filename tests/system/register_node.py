"""A process of registers over the Raft log: a controller's member, its store and links, with another state machine.

Started as `python register_node.py --config FILE --ready-file FILE [--lease [--for-ever]]`, with the configuration of a
controller. On `listen` it takes JSON lines and answers each with one:

    {"op": "read", "key": "k"}                             {"ok": {"value": "x"}}       empty: never written
    {"op": "write", "key": "k", "value": "x"}              {"ok": {}}
    {"op": "cas", "key": "k", "from": "x", "to": "y"}      {"ok": {"swapped": true}}
    {"op": "status"}                                       {"ok": {"role": ..., "term": ..., "leader": ..., ...}}
    refused, nothing was done: {"refused": "not leader", "leader": "c2"}; it may yet happen: {"unknown": true}

Reads are confirmed by a quorum (ReadIndex), also at followers; with --lease a leader answers from its lease. With
--for-ever that lease never ends, which is a defect: the judge must notice it.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app.binding import bind
from logherd.app.controllers import member as controllers_member
from logherd.app.controllers.member import Member
from logherd.app.foreground import run_server
from logherd.app.guarded.lent import Lent
from logherd.app.quorum.outcomes import Applied, ReadAt, Rejected
from logherd.peers.identity import name_of
from logherd.raft.lease import Lease
from logherd.raft.output import Role, RoleChanged
from logherd.raft.record import Record
from logherd.settings.load import load_controller_options
from logherd.settings.options import ControllerOptions

_LINE_BYTES_MAX = 64 << 10
Answer = dict[str, Any]
Tell = Callable[[Answer], None]


class Registers:
    """The state machine: a value for each key. Small images now and then, so that they are part of the proof."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def apply(self, record: Record) -> Answer:
        command = json.loads(bytes(record.body))
        key = command["key"]
        if command["op"] == "write":
            self.values[key] = command["value"]
            return {}
        swapped = self.values.get(key, "") == command["from"]
        if swapped:
            self.values[key] = command["to"]
        return {"swapped": swapped}

    def save(self) -> bytes:
        return json.dumps(self.values, sort_keys=True).encode()

    def load(self, data: bytes) -> None:
        self.values = json.loads(data) if data else {}


class Stand:
    """What a member needs of a controller's board: it hears whether this member leads, and is ready to."""

    def __init__(self) -> None:
        self.quorum: object = None
        self.leads = False

    def role_changed(self, event: RoleChanged, *, recoveries: int) -> None:
        del recoveries  # it grants no epochs
        self.leads = event.role is Role.LEADER and event.ready


class RegisterServer:
    """The process: member, port, and the answers."""

    def __init__(self, options: ControllerOptions, *, lease: bool, on_failure: Callable[[], None]) -> None:
        self._options = options
        self._lease = lease
        self._registers = Registers()
        self._stand = Stand()
        self._member = Member(options, self._registers, self._stand, on_failure=on_failure)  # type: ignore[arg-type]
        self._guard = TaskGuard(on_end=self._task_ended)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        listening = bind(self._options.listen, "listen")
        await self._member.start(bind(self._options.peer_listen, "peerListen"), self._guard)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=_LINE_BYTES_MAX)

    def addresses(self) -> dict[str, str]:
        return {"address": str(self._options.listen), "node": self._options.node_name}

    def check(self) -> None:
        self._member.check()

    def fail(self, error: BaseException) -> None:
        self._member.fail(error)

    async def stop(self) -> None:
        await self._member.hand_over(1.0)
        await self.abandon()

    async def abandon(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._guard.stop(5.0)
        await self._member.stop(5.0)

    def _task_ended(self, ended: TaskEnded) -> None:
        self._member.fail(ended.error or RuntimeError(f"the task {ended.name} ended"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                self._take(json.loads(line), told.set_result)
                writer.write(json.dumps(await told).encode() + b"\n")
                await writer.drain()
        except OSError:
            pass  # the client went away; what it asked may have happened
        finally:
            writer.close()

    def _take(self, request: dict[str, str], tell: Tell) -> None:
        node = self._member.node
        if request["op"] == "status":
            tell({"ok": self._status()})
        elif node is None:
            tell({"refused": "not founded yet"})
        elif request["op"] == "read":
            node.read(lambda outcome: self._read(request["key"], outcome, tell), lease=self._lease)
        else:
            node.propose(json.dumps(request).encode(), lambda outcome: self._decided(outcome, tell))

    def _read(self, key: str, outcome: ReadAt | Rejected, tell: Tell) -> None:
        if isinstance(outcome, ReadAt):
            tell({"ok": {"value": self._registers.values.get(key, "")}})
        else:
            self._refuse(outcome, tell)

    def _decided(self, outcome: object, tell: Tell) -> None:
        if isinstance(outcome, Applied):
            tell({"ok": outcome.result})
        elif isinstance(outcome, Rejected):
            self._refuse(outcome, tell)
        else:
            tell({"unknown": True})

    def _refuse(self, outcome: Rejected, tell: Tell) -> None:
        leader = outcome.leader
        tell({"refused": outcome.reason.value, "leader": name_of(leader) if leader is not None else None})

    def _status(self) -> Answer:
        node = self._member.node
        if node is None:
            return {"role": "founding", "term": 0, "leader": None, "leads": False, "applied": 0, "lease": self._lease}
        leader = node.core.leader
        return {
            "role": node.core.role.value, "term": node.core.ground.term, "leads": self._stand.leads,
            "leader": name_of(leader) if leader is not None else None, "applied": node.position, "lease": self._lease,
        }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--lease", action="store_true")
    parser.add_argument("--for-ever", action="store_true")
    arguments = parser.parse_args()
    options = load_controller_options(arguments.config)
    if arguments.lease:
        # Controllers do not read by lease, so their configuration has no word for it.
        plain = controllers_member._node_options
        controllers_member._node_options = lambda options: replace(
            plain(options), raft=replace(plain(options).raft, lease_reads=True)
        )
    if arguments.for_ever:
        Lease.valid = lambda _self: True  # type: ignore[method-assign]

    async def start(_lent: Lent, failed: Callable[[], None]) -> RegisterServer:
        server = RegisterServer(options, lease=arguments.lease, on_failure=failed)
        await server.start()
        return server

    return run_server("register", start, options.log, ready_file=arguments.ready_file)


if __name__ == "__main__":
    sys.exit(main())
