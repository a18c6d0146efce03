"""A broker's side for RocketMQ slaves: which ports it takes, and what it tells of them.

A slave learns both addresses when it registers at the name service. It asks for topics at the broker's port minus 2,
RocketMQ's port for what must not wait behind clients, and for everything else at the broker's port.
"""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import CannotListen, bind
from logherd.app.classic.compared_log import ComparedLog
from logherd.app.classic.inquiry import SlaveInquiry
from logherd.app.classic.port import ClassicPort
from logherd.client.peers import Peers
from logherd.kit.clock import Clock
from logherd.net.server import Server
from logherd.service.identity import BrokerIdentity
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.store import MessageStore, StoreDamaged

__all__ = ["ClassicLeading", "ha_address"]

_METADATA_PORTS = 2


def ha_address(options: BrokerOptions, identity: BrokerIdentity) -> str:
    """Where slaves of this broker connect to, as routes tell it; the broker's own address if it takes none."""
    listen = options.replication.classic_ha.listen
    if listen is None:
        return identity.address
    return f"{identity.address.rpartition(':')[0]}:{listen.port}"


class ClassicLeading:
    """The two ports. Made by `prepare` before the store is opened; belongs to the loop."""

    def __init__(self, transfer: socket.socket, metadata: socket.socket, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._sockets = [transfer, metadata]
        self._peers = Peers()
        self._port: ClassicPort | None = None

    @staticmethod
    def prepare(options: BrokerOptions) -> "ClassicLeading | None":
        """Take the addresses, if the settings want slaves. Raises: CannotListen."""
        listen = options.replication.classic_ha.listen
        if listen is None:
            return None
        transfer = bind(listen, "replication.classicHa.listen")
        beside = Endpoint(host=options.listen.host, port=options.listen.port - _METADATA_PORTS)
        try:
            metadata = bind(beside, "for replication.classicHa, listen minus 2,")
        except CannotListen:
            transfer.close()
            raise
        return ClassicLeading(transfer, metadata, Path(options.data_dir))

    async def open(
        self, store: MessageStore, server: Server, identity: BrokerIdentity, *, segment_bytes: int,
        names: Callable[[], Sequence[str]], clock: Clock, guard: TaskGuard, leads: Callable[[], bool],
        on_damage: Callable[[StoreDamaged], None],
    ) -> None:  # fmt: skip
        """Accept slaves, whenever this broker `leads`; `on_damage` hears of what they cannot be given.

        Raises: CannotListen if the log is not in files of one length, which slaves need.
        """
        lengths = {path.stat().st_size for path in (self._data_dir / "commitlog").iterdir() if path.name.isdigit()}
        if lengths != {segment_bytes}:
            sizes = ", ".join(map(str, sorted(lengths)))
            raise CannotListen(
                f"replication.classicHa.listen: the log's files have {sizes} bytes, store.segmentSize is "
                f"{segment_bytes}: RocketMQ slaves need files of one length"
            )
        transfer, metadata = self._sockets
        self._sockets = []
        await server.listen_on(metadata)
        inquiry = SlaveInquiry(self._peers, identity, names, segment_bytes)
        self._port = ClassicPort(lambda: ComparedLog(store, on_damage), inquiry, now_ms=clock.monotonic_ms, leads=leads)
        await self._port.open(transfer, guard)

    def committed(self) -> None:
        """The committed log has grown."""
        if self._port is not None:
            self._port.committed()

    def view(self) -> dict[str, object]:
        """For `GET /status`."""
        views = self._port.views() if self._port is not None else []
        return {"slaves": [view._asdict() for view in views]}

    async def close(self) -> None:
        """Let the slaves go. Idempotent."""
        if self._port is not None:
            self._port.close()
        for each in self._sockets:
            each.close()
        self._sockets = []
        await self._peers.close()
