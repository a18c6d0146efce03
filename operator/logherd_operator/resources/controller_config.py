"""The configuration file of one controller. Its keys are the controller's contract."""

from dataclasses import dataclass
from typing import Any

from logherd_operator.resources.broker_config import GuardianPlace, election_times
from logherd_operator.spec.group import BrokerGroup

__all__ = ["ControllerPlace", "Member", "render_controller_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One controller as the others know it; addresses are `host:port`."""

    name: str
    peer: str
    address: str
    admin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlace:
    """Where one controller stands, and all of them."""

    name: str
    members: tuple[Member, ...]
    listen: str
    peer_listen: str
    admin_listen: str
    name_service_listen: str
    data_dir: str
    admin_token_file: str | None = None
    guardian: GuardianPlace | None = None


def render_controller_config(group: BrokerGroup, place: ControllerPlace) -> dict[str, Any]:
    """The document that `logherd controller --config` reads."""
    spec = group.spec
    embedded = spec.name_service.mode == "Embedded"
    return {
        "clusterName": spec.cluster_name or group.metadata.name,
        "nodeName": place.name,
        "controllers": [
            {"name": each.name, "peer": each.peer, "address": each.address, "admin": each.admin}
            for each in place.members
        ],
        "listen": place.listen,
        "peerListen": place.peer_listen,
        "adminListen": place.admin_listen,
        **({"adminTokenFile": place.admin_token_file} if place.admin_token_file is not None else {}),
        "dataDir": place.data_dir,
        "nameService": {"mode": "embedded", "listen": place.name_service_listen} if embedded else {"mode": "none"},
        "leaseMs": f"{spec.failover.lease_ms}ms",
        "election": election_times(spec.failover.lease_ms),
        **({"guardian": _guardian(place.guardian)} if place.guardian is not None else {}),
    }


def _guardian(place: GuardianPlace) -> dict[str, Any]:
    return {"stopTime": f"{place.stop_seconds}s"}
