"""The child's side of the agreement in the package's docstring. Standard library only; a broker may import this module
and, except for what this one imports, no other of the package. Nothing here waits but `receive_lent`.
"""

import os
import socket
from collections.abc import Mapping

from logherd_guardian.clock import clock_ms
from logherd_guardian.page import PAGE_BYTES, SLOT_BYTES, Identity, Page, decode_page, encode_slot
from logherd_guardian.proxy import GREETING, PROXY_NAME, PROXY_SIGNATURE

__all__ = [
    "GREETING", "PROXY_NAME", "PROXY_SIGNATURE", "Identity", "LeasePage", "clock_ms", "incarnation",
    "inherited_sockets", "lent_environment", "receive_lent",
]  # fmt: skip

_WORD_BYTES = 4096
_DESCRIPTORS_MAX = 64


def _lent(name: str, environment: Mapping[str, str] | None) -> str | None:
    """A variable that the guardian set for this very process: a subprocess inherits the text, but not the claim."""
    found = os.environ if environment is None else environment
    return found.get(name) if found.get("LOGHERD_GUARDIAN_PID") == str(os.getppid()) else None


def inherited_sockets(environment: Mapping[str, str] | None = None) -> dict[str, socket.socket]:
    """The listening sockets by name, not blocking; none without a guardian. To be called once, before any subprocess.

    They stay the guardian's: closing one here does not stop the port from taking connections.
    Raises: ValueError for a variable that no guardian wrote; OSError if a descriptor is not open.
    """
    text = _lent("LOGHERD_LISTEN_FDS", environment)
    found: dict[str, socket.socket] = {}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        os.set_inheritable(int(number), False)  # noqa: FBT003
        found[name] = socket.socket(fileno=int(number))
    return found


def lent_environment(guardian: int, secret: str, lent: Mapping[str, int], page: int) -> dict[str, str]:
    """What a guardian says to its child: the child's incarnation, and the descriptors of listeners and page."""
    return {
        "LOGHERD_GUARDIAN_PID": str(guardian),
        "LOGHERD_INCARNATION": secret,
        "LOGHERD_LISTEN_FDS": ",".join(f"{name}={descriptor}" for name, descriptor in lent.items()),
        "LOGHERD_PAGE_FD": str(page),
    }


def receive_lent(connection: socket.socket) -> dict[str, str] | None:
    """The same for a process that was forked before its guardian began (`waiting.py`). Blocks until the guardian
    starts it; None if there will be no guardian."""
    try:
        text, descriptors, _, _ = socket.recv_fds(connection, _WORD_BYTES, _DESCRIPTORS_MAX)
    except ConnectionError:
        return None
    if not descriptors:
        return None
    for each in descriptors:
        os.set_inheritable(each, False)  # noqa: FBT003 - flags for it are not passed on by `recv_fds`
    secret, *names = text.decode().split(" ")
    *listeners, page = descriptors
    return lent_environment(os.getppid(), secret, dict(zip(names, listeners, strict=True)), page)


def incarnation(environment: Mapping[str, str] | None = None) -> str | None:
    """The secret name of this process, to register with; None without a guardian."""
    return _lent("LOGHERD_INCARNATION", environment)


class LeasePage:
    """What this process tells its guardian. Each call is one small write to memory, seen within a fifth of a second.

    Invariant: a reader finds what was said before a call or after it, also if the writer is killed in the middle.
    """

    def __init__(self, descriptor: int) -> None:
        """Go on after whatever the page says already."""
        self._descriptor = descriptor
        self._page = decode_page(os.pread(descriptor, PAGE_BYTES, 0)) or Page()

    @classmethod
    def inherited(cls, environment: Mapping[str, str] | None = None) -> "LeasePage | None":
        """The page that the guardian lent; None without a guardian. To be called before any subprocess."""
        text = _lent("LOGHERD_PAGE_FD", environment)
        if text is None:
            return None
        os.set_inheritable(int(text), False)  # noqa: FBT003
        return cls(int(text))

    def identify(self, identity: Identity) -> None:
        """Say who registers, before the controllers hear it. Raises: ValueError if it does not fit the page."""
        self._write(identity=identity)

    def registered(self) -> None:
        """The controllers have registered this incarnation: soon they need no report of an earlier one."""
        self._write(registered=True)

    def ready(self, *, accepting: bool = True) -> None:
        """Whether this process accepts connections on the lent sockets."""
        self._write(ready=accepting)

    def lease(self, epoch: int, end_ms: int) -> None:
        """A lease was granted until `end_ms` on `clock_ms`. This process must end its duties, then release, in time."""
        self._write(epoch=epoch, lease_end_ms=end_ms)

    def release(self) -> None:
        """This process leads no more and has stopped every duty of a leader."""
        self._write(lease_end_ms=0)

    def _write(
        self, *, ready: bool | None = None, registered: bool | None = None, epoch: int | None = None,
        lease_end_ms: int | None = None, identity: Identity | None = None,
    ) -> None:  # fmt: skip
        was = self._page
        page = Page(
            sequence=was.sequence + 1,
            ready=was.ready if ready is None else ready,
            registered=was.registered if registered is None else registered,
            epoch=was.epoch if epoch is None else epoch,
            lease_end_ms=was.lease_end_ms if lease_end_ms is None else lease_end_ms,
            identity=was.identity if identity is None else identity,
        )
        os.pwrite(self._descriptor, encode_slot(page), page.sequence % 2 * SLOT_BYTES)
        self._page = page
