"""How the group replicates, elects and is found."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from logherd_operator.spec.base import NO_FLAG, DnsLabel, Endpoint, Model, Whole
from logherd_operator.spec.machine import ControllerStorage, ResourceList, Resources

__all__ = ["ControllerRef", "Controllers", "EmbeddedControllers", "Failover", "NameService", "Replication", "Roles"]

_CONTROLLER_RESOURCES = Resources(
    requests=ResourceList(cpu="250m", memory="512Mi"), limits=ResourceList(memory="512Mi")
)


_BrokerId = Annotated[int, Field(ge=1, le=7), NO_FLAG]


class Roles(Model):
    """With which roles a group in mode Static begins; later ones are given by promotion."""

    leader: _BrokerId = Field(default=1, description="The broker that leads.")
    synchronous: tuple[_BrokerId, ...] | None = Field(
        default=None, max_length=6, description="Followers that a send waits for; none given: all with which it begins."
    )
    copies: Annotated[int | None, NO_FLAG] = Field(
        default=None, ge=1, le=7, description="Disks that hold a message before it is answered; none: all of them."
    )

    @model_validator(mode="after")
    def _fit(self) -> "Roles":
        names = self.synchronous
        if names is not None and (self.leader in names or len({*names}) < len(names)):
            raise ValueError("synchronous names followers, each once; the leader is none of them")
        if self.copies is None:
            return self
        if names is None:
            raise ValueError("copies needs synchronous")
        if not min(2, len(names) + 1) <= self.copies <= len(names) + 1:
            raise ValueError("copies is from 2 to one more than synchronous has")
        return self


class Replication(Model):
    """When a message is committed."""

    mode: Literal["Controller", "Raft", "Static"] = Field(
        default="Controller",
        description="Who makes a leader: the controllers; the brokers, by votes; you, by hand. It stays.",
    )
    static: Roles | None = Field(default=None, description="Mode Static: the roles at the group's begin. They stay.")
    min_in_sync_replicas: Annotated[int | None, NO_FLAG] = Field(
        default=None, ge=1, le=7,
        description="Mode Controller: fewest durable copies of a committed message; none: min(2, replicas).",
    )  # fmt: skip
    flush: Literal["Sync", "Async"] = Field(
        default="Sync", description="Async: a crash of the machine may lose answered messages."
    )
    lag_timeout_ms: Whole = Field(
        default=1500, ge=400, le=60_000, description="Silence after which a follower leaves the set."
    )
    unclean_election: bool = Field(
        default=False, description="Not yet: true is refused. May a replica lead that lacks committed messages?"
    )

    @model_validator(mode="after")
    def _fits_mode(self) -> "Replication":
        if self.static is not None and self.mode != "Static":
            raise ValueError("static is for mode Static")
        if self.mode != "Controller" and self.min_in_sync_replicas is not None:
            raise ValueError("minInSyncReplicas is for mode Controller")
        if self.mode == "Raft" and self.flush != "Sync":
            raise ValueError("mode Raft needs flush Sync, because a vote rests on what is on disk")
        return self


class Failover(Model):
    """How fast a lost leader is noticed."""

    heartbeat_interval_ms: Whole = Field(default=1000, ge=200, le=5000, description="Time between a leader's renewals.")
    lease_ms: Whole = Field(
        default=3000, ge=600, le=60_000,
        description="Time for which one renewal allows to lead; with controllers.ref that of the other group counts.",
    )  # fmt: skip


class EmbeddedControllers(Model):
    """Controllers that belong to this group."""

    replicas: Annotated[Literal[1, 3, 5], NO_FLAG] = Field(
        default=3, description="Number of controllers; a majority must live."
    )
    resources: Resources = Field(default=_CONTROLLER_RESOURCES, description="What each controller asks for.")
    storage: ControllerStorage = Field(default_factory=ControllerStorage, description="The volume of each.")


class ControllerRef(Model):
    """Controllers of another group in the same namespace."""

    name: DnsLabel = Field(description="Name of the other BrokerGroup.")


class Controllers(Model):
    """Exactly one of the two."""

    embedded: EmbeddedControllers | None = Field(default=None, description="Own controllers.")
    ref: ControllerRef | None = Field(default=None, description="Another group's controllers.")

    @model_validator(mode="after")
    def _exactly_one(self) -> "Controllers":
        if (self.embedded is None) == (self.ref is None):
            raise ValueError("exactly one of embedded and ref should be given")
        return self


class NameService(Model):
    """Where clients ask for routes."""

    mode: Literal["Embedded", "External"] = Field(default="Embedded", description="External needs addresses.")
    addresses: tuple[Endpoint, ...] = Field(
        default=(), max_length=16, description="host:port of external name servers."
    )

    @model_validator(mode="after")
    def _addresses_fit_mode(self) -> "NameService":
        if (self.mode == "External") != bool(self.addresses):
            right = "at least one address" if self.mode == "External" else "no addresses"
            raise ValueError(f"mode {self.mode} needs {right}")
        return self
