"""What is configured about sends."""

from dataclasses import dataclass

__all__ = ["SendOptions"]


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Sizes in bytes. `store_host` is the address inside message ids, 8 or 20 bytes, the same as in the records.

    `body_bytes_max` is RocketMQ's maxMessageSize and also limits a whole batch; `unwritten_bytes_max` is how much may
    wait for the writer before sends are answered "busy"; `reply_timeout_ms` is how long a requester may take to accept
    a reply that is pushed to it.
    """

    cluster_name: str
    broker_name: str
    store_host: bytes
    region: str = "DefaultRegion"
    trace_on: bool = True
    auto_create_topics: bool = True
    body_bytes_max: int = 4 << 20
    unwritten_bytes_max: int = 64 << 20
    store_replies: bool = True
    reply_timeout_ms: int = 3000
