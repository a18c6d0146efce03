"""The configuration file of one broker. The keys are the broker's contract; the broker itself checks the values."""

from dataclasses import dataclass
from typing import Any

from logherd_operator.spec.group import BrokerGroup

__all__ = ["BrokerPlace", "render_broker_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlace:
    """Where one broker stands: what the spec cannot know. Addresses are `host:port`."""

    broker_id: int
    listen: str
    admin_listen: str
    name_service_listen: str
    data_dir: str


def render_broker_config(group: BrokerGroup, place: BrokerPlace) -> dict[str, Any]:
    """The document that `logherd broker --config` reads."""
    spec = group.spec
    external = spec.name_service.mode == "External"
    return {
        "brokerGroup": group.metadata.name,
        "clusterName": spec.cluster_name or group.metadata.name,
        "brokerId": place.broker_id,
        "listen": place.listen,
        "adminListen": place.admin_listen,
        "dataDir": place.data_dir,
        "nameService": {
            "mode": spec.name_service.mode.lower(),
            **({"addresses": list(spec.name_service.addresses)} if external else {"listen": place.name_service_listen}),
        },
        "flush": spec.replication.flush.lower(),
        "store": {"reservedPercent": spec.storage.reserved_percent},
        "properties": dict(spec.config),
    }
