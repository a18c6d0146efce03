"""How this name service behaves, under RocketMQ's names: what `mqadmin getNamesrvConfig` prints.

Nothing of it can be changed while it runs. There has to be something: stock tools fail at an answer that lists nothing.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/namesrv/NamesrvConfig.java
"""

from functools import partial

from logherd.service.settings_table import Setting, SettingsTable

__all__ = ["names_settings"]


def names_settings(*, grace_ms: int, expiry_interval_ms: int) -> SettingsTable:
    """`grace_ms`: how long after a start an unknown topic may be one of a leader that has yet to register;
    `expiry_interval_ms`: how often brokers that fell silent are looked for."""
    told: dict[str, object] = {
        "clusterTest": False,
        "enableAllTopicList": True,
        "enableTopicList": True,
        "needWaitForService": True,
        "notifyMinBrokerIdChanged": False,
        "orderMessageEnable": False,
        "returnOrderTopicConfigToBroker": True,
        "scanNotActiveBrokerInterval": expiry_interval_ms,
        "supportActingMaster": False,
        "waitSecondsForService": grace_ms // 1000,
    }
    return SettingsTable(Setting(name, partial(told.__getitem__, name)) for name in told)
