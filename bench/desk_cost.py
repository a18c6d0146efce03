"""What a heartbeat costs a controller's leader, without sockets and without the quorum: `python -m bench.desk_cost`.

The connection, the desk, the board and the office are the real ones; the transport throws away what is written, and
every confirmation that the board asks for comes at the end of the pass. Shows microseconds of processor time for each
heartbeat, for reads that bring one heartbeat and reads that bring several.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Callable

import uvloop

from logherd.app.controllers.board import CONFIRM_SECONDS, Board, Told
from logherd.app.controllers.port import DeskPort
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome
from logherd.controller.commands import Register, decode_command
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.reports import Report
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch, Position
from logherd.net.hub import Hub
from logherd.net.limits import NetLimits
from logherd.net.session import NetSession
from logherd.raft.output import Role, RoleChanged
from logherd.service.controllers.asking import heartbeat
from logherd.service.controllers.desk import QuorumView
from logherd.telemetry.log import Log
from logherd.wire.codec import encode_frame
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header

__all__ = ["Desk", "main"]


class _NoWire(asyncio.Transport):
    """Counts what is written."""

    written = 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Reads come when they are asked for."""

    def resume_reading(self) -> None:
        """As above."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)


class _Quorum:
    """Decides at once; confirms when told to."""

    def __init__(self, board: Board, machine: Machine) -> None:
        self._board = board
        self._machine = machine
        self._reads: list[Callable[[ReadOutcome], None]] = []

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None:
        command = decode_command(body)
        verdict = self._machine.apply(command)
        self._board.applied(command, verdict)
        then(Applied(Position(0), verdict))

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        self._reads.append(then)

    def confirm(self) -> None:
        reads, self._reads = self._reads, []
        for then in reads:
            then(ReadAt(Position(0)))

    def hand_over_to(self, identity: str | None, then: Told) -> None:
        raise NotImplementedError

    def resettle(self, voters: tuple[str, ...], learners: tuple[str, ...], then: Told) -> None:
        raise NotImplementedError


class Desk:
    """A leader with so many groups of ten brokers, all of which have a master, and one connection."""

    def __init__(self, groups: int) -> None:
        machine = Machine()
        self.now = 1_000_000
        options = OfficeOptions(fresh_ms=1 << 40)
        self.board = Board(lambda: machine, LeaseTerms(lease_ms=1 << 30), options)
        self.quorum = self.board.quorum = _Quorum(self.board, machine)
        view = QuorumView(
            group="bench", own_id="a", leader_id="a", leader_address="a:1", peers=(), shown={}, machine=lambda: machine,
            options=options,
        )  # fmt: skip
        port = DeskPort(self.board, lambda: view, lambda: self.now)
        self._passes: list[Callable[[], None]] = []
        self._hub = Hub(port, NetLimits(), now=time.monotonic, defer=self._passes.append, log=Log("bench"))
        self.session = NetSession(self._hub)
        self.wire = _NoWire()
        self.session.connection_made(self.wire)
        reports = [_register(machine, group, broker) for group in range(groups) for broker in range(10)]
        self.frames = [_frame(report, number) for number, report in enumerate(reports)]
        self.board.role_changed(RoleChanged(Role.LEADER, Epoch(1), None, "bench", ready=True), recoveries=0)

    async def settle(self) -> None:
        """Have every group elect its master."""
        for _ in range(3):
            await self.run(self.frames, batch=10)
            self.board.tick()

    async def run(self, frames: list[bytes], *, batch: int) -> None:
        """Each read brings `batch` heartbeats; a hundred heartbeats share a confirmation, as they do at 10,000/s."""
        for first in range(0, len(frames), 100):
            for place in range(first, min(first + 100, len(frames)), batch):
                self.session.data_received(b"".join(frames[place : place + batch]))
            await asyncio.sleep(CONFIRM_SECONDS)
            self.end_pass()

    def end_pass(self) -> None:
        self.quorum.confirm()
        passes, self._passes[:] = list(self._passes), []
        for action in passes:
            action()


def _register(machine: Machine, group: int, broker: int) -> Report:
    key, broker_id, address = GroupKey("bench", f"group-{group}"), BrokerId(broker + 1), f"b{group}-{broker}:10911"
    wish = Register(
        group=key, broker_id=broker_id, store_id=f"s{group}-{broker}", incarnation=f"i{group}-{broker}",
        address=address, rules=Rules(replicas=10, min_in_sync=1),
    )  # fmt: skip
    verdict = machine.apply(wish)
    replica = verdict.group.replica(broker_id) if verdict.group is not None else None
    number = replica.registration if replica is not None else Registration(0)
    return Report(group=key, broker_id=broker_id, registration=number, address=address)


def _frame(report: Report, opaque: int) -> bytes:
    asking = heartbeat(report)
    return encode_frame(Frame(int(asking.code), opaque, ext=encode_header(asking.header)))


async def measure(groups: int, rounds: int, *, profile: bool) -> None:
    desk = Desk(groups)
    await desk.settle()
    frames = desk.frames * rounds
    if profile:
        profiler = cProfile.Profile(time.thread_time)
        profiler.enable()
        await desk.run(frames, batch=1)
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        return
    for batch in (1, 10, 25):
        begun = time.thread_time()
        await desk.run(frames, batch=batch)
        spent = time.thread_time() - begun
        print(f"reads of {batch:>2}: {1e6 * spent / len(frames):.1f} us for each heartbeat")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3, help="heartbeats of each broker")
    parser.add_argument("--profile", action="store_true", help="profile reads of one heartbeat instead")
    options = parser.parse_args()
    uvloop.run(measure(options.groups, options.rounds, profile=options.profile))


if __name__ == "__main__":
    main()
