"""What a process tells its guardian while it lives. Without a guardian the same calls do nothing.

Nothing here waits: each call writes a few hundred bytes to a page of memory that the guardian reads.
"""

import secrets
from typing import Protocol

from logherd_guardian.child import Identity, LeasePage

__all__ = ["LeaseKeeper", "PageKeeper", "Unguarded"]

_INCARNATION_BYTES = 16


class LeaseKeeper(Protocol):
    """Told by whoever holds the lease of this process. The order in a broker of a group:

    `identify` before the first registration is sent; `registered` when the controllers have answered it; `lease` with
    each lease; `release` once every duty of a leader has stopped, also when the lease has run out. A lease that is over
    and not released for a second ends this process by SIGKILL. In raft mode only the last two are called: what others
    have answered to heartbeats is the lease. In static mode there is none.
    """

    @property
    def incarnation(self) -> str:
        """The secret name of this process, to register with: 32 hex digits, the same for its whole life."""

    @property
    def guardian(self) -> int | None:
        """The guardian's pid; None without one."""

    def identify(self, *, cluster: str, group: str, broker_id: int, store_id: str) -> None:
        """Who registers: from now on the guardian reports this process' exit. Raises: ValueError if it is too long."""

    def registered(self) -> None:
        """The controllers know this incarnation: they need no report of an earlier one."""

    def ready(self, *, accepting: bool = True) -> None:
        """Whether this process accepts connections; while it does not, the guardian passes them on to peers."""

    def lease(self, epoch: int, end_ms: int) -> None:
        """A lease of `epoch` until `end_ms`, which is milliseconds on CLOCK_BOOTTIME."""

    def release(self) -> None:
        """This process leads no more and has stopped every duty of a leader."""


class PageKeeper:
    """The keeper of a process with a guardian."""

    def __init__(self, page: LeasePage, *, incarnation: str, guardian: int) -> None:
        self._page = page
        self.incarnation = incarnation
        self.guardian: int | None = guardian

    def identify(self, *, cluster: str, group: str, broker_id: int, store_id: str) -> None:
        self._page.identify(Identity(cluster=cluster, group=group, broker_id=broker_id, store_id=store_id))

    def registered(self) -> None:
        self._page.registered()

    def ready(self, *, accepting: bool = True) -> None:
        self._page.ready(accepting=accepting)

    def lease(self, epoch: int, end_ms: int) -> None:
        self._page.lease(epoch, end_ms)

    def release(self) -> None:
        self._page.release()


class Unguarded:
    """The keeper of a process without a guardian: nobody is told. It has an incarnation all the same, to register."""

    def __init__(self) -> None:
        self.incarnation = secrets.token_hex(_INCARNATION_BYTES)
        self.guardian: int | None = None

    def identify(self, *, cluster: str, group: str, broker_id: int, store_id: str) -> None:
        """Nobody is told."""

    def registered(self) -> None:
        """Nobody is told."""

    def ready(self, *, accepting: bool = True) -> None:
        """Nobody is told."""

    def lease(self, epoch: int, end_ms: int) -> None:
        """Nobody is told."""

    def release(self) -> None:
        """Nobody is told."""
