"""What is configured about pulls."""

from dataclasses import dataclass

__all__ = ["PullOptions"]


@dataclass(frozen=True, slots=True)
class PullOptions:
    """Limits of one pull and of parked ones. Sizes in bytes, times in ms.

    A pull never gets more than it asks for, and at least one message if there is one. RocketMQ stops at 32 messages;
    the wire has no such limit, and a client that asks for more is served more. `suspend_ms_max` keeps a request from
    being parked for ever; stock clients ask for 15 to 20 seconds. `parked_max` bounds what waits in this process, and
    `session_parked_max` what does of one connection: who has more is told that we are busy, and pulls again a second
    later.
    """

    messages_max: int = 1024
    bytes_max: int = 256 << 10
    suspend_ms_max: int = 60_000
    recheck_ms: int = 5_000
    parked_max: int = 200_000
    session_parked_max: int = 4_096
    auto_create_groups: bool = True
