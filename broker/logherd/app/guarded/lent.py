"""What this process has from its guardian, taken once at its start: listening sockets by name, and its page.

The ports of clients are lent: `remoting`, which is the setting `listen`, and `names`, which is `nameService.listen`.
The admin port and those for replicas, controllers and guardians are not: they speak of, or to, this one process, and a
connection that waits for its successor would be answered by the wrong one.
"""

import os
import socket
from collections.abc import Mapping

from logherd.app.binding import CannotListen, bind
from logherd.app.guarded.command import NAMES, REMOTING
from logherd.app.guarded.keeper import LeaseKeeper, PageKeeper, Unguarded
from logherd.settings.options import Endpoint
from logherd_guardian.child import LeasePage, incarnation, inherited_sockets

__all__ = ["NAMES", "REMOTING", "Lent", "inherit"]


class Lent:
    """Sockets to be taken by whoever needs them, and the keeper. Each socket is taken once; then it is the taker's."""

    def __init__(self, sockets: Mapping[str, socket.socket] | None = None, keeper: LeaseKeeper | None = None) -> None:
        self.keeper: LeaseKeeper = keeper or Unguarded()
        self._sockets = dict(sockets or {})

    def take(self, name: str, endpoint: Endpoint, setting: str) -> socket.socket:
        """The lent socket of this name, or one that is bound here. It may not accept yet.

        Raises: CannotListen if the lent one is not what `setting` says, or the address cannot be bound.
        """
        lent = self._sockets.pop(name, None)
        if lent is None:
            return bind(endpoint, setting)
        try:
            _check(lent, name, endpoint, setting)
        except BaseException:
            lent.close()
            raise
        return lent

    def take_nothing_else(self) -> None:
        """Close what was not taken. Raises: CannotListen if that was anything: nobody would ever accept on it."""
        names = ", ".join(sorted(self._sockets))
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()
        if names:
            raise CannotListen(f"the guardian lends {names}, for which there is no setting here")


def inherit(environment: Mapping[str, str] | None = None) -> Lent:
    """What the guardian has lent to this very process; nothing without one. To be called once.

    Raises: CannotListen if the environment is not as a guardian makes it, OSError for a descriptor that is not open.
    """
    try:
        page = LeasePage.inherited(environment)
        sockets = inherited_sockets(environment)
    except ValueError as error:
        raise CannotListen(
            f"LOGHERD_LISTEN_FDS and LOGHERD_PAGE_FD are not as a guardian sets them: {error}"
        ) from error
    if page is None:
        return Lent(sockets)
    return Lent(sockets, PageKeeper(page, incarnation=incarnation(environment) or "", guardian=os.getppid()))


def _check(lent: socket.socket, name: str, endpoint: Endpoint, setting: str) -> None:
    def refuse(what: str) -> CannotListen:
        return CannotListen(f"{setting} {endpoint}: the guardian lends {what} as {name}")

    if lent.family not in {socket.AF_INET, socket.AF_INET6} or lent.type != socket.SOCK_STREAM:
        raise refuse("no TCP socket")
    if not lent.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise refuse("a socket that does not listen")
    host, port = lent.getsockname()[:2]
    addresses = _addresses(endpoint.host)
    if not addresses:
        raise CannotListen(
            f"{setting} {endpoint}: this name has no address at the moment, so nobody can tell whether it is what the "
            f"guardian lends as {name}"
        )
    if endpoint.port not in {0, port} or host not in addresses:
        raise refuse(str(Endpoint(host=host, port=port)))


def _addresses(host: str) -> set[str]:
    """What a host name stands for; an address stands for itself. Empty if the name is not found."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()
