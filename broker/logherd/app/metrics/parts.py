"""Readings that brokers and controllers have in common: ports, requests by code, name service."""

from collections.abc import Mapping

from logherd import __version__
from logherd.net.server import Server
from logherd.service.names.routes import RouteTable
from logherd.telemetry import metrics
from logherd.telemetry.metrics import Readings
from logherd.wire.codes import RequestCode, ResponseCode

__all__ = ["UNKNOWN", "read_build", "read_names", "read_port", "read_requests"]

UNKNOWN = "unknown"
"""Stands for all codes without a name, so that peers cannot make labels."""

_REQUEST_NAMES = {int(code): code.name for code in RequestCode}
_ANSWER_NAMES = {int(code): code.name for code in ResponseCode}


def read_build(readings: Readings, *, ready: bool, healthy: bool) -> None:
    """What the process is, and whether it works."""
    readings.tell(metrics.BUILD_INFO, 1, __version__)
    readings.tell(metrics.READY, ready)
    readings.tell(metrics.HEALTHY, healthy)


def read_port(readings: Readings, server: Server | None, port: str) -> None:
    """One listening port; nothing while it is not open."""
    if server is None:
        return
    traffic = server.traffic
    readings.tell(metrics.CONNECTIONS, server.connections, port)
    readings.tell(metrics.ACCEPTED, traffic.accepted, port)
    readings.tell(metrics.TURNED_AWAY, traffic.refused, port)
    readings.tell(metrics.RECEIVED, traffic.received, port)
    readings.tell(metrics.SENT, traffic.sent, port)
    readings.tell(metrics.HELD_BYTES, server.bytes_held, port)


def read_requests(readings: Readings, taken: Mapping[int, int], refused: Mapping[tuple[int, int], int]) -> None:
    """Requests by code, and refusals by code and answer."""
    by_name: dict[str, int] = {}
    for code, count in taken.items():
        name = _REQUEST_NAMES.get(code, UNKNOWN)
        by_name[name] = by_name.get(name, 0) + count
    for name, count in by_name.items():
        readings.tell(metrics.REQUESTS, count, name)
    pairs: dict[tuple[str, str], int] = {}
    for (code, answer), count in refused.items():
        pair = _REQUEST_NAMES.get(code, UNKNOWN), _ANSWER_NAMES.get(answer, UNKNOWN)
        pairs[pair] = pairs.get(pair, 0) + count
    for pair, count in pairs.items():
        readings.tell(metrics.REFUSALS, count, *pair)


def read_names(readings: Readings, routes: RouteTable | None) -> None:
    """The name service of this process, if there is one."""
    if routes is not None:
        readings.tell(metrics.NAMES_BROKERS, len(routes.brokers()))
        readings.tell(metrics.NAMES_TOPICS, routes.topic_count)
