"""What a broker says of itself on its admin port: status, health, readiness and metrics."""

import os
import shutil
from collections.abc import Callable
from typing import NamedTuple

from logherd import __version__
from logherd.app.admin_routes import Action, Page, Routes
from logherd.app.classic.leading import ClassicLeading
from logherd.app.engine import Engine
from logherd.app.forwarding.assembly import Forwarding
from logherd.app.group.engine import GroupEngine
from logherd.app.group.orders import Orders
from logherd.app.live_settings import LiveSettings
from logherd.app.metrics.broker import read_replication, read_services, read_store
from logherd.app.metrics.parts import read_build, read_names, read_port, read_requests
from logherd.app.metrics.text import scrape_of
from logherd.app.names import EmbeddedNames
from logherd.app.services import Place, Services
from logherd.net.server import Server
from logherd.service.replica_view import ReplicationView
from logherd.settings.options import BrokerOptions
from logherd.telemetry import metrics
from logherd.telemetry.metrics import Readings

__all__ = ["BrokerPages", "BrokerParts"]


class BrokerParts(NamedTuple):
    """What the pages look at, and change nothing of. `bound`: addresses that were taken, empty unless it serves."""

    place: Place
    data_dir: str
    started_ms: int
    engine: Engine | GroupEngine
    services: Services
    forwarding: Forwarding
    server: Callable[[], Server | None]
    names: EmbeddedNames | None
    bound: dict[str, str]
    slaves: ClassicLeading | None
    live: LiveSettings[BrokerOptions]


class BrokerPages:
    """Pages of one broker. Nothing here blocks."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def routes(self) -> Routes:
        """The admin port's site."""
        engine, live = self._parts.engine, self._parts.live
        pages: dict[str, Page] = {
            "/status": self.status, "/health": self.health, "/ready": self.ready, "/config": live.page,
        }  # fmt: skip
        actions: dict[str, Action] = {"/config": live.action}
        if isinstance(engine, GroupEngine):
            orders = Orders(engine)
            pages |= orders.pages()
            actions |= orders.actions()
        return Routes(pages, actions=actions, scrape=scrape_of(self.collect))

    def status(self) -> tuple[int, object]:
        parts = self._parts
        identity, store, server = parts.place.identity, parts.engine.store, parts.server()
        classic = {} if parts.slaves is None else {"classicHa": parts.slaves.view()}
        places = parts.engine.damages.places if isinstance(parts.engine, GroupEngine) else ()
        view = parts.services.replication_view()
        damage = {"damage": [f"{each.path} at byte {each.offset}: {each.what}" for each in places]} if places else {}
        return 200, {
            "group": identity.name,
            "cluster": identity.cluster,
            "epoch": parts.engine.epoch,
            "brokerId": identity.broker_id,
            "storeId": parts.engine.store_id,
            "version": __version__,
            "role": parts.forwarding.role_name,
            "address": identity.address,
            "pid": os.getpid(),
            "ready": self._why_not_ready() is None,
            "endPosition": store.end_position,
            "committedPosition": store.committed_position,
            "nameServer": parts.bound.get("nameServer", ""),
            "startedAt": parts.started_ms,
            "connections": server.connections if server is not None else 0,
            "fault": parts.engine.fault,
            "refuses": self._why_refused(view),
            **parts.live.about(),
            "replication": view,
            **classic,
            **damage,
        }

    def health(self) -> tuple[int, object]:
        healthy = self._parts.engine.healthy
        return (200 if healthy else 503), {"healthy": healthy}

    def ready(self) -> tuple[int, object]:
        why_not = self._why_not_ready()
        return (200 if why_not is None else 503), {"ready": why_not is None, "whyNot": why_not}

    def _why_refused(self, view: ReplicationView | None) -> str:
        """Why messages are refused here; a follower tells what its own store would say. Empty if they are taken."""
        closed = "" if view is None else view.closed or ""
        return self._parts.engine.store.disk.refusal or closed

    def _why_not_ready(self) -> str | None:
        """A ready broker carries a client's request out, or gives it to the one that does."""
        if not self._parts.bound:
            return "its port does not take requests"
        return "it knows of no leader of its group" if self._parts.forwarding.role_name == "none" else None

    def collect(self) -> Readings:
        """Everything that a scrape says, as it is at this moment."""
        parts, readings = self._parts, Readings()
        dispatcher = parts.forwarding.dispatcher
        read_build(readings, ready=self._why_not_ready() is None, healthy=parts.engine.healthy)
        read_services(readings, parts.services)
        readings.tell(metrics.ANSWERS_WAITING, len(parts.forwarding.answers))
        read_store(readings, parts.engine, disk_total=shutil.disk_usage(parts.data_dir).total)
        read_requests(readings, dispatcher.taken, dispatcher.refused)
        read_port(readings, parts.server(), "broker")
        if parts.names is not None:
            read_port(readings, parts.names.server, "names")
            read_names(readings, parts.names.routes)
        read_replication(readings, parts.services.replication_view())
        return readings
