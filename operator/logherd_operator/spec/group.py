"""The BrokerGroup object. One place holds the API group and the kind.

The fields of `spec` come in three parts, which differ in who cares: what runs (the machine's side), how it replicates
(the data's side), how it is operated (the administrator's side). In a document they stand side by side.
"""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from logherd_operator.spec.access import Auth, NetworkPolicy, Tls
from logherd_operator.spec.base import DnsLabel, DnsName, Model, Named, ShortDnsLabel, StringMap, Whole
from logherd_operator.spec.changes import Advertised, Disruption, Monitoring, Spark, Update
from logherd_operator.spec.machine import Resources, Runtime, Storage
from logherd_operator.spec.pods import Placement, PodTemplate
from logherd_operator.spec.replication import Controllers, EmbeddedControllers, Failover, NameService, Replication

__all__ = [
    "API_GROUP", "API_VERSION", "FORBIDDEN_CONFIG", "FORBIDDEN_CONFIG_PREFIX", "GROUP_NAME_LENGTH_MAX", "KIND",
    "VERSION", "BrokerGroup", "BrokerGroupSpec", "Metadata",
]  # fmt: skip

API_GROUP = "logherd.dev"
VERSION = "v1alpha1"
API_VERSION = f"{API_GROUP}/{VERSION}"
GROUP_NAME_LENGTH_MAX = 40
KIND = "BrokerGroup"
# Owned by fields of the spec; two owners of one value would disagree.
FORBIDDEN_CONFIG = frozenset((
    "brokerName", "brokerId", "brokerClusterName", "brokerIP1", "brokerIP2", "listenPort", "haListenPort",
    "controllerAddr", "namesrvAddr", "enableControllerMode", "inSyncReplicas", "minInSyncReplicas",
    "allAckInSyncStateSet", "enableElectUncleanMaster", "asyncLearner", "brokerRole", "flushDiskType",
    "haMaxTimeSlaveNotCatchup",
))  # fmt: skip
FORBIDDEN_CONFIG_PREFIX = "storePath"


class RunningFields(Model):
    """What runs, and on what."""

    image: str | None = Field(default=None, min_length=1, description="Image of the brokers; none: the chart's.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the image is fetched."
    )
    image_pull_secrets: tuple[Named, ...] = Field(default=(), max_length=10, description="Secrets for fetching it.")
    storage: Storage = Field(default_factory=Storage, description="The volume of each broker.")
    resources: Resources = Field(default_factory=Resources, description="What each broker asks for.")
    runtime: Runtime = Field(default_factory=Runtime, description="How it uses that.")
    placement: Placement = Field(default_factory=Placement, description="On which nodes.")
    pod_template: PodTemplate = Field(default_factory=PodTemplate, description="What is added to each pod.")
    config: StringMap = Field(
        default_factory=dict, max_length=200, description="RocketMQ property names of the brokers, with values."
    )

    @field_validator("config")
    @classmethod
    def _config_is_free(cls, config: StringMap) -> StringMap:
        for name in config:
            if not (name.isascii() and name.isalnum() and name[0].isalpha()):
                raise ValueError(f"{name!r} is no property name; write letters and digits")
            if name in FORBIDDEN_CONFIG or name.startswith(FORBIDDEN_CONFIG_PREFIX):
                raise ValueError(f"{name} is owned by another field of the spec and cannot stand here")
        return config


class ReplicatingFields(Model):
    """How the data is replicated and found."""

    cluster_name: DnsLabel | None = Field(default=None, description="Cluster of the group; none: the group's name.")
    compatibility_level: Whole = Field(default=1, ge=1, le=1, description="Format level; it only rises.")
    replicas: Whole = Field(default=3, ge=1, le=7, description="Number of brokers.")
    replication: Replication = Field(default_factory=Replication, description="When a message is committed.")
    failover: Failover = Field(default_factory=Failover, description="How fast a lost leader is noticed.")
    controllers: Controllers = Field(
        default_factory=lambda: Controllers(embedded=EmbeddedControllers()), description="Who elects the leader."
    )
    name_service: NameService = Field(default_factory=NameService, description="Where clients ask for routes.")
    advertised: Advertised = Field(default_factory=Advertised, description="What clients are told.")
    cluster_domain: DnsName = Field(default="cluster.local", description="DNS domain of the Kubernetes cluster.")


class BrokerGroupSpec(RunningFields, ReplicatingFields):
    """What the user wants; this part adds how it is operated."""

    tls: Tls = Field(default_factory=Tls, description="Encryption.")
    auth: Auth = Field(default_factory=Auth, description="Authentication.")
    network_policy: NetworkPolicy = Field(default_factory=NetworkPolicy, description="Which pods may connect.")
    termination_grace_period_seconds: Whole = Field(default=120, ge=1, le=3600, description="Time to stop.")
    switchover_timeout_seconds: Whole = Field(default=30, ge=5, le=120, description="Time to hand over leadership.")
    disruption: Disruption = Field(default_factory=Disruption, description="Protection against evictions.")
    monitoring: Monitoring = Field(default_factory=Monitoring, description="Metrics.")
    update: Update = Field(default_factory=Update, description="Rolling updates.")
    reconcile: Literal["Full", "NoDisruption", "Off"] = Field(default="Full", description="What the operator may do.")
    spark: Spark = Field(default_factory=Spark, description="Spark on Kubernetes.")

    @property
    def by_controllers(self) -> bool:
        """Do controllers say who leads, who counts, and what the group's rules are? Else its brokers do."""
        return self.replication.mode == "Controller"

    @property
    def min_in_sync(self) -> int:
        """Fewest durable copies of a committed message."""
        return self.replication.min_in_sync_replicas or min(2, self.replicas)

    @model_validator(mode="after")
    def _parts_agree(self) -> "BrokerGroupSpec":
        if self.min_in_sync > self.replicas:
            raise ValueError(f"replication.minInSyncReplicas {self.min_in_sync} is above replicas {self.replicas}")
        roles = self.replication.static
        if roles is not None and max((roles.leader, *(roles.synchronous or ()))) > self.replicas:
            raise ValueError(f"replication.static names a broker above replicas, which is {self.replicas}")
        failover = self.failover
        # Of another group's controllers it is their lease that counts, which the operator looks at.
        own = self.by_controllers and self.controllers.ref is None
        if own and failover.lease_ms < 3 * failover.heartbeat_interval_ms:
            raise ValueError("failover.leaseMs should be at least 3 x failover.heartbeatIntervalMs")
        if self.termination_grace_period_seconds < self.switchover_timeout_seconds + 45:
            raise ValueError("terminationGracePeriodSeconds should be at least switchoverTimeoutSeconds + 45")
        if self.placement.ack_across_zones and (self.placement.zone_spread != "Required" or self.replicas < 3):
            raise ValueError("placement.ackAcrossZones needs zoneSpread Required and at least 3 replicas")
        return self


class Metadata(Model):
    """What Kubernetes calls the object. Only the name, the namespace and own marks are accepted here."""

    name: ShortDnsLabel = Field(description="Name of the group.")
    namespace: DnsLabel | None = Field(default=None, description="Namespace; local processes have none.")
    labels: StringMap = Field(default_factory=dict, description="Labels of the object.")
    annotations: StringMap = Field(default_factory=dict, description="Annotations of the object.")


class BrokerGroup(Model):
    """One replication group of brokers."""

    api_version: Literal["logherd.dev/v1alpha1"] = Field(description="Version of this format.")
    kind: Literal["BrokerGroup"] = Field(description="The kind of object.")
    metadata: Metadata = Field(description="Its name.")
    spec: BrokerGroupSpec = Field(default_factory=BrokerGroupSpec, description="What it should be.")

    @model_validator(mode="after")
    def _refers_to_another(self) -> "BrokerGroup":
        ref = self.spec.controllers.ref
        # In the other modes nobody needs them, and such a group runs well: what it names cannot be changed.
        if self.spec.by_controllers and ref is not None and ref.name == self.metadata.name:
            raise ValueError("spec.controllers.ref.name names this group itself, which has no controllers then")
        return self
