"""The group of the broker's configuration that makes it one of several replicas."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from logherd.settings.base import Group
from logherd.settings.classic import ClassicHaSettings
from logherd.settings.election import ElectionSettings
from logherd.settings.quantities import Bytes, EndpointText, Milliseconds, Whole, split_endpoint

__all__ = ["ReplicationSettings", "RolesSettings", "VotingSettings"]

_MS_LAG_MIN = 400


def _check_real_port(text: str) -> str:
    if split_endpoint(text)[1] == 0:
        raise ValueError("needs a real port, because others connect to it")
    return text


_Dialled = Annotated[EndpointText, AfterValidator(_check_real_port)]


_BrokerId = Annotated[Whole, Field(ge=1, le=999)]


def _listed(value: object) -> object:
    """`1,2,3` as well as a list: so it is told, and can be sent back."""
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


class VotingSettings(Group):
    """Mode raft."""

    founders: tuple[_BrokerId, ...] = Field(
        default=(),
        max_length=16,
        description="Brokers that vote from the group's first start on; the same at all of them, and never changed. "
        "Who is added to `peers` later joins them. Empty: all of `peers`.",
    )
    members: Annotated[tuple[_BrokerId, ...], BeforeValidator(_listed)] = Field(
        default=(),
        max_length=16,
        description="Brokers that belong to the group, as its leader has it: who is added gets a vote once it has "
        "everything, who is left out loses it. The others of `peers` are only known. Empty: all of `peers`. A running "
        "broker is told `1,2,3`.",
    )
    election: ElectionSettings = Field(
        default_factory=ElectionSettings, description="How soon another broker leads; the same at all of them."
    )


class RolesSettings(Group):
    """Mode static: the roles with which the group begins. Later ones are given by `logherd replica promote`."""

    leader: _BrokerId = Field(description="The broker that leads.")
    synchronous: tuple[_BrokerId, ...] = Field(
        default=(), max_length=15, description="Followers that a send waits for. The others copy without being awaited."
    )
    copies: Whole | None = Field(
        default=None,
        ge=1,
        le=16,
        description="On so many disks a message is before its send is answered: the leader's, and those of so many "
        "less one of `synchronous`. None: on all of them, so that each of these can be promoted without loss.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "RolesSettings":
        most = len(self.synchronous) + 1
        if self.leader in self.synchronous or len({*self.synchronous}) + 1 < most:
            raise ValueError("synchronous names followers, each once; the leader is none of them")
        if self.copies is None:
            return self.model_copy(update={"copies": most})
        if not min(2, most) <= self.copies <= most:
            raise ValueError(
                f"copies is {self.copies}; with so many synchronous followers write {min(2, most)} to {most}"
            )
        return self


class FollowerReadSettings(Group):
    """What followers do besides keeping a copy."""

    follower_reads: bool = Field(
        default=False,
        description="A follower answers pulls of committed messages itself, as long as the leader has confirmed within "
        "half a second that nothing newer was told to anybody; everything else goes to the leader as always. It is in "
        "routes then, and consumers that are far behind are sent to it. To be the same at all brokers of a group.",
    )
    follower_reads_behind: Bytes = Field(
        default=64 << 20,
        ge=0,
        description="A consumer whose next message lies so far before the end of the log is sent to a follower.",
    )


class ReplicationSettings(FollowerReadSettings):
    """One log on several brokers. Followers keep what the leader writes; whoever leads is decided by `mode`."""

    mode: Literal["alone", "controller", "raft", "static"] = Field(
        default="alone",
        description="`alone`: this broker is its whole group and always leads. `controller`: the controllers elect the "
        "leader from the in-sync set. `raft`: the group's brokers elect it among themselves. `static`: `static` says "
        "who leads, until somebody is promoted by hand. A group keeps its mode for good.",
    )
    controllers: tuple[_Dialled, ...] = Field(
        default=(),
        max_length=5,
        description="Addresses (`listen`) of the controllers that elect this group's leader; in mode static they only "
        "record who was promoted by hand. Not used in mode raft.",
    )
    peer_listen: EndpointText = Field(
        default="127.0.0.1:10912", description="Address for the other replicas of the group."
    )
    peers: Annotated[
        dict[_BrokerId, _Dialled],
        PlainSerializer(
            lambda peers: {str(key): dict(zip(("host", "port"), split_endpoint(each), strict=True))
                           for key, each in peers.items()}
        ),
    ] = Field(
        default_factory=dict, max_length=16,
        description="Where each replica's `peerListen` is reached, by broker id. This broker's own may be among them; "
        "those that do not run yet, too. In mode raft and static it holds all of them; in mode raft whoever is not in "
        "it, or not in `raft.members`, loses its vote.",
    )  # fmt: skip
    leader_address: _Dialled | None = Field(
        default=None,
        description="Address that routes tell clients while this broker leads, and that its records carry: one that "
        "follows the leader, as a Kubernetes Service. None: `advertised`. Replicas and controllers never use it. In "
        "mode controller whoever keeps it tells the leading controller to which epoch's leader it leads (POST "
        "`/groups/{cluster}/{name}/endpoint`); where nobody has said so for a lease, routes tell `advertised`.",
    )
    replicas: Whole = Field(default=3, ge=1, le=16, description="Replicas of a new group; later the controllers know.")
    min_in_sync: Whole = Field(
        default=2,
        ge=1,
        le=16,
        description="A send is answered when every member of the in-sync set has it on disk, and those are at least "
        "this many. 1 keeps answering when all followers are gone; what is then answered is on one disk only. Mode "
        "raft asks for a majority instead, mode static for `static.copies`.",
    )
    lag_timeout_ms: Milliseconds = Field(
        default=1500, alias="lagTimeout", ge=_MS_LAG_MIN, le=60_000,
        description="A follower that has not been in step for so long leaves the in-sync set.",
    )  # fmt: skip
    heartbeat_ms: Milliseconds = Field(
        default=500, alias="heartbeat", ge=100, le=10_000,
        description="How often the controllers hear of this broker; of a leader three times in a lease at least.",
    )  # fmt: skip
    learner: bool = Field(default=False, description="Follow without ever joining the in-sync set or leading.")
    priority: Whole = Field(
        default=0, ge=0, le=999, description="Of equally long logs the one with the smallest number leads."
    )

    classic_ha: ClassicHaSettings = Field(
        default_factory=ClassicHaSettings,
        description="RocketMQ brokers that follow this one, or that this one follows.",
    )
    raft: VotingSettings = Field(default_factory=VotingSettings, description="Mode raft.")
    static: RolesSettings | None = Field(default=None, description="Mode static: the roles at the group's begin.")

    @model_validator(mode="after")
    def _fits_mode(self) -> "ReplicationSettings":
        if self.mode == "alone" and self.controllers:
            raise ValueError("mode alone needs no controllers")
        if self.mode == "controller" and not self.controllers:
            raise ValueError("mode controller needs the addresses of the controllers")
        if self.mode == "controller" and self.min_in_sync > self.replicas:
            raise ValueError(f"minInSync {self.min_in_sync} must not exceed replicas {self.replicas}")
        if (self.mode == "static") != (self.static is not None):
            raise ValueError("static says who leads in mode static, and in no other mode")
        return self._with_founders() if self.mode == "raft" else self

    def _with_founders(self) -> "ReplicationSettings":
        if unknown := {*self.raft.members} - {*self.peers}:
            raise ValueError(f"raft.members names {sorted(unknown)}, which peers lacks")
        founders = tuple(sorted(self.raft.founders or self.peers))
        if len(founders) != self.replicas or len({*founders}) < len(founders):
            # A broker that does not know the others would found a group of its own.
            raise ValueError(f"mode raft begins with {self.replicas} replicas, but its founders are {[*founders]}")
        return self.model_copy(update={"raft": self.raft.model_copy(update={"founders": founders})})

    def check_broker(self, broker_id: int, name_service: str, flush: str) -> None:
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
        if self.mode in ("raft", "static") and broker_id not in self.peers:
            raise ValueError(
                f"replication.peers holds all brokers in mode {self.mode}; this one, {broker_id}, is not there"
            )
        if self.mode == "raft" and flush != "sync":
            raise ValueError("flush must be sync with replication.mode raft: what a vote rests on must be on disk")
        if self.mode == "raft" and self.learner and broker_id in self.raft.founders:
            raise ValueError(f"replication.learner is for brokers that do not vote; {broker_id} is among the founders")
        if self.static is not None and (unknown := {self.static.leader, *self.static.synchronous} - {*self.peers}):
            raise ValueError(f"replication.static names {sorted(unknown)}, which replication.peers lacks")
