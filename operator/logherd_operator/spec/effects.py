"""What a change of a field of the spec does to what runs. The planner and the documentation go by this one table.

A field that stands nowhere here costs a rolling restart: a new field is safe before anybody has thought about it.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["CONFIG_LIVE", "MEMBERS", "Effect", "effect_of"]


class Effect(StrEnum):
    """How another value of a field comes into force."""

    LIVE = "live"
    """Told to running brokers or controllers; nothing is restarted."""
    RESTART = "restart"
    """Brokers or controllers are restarted one after the other, the leader last, after another one leads."""
    BY_KEY = "by key"
    """`live` for the keys that running brokers take, `restart` for the others."""
    STEPS = "steps"
    """In steps of its own: members are added or taken away, volumes grow."""
    NEXT = "next restart"
    """Nothing is restarted for it; it comes with the next restart."""
    NONE = "at once"
    """No broker is concerned."""
    FIXED = "never"
    """It cannot be changed."""


CONFIG_LIVE: Final = MappingProxyType({
    "autoCreateSubscriptionGroup": "true",
    "autoCreateTopicEnable": "true",
    "diskMaxUsedSpaceRatio": None,
    "fileReservedTime": "72",
    "flushIntervalCommitLog": "500",
})  # fmt: skip
"""Keys of `config` that a running broker takes, and what holds where a key is not given; None: another field says it.
All other keys need a restart."""

MEMBERS: Final = "replication.raft.members"
"""Of a broker in mode Raft: who belongs to the group, as its leader has it. A running one takes another value."""

_LIVE = (
    "failover.heartbeatIntervalMs", "replication.lagTimeoutMs", "replication.minInSyncReplicas",
    "storage.reservedPercent",
)  # fmt: skip
_STEPS = ("replicas", "storage.size", "controllers.embedded.storage.size")
_NEXT = (
    "imagePullPolicy", "imagePullSecrets", "placement.hostSpread", "placement.zoneSpread", "podTemplate.annotations",
    "podTemplate.labels", "terminationGracePeriodSeconds",
)  # fmt: skip
_NONE = (
    "disruption.", "networkPolicy.", "reconcile", "spark.", "storage.retention.", "switchoverTimeoutSeconds", "update.",
)  # fmt: skip
_FIXED = (
    "clusterDomain", "clusterName", "controllers.embedded.replicas", "controllers.ref.", "replication.mode",
    "replication.static.", "storage.storageClassName",
)  # fmt: skip


def effect_of(path: str) -> Effect:
    """Of a field, by its path below `spec`."""
    if path == "config":
        return Effect.BY_KEY
    for effect, fields in (
        (Effect.LIVE, _LIVE), (Effect.STEPS, _STEPS), (Effect.NEXT, _NEXT), (Effect.NONE, _NONE),
        (Effect.FIXED, _FIXED),
    ):  # fmt: skip
        if any(path == each or (each.endswith(".") and path.startswith(each)) for each in fields):
            return effect
    return Effect.RESTART
