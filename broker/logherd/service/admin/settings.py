"""The settings of a broker under RocketMQ's names: what can be changed while it runs, and what is only told.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/BrokerConfig.java
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from logherd.model.topic import Permission
from logherd.service.identity import BrokerIdentity
from logherd.service.settings_table import Setting, SettingsTable, boolean, integer, one_of

__all__ = ["Permitted", "TopicCreation", "broker_settings"]

_HOUR_MS = 3_600_000
_HOURS_MAX = 24 * 365 * 10
PERMISSIONS = (0, Permission.WRITE, Permission.READ, Permission.READ_WRITE)


class Permitted(Protocol):
    """Whatever obeys the broker's own permission: the handlers of sends and pulls."""

    permission: int


class TopicCreation(Protocol):
    """Whatever creates topics when a message is sent."""

    auto_create: bool


class Retention(Protocol):
    """Whatever deletes messages by age; ms."""

    age_ms: int


class GroupCreation(Protocol):
    """Whatever creates groups that nobody has made."""

    auto_create_groups: bool


def broker_settings(
    identity: BrokerIdentity, *, permitted: tuple[Permitted, ...], creation: TopicCreation,
    groups: tuple[GroupCreation, ...], retention: Retention, on_permission: Callable[[int], None],
    fixed: Mapping[str, object],
) -> SettingsTable:  # fmt: skip
    """All settings of a broker.

    `groups` and `creation` obey the two settings of automatic creation, `retention` the hours that messages are kept.
    `permitted` obey `brokerPermission` at once, and `on_permission` hears the new value, to put it into routes. `fixed`
    are the settings of the configuration file by RocketMQ's names; they are told and cannot be changed here.
    """

    def permit(value: object) -> None:
        number = int(str(value))
        for obeying in permitted:
            obeying.permission = number
        on_permission(number)

    def create(value: object) -> None:
        creation.auto_create = bool(value)

    def create_groups(value: object) -> None:
        for obeying in groups:
            obeying.auto_create_groups = bool(value)

    def keep(value: object) -> None:
        retention.age_ms = int(str(value)) * _HOUR_MS

    own = {
        "brokerClusterName": identity.cluster, "brokerName": identity.name, "brokerId": identity.broker_id, **fixed,
    }  # fmt: skip
    return SettingsTable(
        [
            *(Setting(name, _reader(value)) for name, value in own.items()),
            Setting("brokerPermission", lambda: permitted[0].permission, one_of(*map(str, PERMISSIONS)), permit),
            Setting("autoCreateTopicEnable", lambda: creation.auto_create, boolean(), create),
            Setting("autoCreateSubscriptionGroup", lambda: groups[0].auto_create_groups, boolean(), create_groups),
            Setting("fileReservedTime", lambda: retention.age_ms // _HOUR_MS, integer(1, _HOURS_MAX), keep),
        ]
    )


def _reader(value: object) -> Callable[[], object]:
    return lambda: value
