"""The port for RocketMQ slaves: sockets around `SlaveFeed`.

A slave is given nothing before the length of its files is known: bytes for files of another length would spoil its
store without a word. The protocol does not tell; so the group's slaves at the name service are asked (`SlaveInquiry`).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from logherd.aiokit.tasks import TaskGuard
from logherd.classic.slave_feed import CommittedLog, SlaveFeed, SlaveOptions, SlaveOutput
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog

__all__ = ["ClassicPort", "Inquiry", "SlaveView"]

_SLAVES_MAX = 8
_TICK_SECONDS = 1.0
_WAITS_MS = 5000
"""A slave that has waited for so long is told of: it comes and goes without a byte, and says nothing of that itself."""
_PARTING_SECONDS = 5.0
"""So long a slave that is sent away may take for what it was still given; one that hangs takes it never."""

_log = Log("logherd.classic")


class Inquiry(Protocol):
    """Finds out whether the group's slaves can take the bytes of this log."""

    waits_for: str
    """With an answer of "": what is not known, in words for whoever looks after this broker."""

    async def ask(self, connected: int) -> str | None:
        """None: they can, and so many are known, at least one; "": not known yet, ask again; else why they cannot."""


class SlaveView(NamedTuple):
    """A slave as `GET /status` shows it. What it acknowledged is in its memory."""

    remote: str
    admitted: bool
    sent: int | None
    acknowledged: int


class ClassicPort:
    """Belongs to the loop. `log` opens the log for one more slave; `now_ms` is monotonic. Slaves are taken while
    `leads` says so, and sent away when it does not: they look for their master at the name service."""

    def __init__(
        self, log: Callable[[], CommittedLog], inquiry: Inquiry, *, now_ms: Callable[[], int],
        leads: Callable[[], bool] = lambda: True, options: SlaveOptions | None = None,
    ) -> None:  # fmt: skip
        self.log = log
        self.inquiry = inquiry
        self.now_ms = now_ms
        self.leads = leads
        self.options = options or SlaveOptions()
        self.slaves: dict[_Slave, None] = {}
        """In the order in which they came."""
        self._listener: asyncio.Server | None = None
        self.guard: TaskGuard | None = None
        self.complaints = SparingLog(_log, lambda: now_ms() / 1000)

    async def open(self, listening: socket.socket, guard: TaskGuard) -> None:
        """Accept slaves on a socket that was bound, and take it over."""
        self.guard = guard
        self._listener = await asyncio.get_running_loop().create_server(lambda: _Slave(self), sock=listening)
        guard.start("classic HA ticks", self._tick())

    def committed(self) -> None:
        """The committed log has grown, or another may lead."""
        if not self.leads():
            self._dismiss()
        for slave in tuple(self.slaves):
            slave.step()

    def views(self) -> list[SlaveView]:
        """The slaves that are connected."""
        return [slave.view() for slave in self.slaves]

    def close(self) -> None:
        """Accept nobody, and let the slaves go: they look for their master again. Idempotent."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._dismiss()
        self.complaints.tell(ending=True)

    def takes(self, slave: "_Slave") -> bool:
        """Give a connection a place, if there is one. Who has not said where its log ends is no slave yet: the oldest
        of these gives way, so that connections that say nothing keep no slave out."""
        if len(self.slaves) >= _SLAVES_MAX:
            oldest = next((each for each in self.slaves if not each.reported), None)
            if oldest is None:
                return False
            del self.slaves[oldest]
            oldest.end()
        self.slaves[slave] = None
        return True

    def _dismiss(self) -> None:
        for slave in tuple(self.slaves):
            slave.end()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.committed()
            self.complaints.tell()


class _Slave(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: ClassicPort) -> None:
        self._port = port
        self._feed = SlaveFeed(port.log(), port.options, port.now_ms())
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._congested = False
        self._remote = ""
        self._inquiry: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._port.options.window_bytes)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self._remote = f"{host}:{port}"
        if not self._port.leads():
            self.end()
            return
        if self._port.guard is None or not self._port.takes(self):
            self._port.complaints.warning("slave refused", remote=self._remote, reason="too many are connected")
            self.end()

    def data_received(self, data: bytes) -> None:
        self.step(data)
        port, guard = self._port, self._port.guard
        if self._inquiry is None and self.reported and not self._feed.refusal and guard is not None:
            port.complaints.info("slave connected", remote=self._remote)
            self._inquiry = guard.start(f"inquiry {self._remote}", self._inquire(), eternal=False)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self.step()

    def connection_lost(self, exc: Exception | None) -> None:
        self._port.slaves.pop(self, None)
        self._transport = None
        if self._inquiry is not None:
            self._inquiry.cancel()
            acknowledged = self._feed.acknowledged
            self._port.complaints.info("slave left", remote=self._remote, cause=exc, acknowledged=acknowledged)

    def step(self, data: bytes = b"") -> None:
        """Something has arrived, or there is more to give, or time has passed."""
        if self._transport is not None:
            self._carry_out(self._feed.step(data, self._port.now_ms(), room=not self._congested))

    @property
    def reported(self) -> bool:
        """Whether it has said where its log ends."""
        return self._feed.sent is not None

    def view(self) -> SlaveView:
        return SlaveView(self._remote, self._admitted, self._feed.sent, self._feed.acknowledged)

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _carry_out(self, output: SlaveOutput) -> None:
        transport = self._transport
        if transport is None:
            return
        if output.data:
            transport.writelines(output.data)
        if output.refusal:
            self._port.complaints.warning("slave refused", remote=self._remote, reason=output.refusal)
            transport.close()
            asyncio.get_running_loop().call_later(_PARTING_SECONDS, self.end)

    async def _inquire(self) -> None:
        due_ms: int | None = self._port.now_ms() + _WAITS_MS
        while self._transport is not None:
            # Whoever connects and never says where its log ends is no slave, and holds up none.
            reason = await self._port.inquiry.ask(sum(slave.reported for slave in self._port.slaves))
            if reason is None:
                self._admitted = True
                self._feed.admit()
                self.step()
                return
            if reason:
                self._carry_out(self._feed.refuse(reason))
                return
            if due_ms is not None and self._port.now_ms() >= due_ms:
                due_ms = None
                waits_for = self._port.inquiry.waits_for
                self._port.complaints.warning("slave waits", remote=self._remote, reason=waits_for)
            await asyncio.sleep(_TICK_SECONDS)
