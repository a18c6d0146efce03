"""The configuration file of one broker. The keys are the broker's contract; the broker itself checks the values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logherd_operator.spec.effects import CONFIG_LIVE
from logherd_operator.spec.group import BrokerGroup

__all__ = [
    "BrokerPlace", "GuardianPlace", "ReplicaPlace", "hot_settings", "render_broker_config", "without_hot_settings",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """What makes a broker one of several: addresses are `host:port`. `peers` names all replicas by broker id, also
    those that do not run yet, so that nobody has to be told when they do. `leader_address` follows the leader.
    """

    controllers: tuple[str, ...]
    name_servers: tuple[str, ...]
    peer_listen: str
    peers: Mapping[int, str]
    leader_address: str | None = None
    learner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardianPlace:
    """For the parent process: where peers bring their clients, and the peers' own such addresses."""

    relay_listen: str
    relays: tuple[str, ...]
    stop_seconds: int
    state_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlace:
    """Where one broker stands: what the spec cannot know. Addresses are `host:port`.

    `name_service_listen`: of the name service in its own process; a replica has none.
    """

    broker_id: int
    listen: str
    admin_listen: str
    data_dir: str
    admin_token_file: str | None = None
    name_service_listen: str = ""
    advertised: str | None = None
    replica: ReplicaPlace | None = None
    guardian: GuardianPlace | None = None
    log: Mapping[str, str] = field(default_factory=dict)


def render_broker_config(group: BrokerGroup, place: BrokerPlace) -> dict[str, Any]:
    """The document that `logherd broker --config` reads."""
    spec = group.spec
    return {
        "brokerGroup": group.metadata.name,
        "clusterName": spec.cluster_name or group.metadata.name,
        "brokerId": place.broker_id,
        "listen": place.listen,
        **({"advertised": place.advertised} if place.advertised is not None else {}),
        "adminListen": place.admin_listen,
        **({"adminTokenFile": place.admin_token_file} if place.admin_token_file is not None else {}),
        "dataDir": place.data_dir,
        "nameService": _name_service(group, place),
        "flush": spec.replication.flush.lower(),
        **({"replication": _replication(group, place.replica)} if place.replica is not None else {}),
        "store": {"reservedPercent": spec.storage.reserved_percent},
        **({"guardian": _guardian(place.guardian)} if place.guardian is not None else {}),
        **({"log": dict(place.log)} if place.log else {}),
        "properties": dict(spec.config),
    }


def hot_settings(group: BrokerGroup) -> dict[str, str]:
    """What running brokers shall have in force and can take, by the names and in the words of their status pages."""
    spec = group.spec
    keys = {name: spec.config.get(name, default) for name, default in CONFIG_LIVE.items()}
    ratio = keys["diskMaxUsedSpaceRatio"]
    return {
        "replication.heartbeat": f"{spec.failover.heartbeat_interval_ms}ms",
        "replication.lagTimeout": f"{spec.replication.lag_timeout_ms}ms",
        **({"store.reservedPercent": str(spec.storage.reserved_percent)} if ratio is None else {}),
        **{name: _plain(value) for name, value in keys.items() if value is not None},
    }


def without_hot_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Of a broker's document, what a restart is needed for."""
    replication, store, properties = (document.get(each, {}) for each in ("replication", "store", "properties"))
    return {
        **document,
        "replication": {key: each for key, each in replication.items() if key not in ("heartbeat", "lagTimeout")},
        "store": {key: each for key, each in store.items() if key != "reservedPercent"},
        "properties": {key: each for key, each in properties.items() if key not in CONFIG_LIVE},
    }


def _plain(value: str) -> str:
    """As the broker tells it: 72 for 072."""
    text = value.strip()
    return str(int(text)) if text.isascii() and text.isdigit() else text


def _name_service(group: BrokerGroup, place: BrokerPlace) -> dict[str, Any]:
    wanted = group.spec.name_service
    if wanted.mode == "External":
        return {"mode": "external", "addresses": list(wanted.addresses)}
    if place.replica is not None:
        return {"mode": "external", "addresses": list(place.replica.name_servers)}
    return {"mode": "embedded", "listen": place.name_service_listen}


def _replication(group: BrokerGroup, place: ReplicaPlace) -> dict[str, Any]:
    spec = group.spec
    return {
        "mode": spec.replication.mode.lower(),
        "controllers": list(place.controllers),
        "peerListen": place.peer_listen,
        "peers": {str(broker_id): address for broker_id, address in sorted(place.peers.items())},
        **({"leaderAddress": place.leader_address} if place.leader_address is not None else {}),
        "replicas": spec.replicas,
        "minInSync": spec.min_in_sync,
        "lagTimeout": f"{spec.replication.lag_timeout_ms}ms",
        "heartbeat": f"{spec.failover.heartbeat_interval_ms}ms",
        **({"learner": True} if place.learner else {}),
    }


def _guardian(place: GuardianPlace) -> dict[str, Any]:
    return {
        "relayListen": place.relay_listen,
        "peers": list(place.relays),
        "stopTime": f"{place.stop_seconds}s",
        **({"stateFile": place.state_file} if place.state_file is not None else {}),
    }
