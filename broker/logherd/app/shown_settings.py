"""The configuration under RocketMQ's names, as `mqadmin getBrokerConfig` prints it: what has a counterpart there."""

from logherd.service.identity import BrokerIdentity
from logherd.settings.options import BrokerOptions
from logherd.settings.properties import describe_options

__all__ = ["shown_settings"]

# The service itself knows the present value of these.
_TOLD_ELSEWHERE = (
    "autoCreateSubscriptionGroup", "autoCreateTopicEnable", "brokerClusterName", "brokerId", "brokerName",
    "fileReservedTime",
)  # fmt: skip


def shown_settings(options: BrokerOptions, identity: BrokerIdentity) -> dict[str, object]:
    """Settings that are fixed while the broker runs."""
    host, _, port = identity.address.rpartition(":")
    names = options.name_service
    # A port that the system chose is not in the configuration; the admin port's status tells it.
    addresses = names.addresses if names.mode == "external" else (names.listen,) if names.listen.port else ()
    shown: dict[str, object] = {
        name: value for name, value in describe_options(options).items() if name not in _TOLD_ELSEWHERE
    }
    return shown | {
        "brokerIP1": host,
        "listenPort": port,
        "namesrvAddr": ";".join(map(str, addresses)),
        "brokerRole": "ASYNC_MASTER",
    }
