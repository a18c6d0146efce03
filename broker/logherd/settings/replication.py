"""The group of the broker's configuration that makes it one of several replicas."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from logherd.settings.base import Group
from logherd.settings.classic import ClassicHaSettings
from logherd.settings.quantities import EndpointText, Milliseconds, split_endpoint

__all__ = ["ReplicationSettings"]

_MS_LAG_MIN = 400


def _check_real_port(text: str) -> str:
    if split_endpoint(text)[1] == 0:
        raise ValueError("needs a real port, because others connect to it")
    return text


_Dialled = Annotated[EndpointText, AfterValidator(_check_real_port)]


class ReplicationSettings(Group):
    """One log on several brokers. Followers keep what the leader writes; whoever leads is decided by `mode`."""

    mode: Literal["alone", "controller"] = Field(
        default="alone",
        description="`alone`: this broker is its whole group and always leads. `controller`: the controllers elect the "
        "leader from the in-sync set.",
    )
    controllers: tuple[_Dialled, ...] = Field(
        default=(), max_length=5, description="Addresses (`listen`) of the controllers that elect this group's leader."
    )
    peer_listen: EndpointText = Field(
        default="127.0.0.1:10912", description="Address for the other replicas of the group."
    )
    peers: Annotated[
        dict[Annotated[int, Field(ge=1, le=999)], _Dialled],
        PlainSerializer(
            lambda peers: {str(key): dict(zip(("host", "port"), split_endpoint(each), strict=True))
                           for key, each in peers.items()}
        ),
    ] = Field(
        default_factory=dict, max_length=16,
        description="Where each replica's `peerListen` is reached, by broker id. This broker's own may be among them; "
        "those that do not run yet, too.",
    )  # fmt: skip
    leader_address: _Dialled | None = Field(
        default=None,
        description="Address that routes tell clients while this broker leads, and that its records carry: one that "
        "follows the leader, as a Kubernetes Service. None: `advertised`. Replicas and controllers never use it.",
    )
    replicas: int = Field(default=3, ge=1, le=16, description="Replicas of a new group; later the controllers know.")
    min_in_sync: int = Field(
        default=2,
        ge=1,
        le=16,
        description="A send is answered when every member of the in-sync set has it on disk, and those are at least "
        "this many. 1 keeps answering when all followers are gone; what is then answered is on one disk only.",
    )
    lag_timeout_ms: Milliseconds = Field(
        default=1500, alias="lagTimeout", ge=_MS_LAG_MIN, le=60_000,
        description="A follower that has not been in step for so long leaves the in-sync set.",
    )  # fmt: skip
    heartbeat_ms: Milliseconds = Field(
        default=500, alias="heartbeat", ge=100, le=10_000, description="How often the controllers hear of this broker."
    )
    learner: bool = Field(default=False, description="Follow without ever joining the in-sync set or leading.")
    priority: int = Field(
        default=0, ge=0, le=999, description="Of equally long logs the one with the smallest number leads."
    )

    classic_ha: ClassicHaSettings = Field(
        default_factory=ClassicHaSettings,
        description="RocketMQ brokers that follow this one, or that this one follows.",
    )

    @model_validator(mode="after")
    def _fits_mode(self) -> "ReplicationSettings":
        if (self.mode == "alone") == bool(self.controllers):
            right = "no controllers" if self.mode == "alone" else "the addresses of the controllers"
            raise ValueError(f"mode {self.mode} needs {right}")
        if self.min_in_sync > self.replicas:
            raise ValueError(f"minInSync {self.min_in_sync} must not exceed replicas {self.replicas}")
        return self

    def check_broker(self, broker_id: int, name_service: str) -> None:
        """What the broker's own settings must be like. Raises ValueError."""
        if self.mode == "alone":
            if self.leader_address is not None:
                raise ValueError("replication.leaderAddress is for a replicated group; a broker alone has `advertised`")
            if broker_id != 0:
                raise ValueError(f"brokerId {broker_id} is for a replicated group; with replication.mode alone it is 0")
            return
        if broker_id == 0:
            raise ValueError(f"brokerId must be at least 1 with replication.mode {self.mode}")
        if name_service == "embedded":
            raise ValueError(
                "nameService.mode must be external with a replicated group: the controllers have the name service"
            )
