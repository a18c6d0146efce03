"""The configuration under RocketMQ's names, as `mqadmin getBrokerConfig` prints it: what has a counterpart there."""

from logherd.service.identity import BrokerIdentity
from logherd.settings.hot import hot_properties
from logherd.settings.options import BrokerOptions
from logherd.settings.properties import describe_options

__all__ = ["shown_settings"]

# The service itself knows the present value of these, as of all hot settings.
_TOLD_ELSEWHERE = ("brokerClusterName", "brokerId", "brokerName")


def shown_settings(options: BrokerOptions, identity: BrokerIdentity) -> dict[str, object]:
    """Settings that are fixed while the broker runs."""
    host, _, port = identity.address.rpartition(":")
    names = options.name_service
    # A port that the system chose is not in the configuration; the admin port's status tells it.
    addresses = names.addresses if names.mode == "external" else (names.listen,) if names.listen.port else ()
    hot = hot_properties()
    shown: dict[str, object] = {
        name: value
        for name, value in describe_options(options).items()
        if name not in _TOLD_ELSEWHERE and name not in hot
    }
    return shown | {
        "brokerIP1": host,
        "listenPort": port,
        "namesrvAddr": ";".join(map(str, addresses)),
        "brokerRole": "ASYNC_MASTER",
    }
