"""What a replica says of its group stands on its status page, in its metrics and in the figures of request 28."""

import asyncio
import json
from pathlib import Path

import msgspec

from logherd.app.metrics.text import to_text
from logherd.client.peers import Peers
from logherd.service.admin.runtime import REPLICATION_KEY
from logherd.service.replica_view import ReplicationView
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import KVTable
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from unit.app.forwarding.rig import start_alone
from unit.app.metrics.test_text import VIEW


class Source:
    def view(self) -> ReplicationView:
        return VIEW


async def get(address: str, path: str) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def test_one_view_is_shown_everywhere(tmp_path: Path) -> None:
    broker = await start_alone(tmp_path / "b")
    peers = Peers()
    try:
        address = broker.addresses()
        asked = Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 0)
        assert json.loads(await get(address["admin"], "/status"))["replication"] is None
        assert REPLICATION_KEY not in decode_body(KVTable, (await peers.ask(address["address"], asked)).body).table
        broker._services.replication = Source()
        assert json.loads(await get(address["admin"], "/status"))["replication"] == msgspec.to_builtins(VIEW)
        told = decode_body(KVTable, (await peers.ask(address["address"], asked)).body).table[REPLICATION_KEY]
        assert msgspec.json.decode(str(told), type=ReplicationView) == VIEW
        metrics = await get(address["admin"], "/metrics")
        assert b'logherd_replication_follower_lag_bytes{broker="2"} 20.0' in metrics
        assert b'logherd_requests_total{code="GET_BROKER_RUNTIME_INFO"} 2.0' in metrics
        assert await get(address["admin"], "/nothing") != b""
        assert b"logherd_ready 1.0" in to_text(broker._pages().collect()).body
    finally:
        await peers.close()
        await broker.stop()
