"""Which broker leads and holds which topic: the table behind routes, pure and driven by the caller's clock.

A broker is known by (cluster, name, id) and reached at one address. It is alive while a connection stands over which it
has registered, and it has spoken within its own expiry. It may have several: one that the guardian of another name
service has brought here, one that it has given up and whose end, or last words, are still on their way. A broker in
this process has none and lives until it is unregistered.

A leader that names its epoch is one of several replicas. Its address gives way at once to the leader of a later epoch,
and to nothing earlier. Until there is one it stays for a while, also when its connection is gone or it has withdrawn:
requests to it are passed on to the next leader, by itself or by its guardian, and a route that ends there is worth more
than none.

Source: apache/rocketmq: namesrv/src/main/java/org/apache/rocketmq/namesrv/routeinfo/RouteInfoManager.java
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from logherd.model.topic import Permission, TopicConfig
from logherd.service.identity import LEADER_ID, BrokerIdentity
from logherd.service.names.epochs import Epochs, Expected, KnownGroups, RegistrationError

__all__ = [
    "EXPIRY_MS", "SUCCESSION_MS", "BrokerRoute", "Registered", "Registration", "RegistrationError", "RouteTable",
    "TableVersion", "TopicRoute",
]  # fmt: skip

EXPIRY_MS = 120_000
"""How long a broker may be silent unless it asks for another time."""
SUCCESSION_MS = 10_000
"""How long routes name a leader that is gone, while its group elects another: three leases of ordinary length. A group
with longer ones takes longer."""


class TableVersion(NamedTuple):
    """Age of a broker's topic table. A higher state version wins when two addresses claim one broker id."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says about itself.

    `session_id` is None for a broker of this process. `complete` says that topics which are not listed are gone;
    RocketMQ brokers also register single changed topics, and the wire does not tell the difference, so theirs never is.
    `epoch` is that of a leader among replicas, None for any other broker.
    """

    broker: BrokerIdentity
    topics: Mapping[str, TopicConfig]
    version: TableVersion
    ha_address: str = ""
    session_id: int | None = None
    expiry_ms: int = EXPIRY_MS
    acting_master: bool = False
    zone: str | None = None
    complete: bool = False
    epoch: int | None = None


class Registered(NamedTuple):
    """The leader that a follower should copy from; empty for the leader itself and while there is none."""

    leader_address: str = ""
    leader_ha_address: str = ""


@dataclass(slots=True)
class BrokerRoute:
    """The addresses of one broker name. Callers only read it."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool = False
    zone: str | None = None


class TopicRoute(NamedTuple):
    """Queues by broker name, and those brokers. Permissions are the effective ones."""

    queues: dict[str, TopicConfig]
    brokers: list[BrokerRoute]


@dataclass(slots=True)
class _Live:
    broker: BrokerIdentity
    seen_ms: int
    expiry_ms: int
    version: TableVersion
    sessions: dict[int, int]
    """When it registered last over each connection; none for a broker of this process."""
    ha_address: str
    epoch: int | None
    until_ms: int | None = None
    """It is gone, and is kept until then or until its successor comes."""


class RouteTable:
    """All routes of a name service. Times are monotonic milliseconds.

    Invariants: (1) every broker name in a topic's queues has a BrokerRoute; (2) no topic and no broker name is kept
    with nothing in it; (3) one address appears under at most one id of a name.
    """

    def __init__(self, *, started_ms: int, grace_ms: int, groups: KnownGroups | None = None) -> None:
        """`grace_ms` is one lease: how long unknown topics may be those of a leader that has not registered yet. Three
        of them are what a succession may take.

        The wait ends early when every one of the known groups has registered its leader.
        """
        self.revision = 0
        self._settled_ms = started_ms + grace_ms
        self._succession_ms = max(SUCCESSION_MS, 3 * grace_ms)
        self._groups = groups or Expected()
        self._epochs = Epochs(self._groups)
        self._topics: dict[str, dict[str, TopicConfig]] = {}
        self._brokers: dict[str, BrokerRoute] = {}
        self._live: dict[tuple[str, str], _Live] = {}
        self._write_wiped: set[str] = set()

    # -- changes

    def register(self, registration: Registration, now_ms: int) -> Registered:
        """Add or refresh one broker and, if it is its leader, its topics.

        Raises: RegistrationError for a single topic of a broker that has not registered before, for a cluster other
            than the one its name belongs to, for an older claimant of a taken id, and for a follower whose address is
            still the leader's; Superseded, which is one, for a leader of an earlier epoch than the known one.
        """
        broker = registration.broker
        self._refuse_foreign(registration)
        self._refuse_superseded(registration, now_ms)
        self._refuse_early_follower(broker)
        known = self._live.get((broker.cluster, broker.address))
        if known is not None and known.broker.name != broker.name:
            self.unregister(known.broker)  # nothing would end its routes any more
        entry = self._brokers.get(broker.name)
        if entry is None:
            entry = self._brokers[broker.name] = BrokerRoute(broker.cluster, broker.name)
        before = (dict(entry.addresses), entry.acting_master, entry.zone)
        for moved in [i for i, a in entry.addresses.items() if a == broker.address and i != broker.broker_id]:
            del entry.addresses[moved]
        replaced = entry.addresses.get(broker.broker_id)
        if replaced is not None and replaced != broker.address:
            self._live.pop((broker.cluster, replaced), None)
        entry.addresses[broker.broker_id] = broker.address
        entry.acting_master, entry.zone = registration.acting_master, registration.zone
        if before != (entry.addresses, entry.acting_master, entry.zone):
            self.revision += 1
        version = registration.version
        if known is not None and _is_late(known, registration):
            version = known.version
        elif broker.broker_id == LEADER_ID:
            self._put_topics(broker.name, registration.topics, complete=registration.complete)
        self._live[broker.cluster, broker.address] = _Live(
            broker, now_ms, registration.expiry_ms, version, _sessions(known, registration, now_ms),
            registration.ha_address, registration.epoch,
        )  # fmt: skip
        if registration.epoch is not None:
            self._epochs.tell(broker.cluster, broker.name, registration.epoch, now_ms)
        return self._leader_for(broker, entry)

    def unregister(self, broker: BrokerIdentity, *, session_id: int | None = None) -> bool:
        """Forget one address of a broker name; whether it was known. Topics go with the last address of the name.

        Over a connection that is not the latest over which the broker has registered, only that one ends: an earlier
        process has said so.
        """
        live = self._live.get((broker.cluster, broker.address))
        if live is not None and live.broker.name == broker.name:
            if session_id in live.sessions and session_id != max(live.sessions):
                del live.sessions[session_id]
                return False
            del self._live[broker.cluster, broker.address]
        entry = self._brokers.get(broker.name)
        if entry is None or entry.cluster != broker.cluster:
            return False
        gone = [i for i, address in entry.addresses.items() if address == broker.address]
        for broker_id in gone:
            del entry.addresses[broker_id]
        if not entry.addresses:
            del self._brokers[broker.name]
            self._write_wiped.discard(broker.name)
            self._drop_topics(broker.name, list(self._topics))
        self.revision += bool(gone)
        return bool(gone)

    def withdraw(self, broker: BrokerIdentity, epoch: int, now_ms: int) -> bool:
        """A leader leads no more: what it registered in this epoch goes, after the time of a succession. An epoch has
        one leader, whose address may have changed before it could register anew."""
        live = self._leader_of(broker)
        if live is None or live.epoch != epoch:
            return False
        live.until_ms = now_ms + self._succession_ms
        return True

    def session_closed(self, session_id: int, now_ms: int) -> list[BrokerIdentity]:
        """Forget the brokers that spoke over a connection which is gone, and over no other one; and name them."""
        gone = []
        for live in self._live.values():
            if live.sessions.pop(session_id, None) is None:
                continue
            if live.sessions:
                live.seen_ms = max(live.sessions.values())
            else:
                gone.append(live)
        for live in gone:
            if live.epoch is not None and live.until_ms is None:
                live.until_ms = now_ms + self._succession_ms
        return self._forget(live for live in gone if live.until_ms is None)

    def expire(self, now_ms: int, *, deaf: bool = False) -> list[BrokerIdentity]:
        """Forget the brokers that were silent too long, and name them. Call it every few seconds. `deaf`: nobody could
        be heard for a while, so that silence says nothing yet."""
        for live in self._live.values():
            known = self._epochs.of(live.broker.cluster, live.broker.name, now_ms)
            if live.epoch is not None and live.epoch < known and live.until_ms is None:
                live.until_ms = now_ms + self._succession_ms
        return self._forget(
            live for live in self._live.values()
            if (not deaf and live.sessions and now_ms - live.seen_ms > live.expiry_ms)
            or (live.until_ms is not None and now_ms >= live.until_ms)
        )  # fmt: skip

    def touch(self, cluster: str, address: str, now_ms: int) -> None:
        """A broker said that it is alive; an unknown address is ignored, it has to register."""
        live = self._live.get((cluster, address))
        if live is not None:
            live.seen_ms = now_ms

    def register_topic(self, topic: str, queues: Mapping[str, TopicConfig]) -> bool:
        """Set a topic's queues by hand; False, and nothing changed, if a broker name is unknown."""
        if not queues or any(name not in self._brokers for name in queues):
            return False
        self._topics.setdefault(topic, {}).update(queues)
        self.revision += 1
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only its queues on the brokers of one cluster."""
        if cluster is None:
            self.revision += self._topics.pop(topic, None) is not None
            return
        for name in [n for n in self._topics.get(topic, {}) if self._brokers[n].cluster == cluster]:
            self._drop_topics(name, [topic])

    def drop_topic(self, topic: str, broker_name: str) -> None:
        """Forget a topic's queues on one broker name."""
        self._drop_topics(broker_name, [topic])

    def wipe_write(self, broker_name: str) -> int:
        """Make a broker's topics read-only in routes until `restore_write`; returns how many topics it has."""
        if broker_name in self._brokers:
            self._write_wiped.add(broker_name)
            self.revision += 1
        return sum(broker_name in queues for queues in self._topics.values())

    def restore_write(self, broker_name: str) -> int:
        """Undo `wipe_write`; returns how many topics the broker has."""
        self._write_wiped.discard(broker_name)
        self.revision += 1
        return sum(broker_name in queues for queues in self._topics.values())

    # -- questions

    def settled(self, now_ms: int) -> bool:
        """Whether an unknown topic surely does not exist (rule H13), rather than not being registered yet."""
        if now_ms >= self._settled_ms:
            return True
        expected = self._groups.names()
        return bool(expected) and all(
            name in self._brokers and LEADER_ID in self._brokers[name].addresses for name in expected
        )

    def route(self, topic: str) -> TopicRoute | None:
        queues = self._topics.get(topic)
        if not queues:
            return None
        effective = {
            name: replace(config, permission=config.permission & ~Permission.WRITE)
            if name in self._write_wiped else config
            for name, config in queues.items()
        }  # fmt: skip
        return TopicRoute(effective, [self._brokers[name] for name in queues])

    def brokers(self) -> Mapping[str, BrokerRoute]:
        return self._brokers

    def clusters(self) -> dict[str, list[str]]:
        """Broker names by cluster."""
        found: dict[str, list[str]] = {}
        for broker in self._brokers.values():
            found.setdefault(broker.cluster, []).append(broker.name)
        return found

    def topics(self, keep: Callable[[TopicConfig], bool] | None = None) -> list[str]:
        """Topic names; with `keep`, those whose configuration on the first broker passes."""
        if keep is None:
            return list(self._topics)
        return [topic for topic, queues in self._topics.items() if keep(next(iter(queues.values())))]

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = {broker.name for broker in self._brokers.values() if broker.cluster == cluster}
        return [topic for topic, queues in self._topics.items() if not names.isdisjoint(queues)]

    def version_of(self, cluster: str, address: str) -> TableVersion | None:
        live = self._live.get((cluster, address))
        return None if live is None else live.version

    # -- inside

    def _refuse_foreign(self, registration: Registration) -> None:
        broker = registration.broker
        entry = self._brokers.get(broker.name)
        if entry is not None and entry.cluster != broker.cluster:
            raise RegistrationError(
                f"broker name {broker.name} belongs to cluster {entry.cluster}, not to {broker.cluster}"
            )
        held = None if entry is None else entry.addresses.get(broker.broker_id)
        if held is None:
            if len(registration.topics) == 1 and not registration.complete:
                raise RegistrationError(
                    f"{broker.name} id {broker.broker_id} must register all its topics before it registers a single one"
                )
            return
        live = self._live.get((broker.cluster, held)) if registration.epoch is None else None
        if held != broker.address and live and live.version.state_version > registration.version.state_version:
            raise RegistrationError(
                f"{broker.name} id {broker.broker_id} is {held} with state version {live.version.state_version}; "
                f"{broker.address} has {registration.version.state_version}"
            )

    def _refuse_superseded(self, registration: Registration, now_ms: int) -> None:
        """Epochs are of leaders; a broker that registers again where nobody else is led by one needs none."""
        broker = registration.broker
        if broker.broker_id != LEADER_ID:
            return
        entry = self._brokers.get(broker.name)
        live = self._leader_of(broker)
        self._epochs.refuse_superseded(
            broker.cluster, broker.name, registration.epoch, now_ms,
            leader=None if entry is None else entry.addresses.get(LEADER_ID),
            leader_epoch=None if live is None or live.until_ms is not None else live.epoch,
        )  # fmt: skip

    def _leader_of(self, broker: BrokerIdentity) -> _Live | None:
        """Who leads the name of this broker, in its cluster."""
        entry = self._brokers.get(broker.name)
        leader = None if entry is None else entry.addresses.get(LEADER_ID)
        return None if leader is None else self._live.get((broker.cluster, leader))

    def _refuse_early_follower(self, broker: BrokerIdentity) -> None:
        """A leader that died and is back as a follower would take its own address out of routes, which name it until
        another leads."""
        live = self._live.get((broker.cluster, broker.address))
        if broker.broker_id == LEADER_ID or live is None or live.epoch is None or live.broker.name != broker.name:
            return
        raise RegistrationError(
            f"{broker.address} is known as the leader of {broker.name} in epoch {live.epoch}; it can be registered as "
            f"id {broker.broker_id} when another leads"
        )

    def _put_topics(self, broker_name: str, topics: Mapping[str, TopicConfig], *, complete: bool) -> None:
        for topic, config in topics.items():
            queues = self._topics.setdefault(topic, {})
            if queues.get(broker_name) != config:
                queues[broker_name] = config
                self.revision += 1
        if complete:
            self._drop_topics(broker_name, [topic for topic in self._topics if topic not in topics])

    def _drop_topics(self, broker_name: str, topics: Iterable[str]) -> None:
        for topic in topics:
            queues = self._topics.get(topic, {})
            if queues.pop(broker_name, None) is not None:
                self.revision += 1
                if not queues:
                    del self._topics[topic]

    def _forget(self, dead: Iterable[_Live]) -> list[BrokerIdentity]:
        brokers = [live.broker for live in dead]
        for broker in brokers:
            self.unregister(broker)
        return brokers

    def _leader_for(self, broker: BrokerIdentity, entry: BrokerRoute) -> Registered:
        leader = entry.addresses.get(LEADER_ID)
        if broker.broker_id == LEADER_ID or leader is None:
            return Registered()
        live = self._live.get((entry.cluster, leader))
        return Registered(leader, live.ha_address if live else "")


def _is_late(known: _Live, registration: Registration) -> bool:
    """Whether it tells of topics as they were before others that its leadership has told over a later connection. A
    broker without an epoch may have begun anew."""
    if registration.epoch is None or (known.broker, known.epoch) != (registration.broker, registration.epoch):
        return False
    over_older = registration.session_id is not None and registration.session_id < max(known.sessions, default=0)
    return over_older and registration.version.counter < known.version.counter


def _sessions(known: _Live | None, registration: Registration, now_ms: int) -> dict[int, int]:
    """The connections of a broker that registers: an earlier leadership, or a former id, has those of its own."""
    if registration.session_id is None:
        return {}
    same = known is not None and (known.broker, known.epoch) == (registration.broker, registration.epoch)
    return {**(known.sessions if known is not None and same else {}), registration.session_id: now_ms}
