"""The configuration file of one broker. The keys are the broker's contract; the broker itself checks the values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logherd_operator.spec.effects import CONFIG_LIVE
from logherd_operator.spec.group import BrokerGroup, BrokerGroupSpec
from logherd_operator.spec.replication import Roles

__all__ = [
    "BrokerPlace", "GuardianPlace", "ReplicaPlace", "election_times", "hot_settings", "render_broker_config",
    "without_hot_settings",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """What makes a broker one of several: addresses are `host:port`. `peers` names all replicas by broker id, also
    those that do not run yet, so that nobody has to be told when they do. `leader_address` follows the leader.
    `founders`: with so many brokers the group began; `brokers`: so many there are. Both are for modes without
    controllers; None: as the spec says.
    """

    controllers: tuple[str, ...]
    name_servers: tuple[str, ...]
    peer_listen: str
    peers: Mapping[int, str]
    leader_address: str | None = None
    learner: bool = False
    founders: int | None = None
    brokers: int | None = None


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
    mode, heartbeat = spec.replication.mode, f"{spec.failover.heartbeat_interval_ms}ms"
    return {
        **({"replication.heartbeat": heartbeat} if mode == "Controller" else {}),
        **({"replication.lagTimeout": f"{spec.replication.lag_timeout_ms}ms"} if mode != "Raft" else {}),
        **({"store.reservedPercent": str(spec.storage.reserved_percent)} if ratio is None else {}),
        **{name: _plain(value) for name, value in keys.items() if value is not None},
    }


def without_hot_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Of a broker's document, what a restart is needed for."""
    replication, store, properties = (document.get(each, {}) for each in ("replication", "store", "properties"))
    kept = {key: each for key, each in replication.items() if key not in ("heartbeat", "lagTimeout")}
    if "raft" in kept:
        kept["raft"] = {key: each for key, each in kept["raft"].items() if key != "members"}
    return {
        **document,
        "replication": kept,
        "store": {key: each for key, each in store.items() if key != "reservedPercent"},
        "properties": {key: each for key, each in properties.items() if key not in CONFIG_LIVE},
    }


def _plain(value: str) -> str:
    """As the broker tells it: 72 for 072 and for +72. What it cannot read it refuses."""
    text = value.strip()
    try:
        return str(int(text))
    except ValueError:
        return text


def _name_service(group: BrokerGroup, place: BrokerPlace) -> dict[str, Any]:
    wanted = group.spec.name_service
    if wanted.mode == "External":
        return {"mode": "external", "addresses": list(wanted.addresses)}
    if place.replica is not None:
        return {"mode": "external", "addresses": list(place.replica.name_servers)}
    return {"mode": "embedded", "listen": place.name_service_listen}


def _replication(group: BrokerGroup, place: ReplicaPlace) -> dict[str, Any]:
    spec, mode = group.spec, group.spec.replication.mode
    peers = {
        "peerListen": place.peer_listen,
        "peers": {str(broker_id): address for broker_id, address in sorted(place.peers.items())},
    }
    founders = place.founders or spec.replicas
    if mode == "Raft":
        raft = {
            "founders": [n + 1 for n in range(founders)],
            "members": [n + 1 for n in range(place.brokers or spec.replicas)],
            "election": election_times(spec.failover.lease_ms),
        }
        return {"mode": "raft", **peers, "replicas": founders, "raft": raft}
    if mode == "Static":
        return {
            "mode": "static", "controllers": list(place.controllers), **peers, "static": _roles(spec, founders),
            "lagTimeout": f"{spec.replication.lag_timeout_ms}ms",
        }  # fmt: skip
    return {
        "mode": "controller",
        "controllers": list(place.controllers),
        **peers,
        **({"leaderAddress": place.leader_address} if place.leader_address is not None else {}),
        "replicas": spec.replicas,
        "minInSync": spec.min_in_sync,
        "lagTimeout": f"{spec.replication.lag_timeout_ms}ms",
        "heartbeat": f"{spec.failover.heartbeat_interval_ms}ms",
        **({"learner": True} if place.learner else {}),
    }


def _roles(spec: BrokerGroupSpec, founders: int) -> dict[str, Any]:
    """The first table of roles. Unless the spec says otherwise, all others are awaited, so that nothing is lost."""
    roles = spec.replication.static or Roles()
    others = [n + 1 for n in range(founders) if n + 1 != roles.leader]
    synchronous = others if roles.synchronous is None else list(roles.synchronous)
    copies = {} if roles.copies is None else {"copies": roles.copies}
    return {"leader": roles.leader, "synchronous": synchronous, **copies}


def election_times(lease_ms: int) -> dict[str, str]:
    """Of those who vote: another one leads before a lease could run out unrenewed, at most two thirds of it."""
    third = lease_ms // 3
    return {"timeoutMs": f"{third}ms", "spreadMs": f"{third}ms", "heartbeatMs": f"{max(10, lease_ms // 20)}ms"}


def _guardian(place: GuardianPlace) -> dict[str, Any]:
    return {
        "relayListen": place.relay_listen,
        "peers": list(place.relays),
        "stopTime": f"{place.stop_seconds}s",
        **({"stateFile": place.state_file} if place.state_file is not None else {}),
    }
