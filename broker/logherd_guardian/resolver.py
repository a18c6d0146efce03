"""Addresses of names, without ever waiting for a name server: a fork asks, because one thread cannot do both.

Names come from the command line and from controllers. Addresses of pods change under their names, so they are asked for
again whenever they are about to matter; the last known ones are used meanwhile. A name may have many, as `localhost`
has: which of them leads somewhere is found by trying.
"""

import os
import selectors
import signal
import socket
from collections.abc import Iterable

from logherd_guardian.brood import Brood
from logherd_guardian.options import Address, UsageError, parse_address

__all__ = ["Resolver", "literal"]

_SECONDS_MAX = 10
_FRESH_MS = 1_000
_ANSWER_BYTES_MAX = 64 << 10
_NAMES_MAX = 256
_ADDRESSES_MAX = 8
_DESCRIPTORS_MAX = 1 << 18
"""Above every number that a guardian uses. The system's limit may be a thousand million; some close one by one."""


def literal(host: str) -> bool:
    """Whether a host is an address already."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


class Resolver:
    """One question at a time, over all names known."""

    def __init__(self, selector: selectors.BaseSelector, brood: Brood) -> None:
        self._selector = selector
        self._brood = brood
        self._names: dict[str, list[str]] = {}
        """Addresses of each name, the one in use first."""
        self._pipe: int | None = None
        self._heard = b""
        self._asked_at: int | None = None

    def learn(self, addresses: Iterable[str]) -> None:
        """Ask for these before they matter. Raises: UsageError."""
        for address in addresses:
            host, _ = parse_address(address)
            if not literal(host):
                self._remember(host)
        if self._names:
            self._ask(0)
        self._asked_at = None

    def find(self, address: str, now: int) -> Address | None:
        """(address, port) of HOST:PORT as known now; asks, if there is something to ask."""
        try:
            host, port = parse_address(address)
        except UsageError:
            return None
        if literal(host):
            return host, port
        self._remember(host)
        self._ask(now)
        found = self._names.get(host)
        return (found[0], port) if found else None

    def has(self, address: str, tried: Address) -> bool:
        """Whether what was found for HOST:PORT may still be it, by what is known now."""
        known = self._names.get(parse_address(address)[0])
        return not known or tried[0] in known

    def shun(self, address: str, tried: Address) -> None:
        """What was found for HOST:PORT led nowhere: its name's next address is found from now on, if it has one."""
        known = self._names.get(parse_address(address)[0])
        if known and known[0] == tried[0]:
            known.append(known.pop(0))

    def _remember(self, host: str) -> None:
        if host not in self._names and len(self._names) < _NAMES_MAX:
            self._names[host] = []
            self._asked_at = None

    def _ask(self, now: int) -> None:
        if self._pipe is not None or (self._asked_at is not None and now - self._asked_at < _FRESH_MS):
            return
        self._asked_at = now
        first = next(iter(self._names))  # of all that are asked for, the last one may hang until time is over
        self._names[first] = self._names.pop(first)
        try:
            reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            return
        if pid == 0:
            _answer(self._names, writer)
        os.close(writer)
        self._brood.spared.add(pid)
        self._pipe, self._heard = reader, b""
        self._selector.register(reader, selectors.EVENT_READ, self._listen)

    def _listen(self, mask: int) -> None:
        if self._pipe is None:
            return
        try:
            data = os.read(self._pipe, 4096)
        except BlockingIOError:
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._learned(line.decode(errors="replace"))
        if data and len(self._heard) <= _ANSWER_BYTES_MAX:
            return
        self._selector.unregister(self._pipe)
        os.close(self._pipe)
        self._pipe = None

    def _learned(self, line: str) -> None:
        """A name and its addresses. The one in use stays so, if it still is one of them."""
        name, *hosts = line.split(" ")
        found = [host for host in hosts if literal(host)]
        known = self._names.get(name)
        if known is None or not found:
            return
        at = found.index(known[0]) if known and known[0] in found else 0
        self._names[name] = found[at:] + found[:at]


def _answer(names: Iterable[str], writer: int) -> None:
    """The fork: say what each name means, then end. Holds no socket open, outlives nobody by long."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_SECONDS_MAX)
        os.closerange(3, writer)
        os.closerange(writer + 1, _DESCRIPTORS_MAX)
        for name in names:
            try:
                # As bytes: text would load the tables of international names.
                found = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(each[4][0]) for each in found))[:_ADDRESSES_MAX]
                os.write(writer, f"{' '.join((name, *addresses))}\n".encode())
            except OSError:
                continue
    finally:
        os._exit(0)
