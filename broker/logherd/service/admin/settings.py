"""The settings of a broker under RocketMQ's names: what can be changed while it runs, and what is only told.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/BrokerConfig.java
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from logherd.model.topic import Permission
from logherd.service.identity import BrokerIdentity
from logherd.service.settings_table import Setting, SettingsTable, one_of

__all__ = ["Permitted", "broker_settings"]

PERMISSIONS = (0, Permission.WRITE, Permission.READ, Permission.READ_WRITE)


class Permitted(Protocol):
    """Whatever obeys the broker's own permission: the handlers of sends and pulls."""

    permission: int


def broker_settings(
    identity: BrokerIdentity, *, permitted: tuple[Permitted, ...], on_permission: Callable[[int], None],
    fixed: Mapping[str, object], configured: Callable[[], Mapping[str, str]],
) -> SettingsTable:  # fmt: skip
    """All settings of a broker.

    `permitted` obey `brokerPermission` at once, and `on_permission` hears the new value, to put it into routes. `fixed`
    are the settings of the configuration file by RocketMQ's names; they are told and cannot be changed here.
    `configured` are those of them that can, as they are now.
    """

    def permit(value: object) -> None:
        number = int(str(value))
        for obeying in permitted:
            obeying.permission = number
        on_permission(number)

    own = {
        "brokerClusterName": identity.cluster, "brokerName": identity.name, "brokerId": identity.broker_id, **fixed,
    }  # fmt: skip
    return SettingsTable(
        [
            *(Setting(name, _reader(value)) for name, value in own.items()),
            *(Setting(name, _current(configured, name), configured=True) for name in configured()),
            Setting("brokerPermission", lambda: permitted[0].permission, one_of(*map(str, PERMISSIONS)), permit),
        ]
    )


def _current(values: Callable[[], Mapping[str, str]], name: str) -> Callable[[], object]:
    return lambda: values()[name]


def _reader(value: object) -> Callable[[], object]:
    return lambda: value
