"""What one connection, one address and the whole process may take. `settings` may change these defaults."""

from dataclasses import dataclass, field

from logherd.wire.limits import WireLimits

__all__ = ["AdmissionLimits", "FlowLimits", "NetLimits", "PatienceLimits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How many connections are accepted; one more is closed at once."""

    connections_max: int = 5_000
    connections_per_address_max: int = 200


@dataclass(frozen=True, slots=True)
class PatienceLimits:
    """How long a connection may keep us waiting. Seconds; looked at every `sweep_seconds`, so never early and at most
    one sweep late.

    A begun frame must be whole after `frame_seconds`; after `frame_rate_grace_seconds` (room for one lost packet) it
    must also have brought `frame_bytes_per_second_min` on average. Idle means that no byte went either way.
    """

    first_frame_seconds: float = 5.0
    frame_seconds: float = 10.0
    frame_bytes_per_second_min: int = 1024
    frame_rate_grace_seconds: float = 3.0
    idle_seconds: float = 120.0
    sweep_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Back-pressure. Counts are requests without an answer, sizes are bytes.

    At `running_max`, `parked_max`, `request_bytes_max` or `unsent_bytes_soft` the connection is not read until it falls
    below; above `unsent_bytes_max` it is closed. At `total_bytes_max` (requests, half frames and unsent answers of all
    connections) nobody is read.
    """

    running_max: int = 256
    parked_max: int = 4_096
    request_bytes_max: int = 32 * _MIB
    unsent_bytes_soft: int = 4 * _MIB
    unsent_bytes_max: int = 32 * _MIB
    total_bytes_max: int = 512 * _MIB


@dataclass(frozen=True, slots=True)
class NetLimits:
    """All limits of a server."""

    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    patience: PatienceLimits = field(default_factory=PatienceLimits)
    flow: FlowLimits = field(default_factory=FlowLimits)
    wire: WireLimits = field(default_factory=WireLimits)
