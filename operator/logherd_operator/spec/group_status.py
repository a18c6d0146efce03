"""The status of a BrokerGroup: what the operator last saw. A cache for people and tools; nothing is decided from it but
how long something has been so (`since`), and losing that only makes the operator wait longer.
"""

from typing import Literal

from pydantic import Field

from logherd_operator.spec.base import Model, StringMap

__all__ = [
    "BlockedStatus", "BrokerGroupStatus", "BrokerStatus", "Condition", "ControllersStatus", "EndpointsStatus",
    "LeaderStatus", "OperationStatus", "SwitchoverStatus", "TemplateStatus", "VersionsStatus",
]  # fmt: skip


class Condition(Model):
    """Kubernetes' standard shape."""

    type: str = Field(max_length=316, description="What is said.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it is so.")
    reason: str = Field(max_length=1024, description="One word for programs.")
    message: str = Field(max_length=32_768, description="A sentence for people.")
    last_transition_time: str = Field(description="When status changed last.")
    observed_generation: int = Field(ge=0, description="Of which spec this speaks.")


class LeaderStatus(Model):
    """Who leads."""

    pod: str = Field(description="Its pod.")
    broker_id: int = Field(description="Its number.")
    epoch: int = Field(description="Of its leadership.")
    address: str = Field(description="Where it takes requests.")
    since: str = Field(description="When it was first seen to lead.")


class ControllersStatus(Model):
    """The quorum."""

    replicas: int = Field(description="Controllers wanted.")
    ready_replicas: int = Field(description="Controllers that are ready.")
    leader: str | None = Field(default=None, description="Which of them leads.")
    quorate: bool = Field(description="Whether a majority answers.")


class BrokerPlaceStatus(Model):
    """Where a broker stands."""

    pod: str = Field(description="Its pod.")
    node: str | None = Field(default=None, description="Its node.")
    zone: str | None = Field(default=None, description="Its zone.")
    pvc: str | None = Field(default=None, description="Its volume claim.")
    capacity: str | None = Field(default=None, description="Size of the volume.")


class BrokerStatus(BrokerPlaceStatus):
    """One broker."""

    broker_id: int = Field(description="Its number.")
    store_id: str | None = Field(default=None, description="What its volume drew when it was formatted.")
    role: Literal["Leader", "Follower", "Learner", "Unknown"] = Field(description="What it is in the group.")
    in_sync: bool = Field(description="Whether it holds everything that is committed.")
    lag: Literal["None", "Low", "High", "Unknown"] = Field(description="How far it is behind.")
    ready: bool = Field(description="Whether its pod is ready.")
    revision: str | None = Field(default=None, description="What its pod was made from.")
    reason: str | None = Field(default=None, description="What is wrong with it.")


class TemplateStatus(Model):
    """The pinned pod template."""

    rendered_by: str = Field(description="Version of the operator that rendered it.")
    roll_hash: str = Field(description="Of everything that needs a restart.")
    newer_available: bool = Field(description="Whether this operator would render another.")


class OperationStatus(Model):
    """What is under way; at most one."""

    type: Literal["Provision", "Update", "ScaleUp", "ScaleDown", "Switchover", "Grow", "Repair", "Configure"] = Field(
        description="What."
    )
    state: str = Field(description="Its state.")
    pod: str | None = Field(default=None, description="Whom it is about.")
    started_at: str | None = Field(default=None, description="When it began, whatever its state was then.")
    state_since: str = Field(description="Since when it is in this state, with this pod.")
    message: str = Field(max_length=4096, description="Why.")


class BlockedStatus(Model):
    """Something that was asked for and is not done."""

    code: str = Field(description="One word for programs.")
    message: str = Field(max_length=4096, description="Why not.")
    since: str = Field(description="Since when.")
    unblocks: str = Field(max_length=4096, description="What would let it go on.")


class ConfigStatus(Model):
    """The brokers' settings."""

    hash: str = Field(description="Of the rendered settings.")
    pending_restart: tuple[str, ...] = Field(default=(), description="Keys that wait for a restart.")
    rejected: tuple[str, ...] = Field(default=(), description="Keys that a broker refused.")


class SwitchoverStatus(Model):
    """The last change of the leader."""

    request_id: str = Field(description="Of the order, if there was one.")
    from_: int | None = Field(default=None, alias="from", description="Who led.")
    to: int = Field(description="Who leads.")
    reason: str = Field(description="Why.")
    epoch: int = Field(description="Of the new leadership.")
    at: str = Field(description="When it was seen.")


class EndpointsStatus(Model):
    """Where clients connect."""

    bootstrap: str = Field(description="The name service.")
    leader: str | None = Field(default=None, description="The leading broker; none where routes name the brokers.")


class VersionsStatus(Model):
    """What runs."""

    operator: str = Field(description="Version of the operator.")
    image: str | None = Field(default=None, description="Image of the brokers.")
    broker: str | None = Field(default=None, description="Version that the brokers say.")
    compatibility_level: int = Field(description="Format level in force.")


class CountFields(Model):
    """Counts, and what the scale subresource reads."""

    cluster_id: str | None = Field(default=None, description="Drawn when the group was first made.")
    observed_generation: int = Field(default=0, description="Generation of the spec that this was computed from.")
    phase: Literal[
        "Pending", "Provisioning", "Running", "Updating", "Scaling", "Switching", "Degraded", "Blocked", "Paused"
    ] = Field(default="Pending", description="For display only.")
    replicas: int = Field(default=0, description="Brokers that exist.")
    ready_replicas: int = Field(default=0, description="Brokers that are ready.")
    in_sync_replicas: int = Field(default=0, description="Brokers that hold everything that is committed.")
    updated_replicas: int = Field(default=0, description="Brokers made from the wanted revision.")
    in_sync: str = Field(default="", description="In sync of wanted, for display.")
    selector: str = Field(default="", description="Label selector of the brokers.")
    disruptions_allowed: int = Field(default=0, description="Brokers that may be taken away now.")
    disruptions_reason: str = Field(default="", description="Why so many.")


class BrokerGroupStatus(CountFields):
    """What the operator last saw of the group."""

    leader: LeaderStatus | None = Field(default=None, description="Who leads.")
    controllers: ControllersStatus | None = Field(default=None, description="The quorum.")
    brokers: tuple[BrokerStatus, ...] = Field(default=(), max_length=16, description="Each broker.")
    template: TemplateStatus | None = Field(default=None, description="The pinned pod template.")
    operation: OperationStatus | None = Field(default=None, description="What is under way.")
    blocked: tuple[BlockedStatus, ...] = Field(default=(), max_length=32, description="What waits for somebody.")
    config: ConfigStatus | None = Field(default=None, description="The brokers' settings.")
    last_switchover: SwitchoverStatus | None = Field(default=None, description="The last change of the leader.")
    endpoints: EndpointsStatus | None = Field(default=None, description="Where clients connect.")
    versions: VersionsStatus | None = Field(default=None, description="What runs.")
    since: StringMap = Field(default_factory=dict, max_length=200, description="When what is so was first seen.")
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16, description="Standard conditions.")
