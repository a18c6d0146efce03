"""When a store takes no messages though nothing has failed."""

from dataclasses import dataclass

__all__ = ["Admission", "DiskState"]

_NEVER = 1 << 62
"""More bytes than any disk has free."""


@dataclass(slots=True)
class Admission:
    """Messages are refused below so many free bytes; and always, while there is a reason of the group's."""

    reserve_bytes: int
    least_free_bytes: int
    reason: str = ""

    def keep_free(self, reserve_bytes: int) -> None:
        """Refuse below so many free bytes from now on."""
        self.reserve_bytes = reserve_bytes
        self.shut(self.reason)

    def shut(self, reason: str) -> None:
        """Refuse for this reason; empty: do so no more."""
        self.reason = reason
        self.least_free_bytes = _NEVER if reason else self.reserve_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    """`accepts_messages` is False where messages, if only large ones, find no room: at the reserve, or when the next
    segment would take of it; and for ever after a failed write, which `stopped` holds then.
    `refusal`: why a message would be refused now, for whatever reason; empty if it would be taken."""

    free_bytes: int
    reserve_bytes: int
    accepts_messages: bool
    log_bytes: int
    stopped: BaseException | None
    refusal: str
