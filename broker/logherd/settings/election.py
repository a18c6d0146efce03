"""How soon those who vote notice that their leader is gone: the controllers, and a group of brokers in raft mode."""

from pydantic import Field, model_validator

from logherd.settings.base import Group
from logherd.settings.quantities import Milliseconds

__all__ = ["ElectionSettings"]

_HEARTBEATS_IN_TIMEOUT = 4


class ElectionSettings(Group):
    """How soon the others notice that their leader is gone."""

    timeout_ms: Milliseconds = Field(
        default=1000, ge=100, le=60_000, description="Least silence of the leader after which another is elected."
    )
    spread_ms: Milliseconds = Field(
        default=1000, ge=10, le=60_000, description="Up to so much is added by chance, so that not all stand at once."
    )
    heartbeat_ms: Milliseconds = Field(
        default=150, ge=10, le=15_000, description="Time between the leader's heartbeats; four fit into `timeoutMs`."
    )

    @model_validator(mode="after")
    def _heartbeats_fit(self) -> "ElectionSettings":
        # Losing a few heartbeats must elect nobody.
        most = self.timeout_ms // _HEARTBEATS_IN_TIMEOUT
        if self.heartbeat_ms > most:
            raise ValueError(
                f"heartbeatMs is {self.heartbeat_ms}; four heartbeats must fit into timeoutMs, which is "
                f"{self.timeout_ms}: write at most {most}, or a longer timeoutMs"
            )
        return self
