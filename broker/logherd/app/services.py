"""Everything of a broker that answers requests, built and connected."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from logherd.app.live_settings import LiveSettings
from logherd.app.option_values import defaults_options, pull_options, reserve_bytes, retention_options, send_options
from logherd.app.shown_settings import shown_settings
from logherd.app.store_host import find_store_host
from logherd.kit.clock import Clock
from logherd.service.admin.groups import GroupAdmin
from logherd.service.admin.progress import ProgressAdmin
from logherd.service.admin.runtime import DiskSpace, RuntimeSource
from logherd.service.admin.settings import broker_settings
from logherd.service.admin.slaves import SlaveAdmin
from logherd.service.admin.slices import Slices
from logherd.service.admin.state import StateAdmin
from logherd.service.admin.topics import TopicAdmin
from logherd.service.clients.connections import Connections
from logherd.service.clients.heartbeats import Heartbeats, HeartbeatsOptions
from logherd.service.clients.registry import ClientRegistry
from logherd.service.clients.relays import Relays
from logherd.service.dispatcher import Dispatcher
from logherd.service.identity import BrokerIdentity
from logherd.service.locks import Locks
from logherd.service.metadata import Metadata, MetadataRefusedError
from logherd.service.metadata.defaults import ensure_defaults
from logherd.service.offset_rules import OffsetRules
from logherd.service.offsets import OffsetsHandler
from logherd.service.ports import Answer, Handler, Request, Session
from logherd.service.producers import WriterHandler, WriterOptions
from logherd.service.pull.handler import PullHandler
from logherd.service.queries import Queries
from logherd.service.replica_view import ReplicationSource, ReplicationView
from logherd.service.routing import Role
from logherd.service.send.handler import SendHandler
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.reply import ReplyHandler
from logherd.service.send.targets import Targets
from logherd.service.send.unique_keys import UniqueKeys
from logherd.service.stats import BrokerStats
from logherd.settings.hot import hot_properties
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.store import MessageStore, QueueLog
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame

__all__ = ["Place", "Services"]


class Place(NamedTuple):
    """Where this broker is: what other brokers and the controllers are told, what routes tell of it as a leader, and
    what records and message ids carry."""

    identity: BrokerIdentity
    routed: str
    store_host: bytes

    @staticmethod
    async def find(options: BrokerOptions, port: int) -> "Place":
        """`port` is the one that was bound. Waits a moment if a name has to be looked up (store_host.py)."""
        own = options.advertised or Endpoint(host=options.listen.host, port=port)
        routed = options.replication.leader_address or own
        identity = BrokerIdentity(options.cluster_name, options.broker_group, options.broker_id, str(own))
        return Place(identity, str(routed), await find_store_host(routed))


class Services:
    """All request handlers of one broker over one store. Loop thread only."""

    def __init__(
        self, live: LiveSettings[BrokerOptions], place: Place, *, store: MessageStore, metadata: Metadata, clock: Clock
    ) -> None:
        options = live.options
        self.registry = ClientRegistry()
        self.stats = BrokerStats(now_ms=clock.monotonic_ms(), wall_ms=clock.now_ms())
        self.heartbeats = Heartbeats(
            self.registry,
            metadata,
            clock,
            options=HeartbeatsOptions(auto_create_groups=options.topics.auto_create_groups),
        )
        self.locks = Locks(metadata, clock, follows=self.registry.follows)
        self.slices = Slices()
        self.pull = PullHandler(
            store,
            metadata,
            self.registry,
            rules=OffsetRules(store, metadata, self.registry),
            clock=clock,
            counter=self.stats,
            options=pull_options(options),
        )
        self._clock = clock
        self._store = store
        self._metadata = metadata
        self._place = place
        self._live = live
        self.replication: ReplicationSource | None = None
        """How this replica sees its group; None while it is alone."""
        self.permission_hooks: list[Callable[[int], None]] = []
        """Hear brokerPermission when an operator changed it."""
        self._send_options = send_options(options, store_host=place.store_host)
        self._stamper = _stamper(self._send_options, clock)
        self.targets = Targets(metadata, store, auto_create=options.topics.auto_create)
        self.send = SendHandler(
            store,
            self.targets,
            clock=clock,
            counter=self.stats,
            stamper=self._stamper,
            options=self._send_options,
            is_orderly=self.locks.is_orderly,
        )

    def dispatcher(self, more: Mapping[int, Handler], *, watch: Callable[[Session, Frame], None]) -> Dispatcher:
        """The broker port's dispatcher over all handlers and `more`. `watch` hears each 34 and 35 first."""
        typed = {**self._typed(), **more}
        for code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            typed[code] = _watched(typed[code], watch)
        return Dispatcher(
            Role.BROKER,
            self._clock,
            typed=typed,
            raw={**self.send.raw_handlers(), **self.pull.raw_handlers()},
            runs=self.send.handle_run,
        )

    def follow_settings(self, options: BrokerOptions) -> None:
        """Go by the settings of these options that can change while a broker runs."""
        store, topics = self._store, options.topics
        store.retention = retention_options(options.store)
        store.keep_free(reserve_bytes(options.store, self._disk().total))
        store.flush_every(options.store.async_flush_interval_ms)
        self.targets.auto_create = topics.auto_create
        pulls = pull_options(options)
        self.pull.hold.limit(parked_max=pulls.parked_max, session_max=pulls.session_parked_max)
        self.heartbeats.auto_create_groups = self.pull.auto_create_groups = topics.auto_create_groups
        if self._metadata.leading:  # whoever leads next makes the template, too, if there is none by then
            with suppress(MetadataRefusedError):
                ensure_defaults(self._metadata, defaults_options(options))

    def committed(self, touched: Iterable[QueueLog]) -> None:
        """Messages became visible in these queues."""
        self.pull.committed(touched)

    def session_closed(self, session: Session) -> None:
        """A connection is gone: its parked pulls are forgotten, its clients leave their groups."""
        self.pull.session_closed(session)
        self.heartbeats.session_closed(session)

    def session_unreachable(self, session: Session) -> None:
        """Answers cannot reach this client of another broker now, though it may be there still."""
        self.pull.session_closed(session)

    def replication_view(self) -> ReplicationView | None:
        """How this replica sees its group at this moment."""
        return None if self.replication is None else self.replication.view()

    def step_down(self) -> None:
        """This broker does not lead any more: waiting pulls are told so, and who is connected is for the leader."""
        self.pull.let_go()
        self.registry.clear()
        self.heartbeats.step_down()

    def _typed(self) -> dict[int, Handler]:
        store, metadata, registry, clock = self._store, self._metadata, self.registry, self._clock
        identity = self._place.identity
        rules = OffsetRules(store, metadata, registry)
        offsets = OffsetsHandler(
            store, metadata, rules, broker_name=identity.name, on_reset=self.pull.committed, slices=self.slices
        )  # fmt: skip
        replies = ReplyHandler(
            store, self.targets, registry, clock=clock, stamper=self._stamper, options=self._send_options
        )
        writers = WriterHandler(
            store, metadata, self.targets, clock=clock, counter=self.stats, stamper=self._stamper,
            send=self._send_options, options=WriterOptions(),
        )  # fmt: skip
        progress = ProgressAdmin(
            metadata, store, registry, self.stats, identity=identity, clock=clock, slices=self.slices
        )  # fmt: skip
        families = (
            offsets.handlers(),
            replies.handlers(),
            writers.handlers(),
            self.heartbeats.handlers(),
            Connections(registry).handlers(),
            Relays(registry, metadata, broker_name=identity.name, record_at=store.record_at).handlers(),
            self.locks.handlers(),
            Queries(store, registry).handlers(),
            TopicAdmin(metadata, store, registry, self.stats, identity=identity, slices=self.slices).handlers(),
            GroupAdmin(metadata, self.stats).handlers(),
            progress.handlers(),
            SlaveAdmin(_delay_progress(self._live.options)).handlers(),
            self._state().handlers(),
        )
        return {int(code): handler for family in families for code, handler in family.items()}

    def _state(self) -> StateAdmin:
        identity = self._place.identity
        settings = broker_settings(
            identity,
            permitted=(self.send, self.pull),
            on_permission=self._permission_changed,
            fixed=shown_settings(self._live.options, identity),
            configured=self._configured,
        )
        started_ms = self._clock.now_ms()
        runtime = RuntimeSource(self._store, self.stats, self._clock, started_ms, self._disk, self.replication_view)
        return StateAdmin(settings, runtime, identity=identity, configure=self._live.submit)

    def _configured(self) -> Mapping[str, str]:
        values = self._live.values
        return {name: values[name] for name in hot_properties()}

    def _disk(self) -> DiskSpace:
        return DiskSpace(*shutil.disk_usage(self._live.options.data_dir))

    def _permission_changed(self, permission: int) -> None:
        for hook in self.permission_hooks:
            hook(permission)


def _watched(handler: Handler, watch: Callable[[Session, Frame], None]) -> Handler:
    def handle(request: Request, session: Session) -> Answer:
        watch(session, request.frame)
        return handler(request, session)

    return handle


def _delay_progress(options: BrokerOptions) -> bytes | None:
    """What a RocketMQ broker whose store was adopted kept of its delay levels."""
    path = Path(options.data_dir) / "config" / "delayOffset.json"
    return path.read_bytes() if path.is_file() else None


def _stamper(options: SendOptions, clock: Clock) -> Stamper:
    """What puts the broker's properties on each message, and a key on those that have none."""
    keys = UniqueKeys(clock, host=options.store_host, process=os.getpid(), start=secrets.randbits(32))
    return Stamper(cluster=options.cluster_name, region=options.region, trace_on=options.trace_on, new_key=keys.next)
