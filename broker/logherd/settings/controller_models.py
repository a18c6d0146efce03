"""The groups of a controller's configuration file, and what must agree within it."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from logherd.settings.base import Group
from logherd.settings.election import ElectionSettings
from logherd.settings.guardian import GuardianSettings
from logherd.settings.models import NAME, LimitSettings, LogSettings
from logherd.settings.quantities import (
    EVERY_INTERFACE,
    Bytes,
    DialledText,
    EndpointText,
    Milliseconds,
    PathText,
    Whole,
    split_endpoint,
)

__all__ = ["NODE_NAME", "ControllerSettings", "MemberSettings", "OwnNameServiceSettings"]

_MIB = 1 << 20
_COUNTS = (1, 3, 5)


NODE_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NodeName = Annotated[str, Field(pattern=NODE_NAME, max_length=63)]


class MemberSettings(Group):
    """One controller, as all of them know it."""

    name: NodeName = Field(description="Its name: small letters, digits and inner dashes.")
    peer: DialledText = Field(description="Where the other controllers reach its `peerListen`.")
    address: DialledText = Field(description="Where brokers and tools reach its `listen`; they are redirected to it.")
    admin: DialledText | None = Field(
        default=None, description="Where tools reach its `adminListen`; none: tools have to be told."
    )


class OwnNameServiceSettings(Group):
    """The name service in the process of a controller."""

    mode: Literal["embedded", "none"] = Field(
        default="embedded", description="`embedded` runs a name service in this process; `none` runs none."
    )
    listen: EndpointText = Field(default="127.0.0.1:9876", description="Address of the embedded name service.")


class ControllerSettings(Group):
    """One controller process."""

    cluster_name: str = Field(
        default="DefaultCluster", pattern=NAME, description="Name of the cluster; the same at all controllers."
    )
    node_name: NodeName = Field(description="Which of `controllers` this process is.")
    controllers: tuple[MemberSettings, ...] = Field(
        description="All controllers, this one too: 1, 3 or 5; the same at all of them."
    )
    listen: EndpointText = Field(
        default="127.0.0.1:9878", description="Address for brokers and mqadmin. Port 0: any free port."
    )
    peer_listen: EndpointText = Field(default="127.0.0.1:9879", description="Address for the other controllers.")
    admin_listen: EndpointText = Field(
        default="127.0.0.1:8088", description="Address of the admin HTTP, which everybody may read."
    )
    admin_token_file: PathText | None = Field(
        default=None,
        description="File with the secret that changes over the admin HTTP must bring; none: they are refused.",
    )
    data_dir: PathText = Field(description="Folder of the controllers' log; made if it is not there.")
    name_service: OwnNameServiceSettings = Field(
        default_factory=OwnNameServiceSettings, description="The name service in this process."
    )
    lease_ms: Milliseconds = Field(
        default=3000,
        ge=600,
        le=60_000,
        description="Time for which one heartbeat allows a broker to lead; the same at all controllers and brokers.",
    )
    clock_drift_percent: Whole = Field(
        default=2,
        ge=1,
        le=25,
        description="How far the rate of any clock may be off: brokers stop so much earlier, elections wait longer.",
    )
    election: ElectionSettings = Field(
        default_factory=ElectionSettings, description="How soon another controller leads."
    )
    snapshot_records: Whole = Field(
        default=100_000, ge=10, le=10_000_000, description="A snapshot is made after so many applied records."
    )
    snapshot_bytes: Bytes = Field(
        default=64 * _MIB, ge=64 << 10, le=4 << 30, description="A snapshot is made after so many bytes of log."
    )
    limits: LimitSettings = Field(default_factory=LimitSettings, description="What one peer may ask for.")
    log: LogSettings = Field(default_factory=LogSettings, description="The controller's own log lines.")
    guardian: GuardianSettings = Field(
        default_factory=GuardianSettings, description="The parent process, and what peers do for each other."
    )

    @model_validator(mode="after")
    def _parts_agree(self) -> "ControllerSettings":
        faults = [*self._member_faults(), *self._listen_faults(), *self._lease_faults()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _member_faults(self) -> Iterator[str]:
        names = [member.name for member in self.controllers]
        if len(names) not in _COUNTS:
            yield f"controllers has {len(names)} entries; a majority needs an odd number: write 1, 3 or 5"
        if self.node_name not in names:
            yield f"nodeName is {self.node_name!r}; it should be one of controllers: {', '.join(names) or 'none'}"
        if twice := _twice(names):
            yield f"controllers names {twice!r} more than once; each needs a name of its own"
        if twice := _twice([each for one in self.controllers for each in (one.peer, one.address, one.admin) if each]):
            yield f"controllers has {twice} more than once; each peer, address and admin needs its own host:port"

    def _listen_faults(self) -> Iterator[str]:
        listens = {"listen": self.listen, "peerListen": self.peer_listen, "adminListen": self.admin_listen}
        if self.name_service.mode == "embedded":
            listens["nameService.listen"] = self.name_service.listen
        if self.guardian.relay_listen is not None:
            listens["guardian.relayListen"] = self.guardian.relay_listen
        for (one, address), (other, other_address) in combinations(listens.items(), 2):
            if _collide(split_endpoint(address), split_endpoint(other_address)):
                yield f"{one} is {address} and {other} is {other_address}; each needs a port of its own"

    def _lease_faults(self) -> Iterator[str]:
        # Otherwise each change of the controllers' leader would end the leaderships of all brokers.
        held_ms = self.lease_ms * (100 - self.clock_drift_percent) // 100
        longest_ms = self.election.timeout_ms + self.election.spread_ms
        if held_ms <= longest_ms:
            yield (
                f"leaseMs is {self.lease_ms}, of which {held_ms} count after clockDriftPercent; that should be more "
                f"than election.timeoutMs and election.spreadMs together, which are {longest_ms}"
            )


def _twice(values: list[str]) -> str | None:
    """The first value that stands there again, if one does."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _collide(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether two sockets cannot listen there at once; names of hosts are not looked up."""
    hosts = {one[0], other[0]}
    return one[1] == other[1] != 0 and (len(hosts) == 1 or not hosts.isdisjoint(EVERY_INTERFACE))
