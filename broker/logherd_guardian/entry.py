"""The way in: command line, sockets, and then the loop until the end."""

import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Sequence

from logherd_guardian.brood import STOPPING, Brood
from logherd_guardian.door import SPARES, Allowance, Door
from logherd_guardian.options import USAGE, Lent, Options, UsageError, parse_options
from logherd_guardian.relay import BUFFER_BYTES
from logherd_guardian.reports import Reports
from logherd_guardian.resolver import Resolver
from logherd_guardian.sayings import Sayings, complain, say
from logherd_guardian.shell import Shell
from logherd_guardian.waiting import Waiting

__all__ = ["main"]

_INIT = 1
_EXIT_USAGE = 2
_EXIT_CANNOT_START = 3
_BACKLOG = 4096
_OWN_DESCRIPTORS = 48
"""Standard streams, event loop, wake-up pipe, a child's page and the one before, looking up of names; and some to
spare: without one for the page there is no next child."""
_DESCRIPTORS_OF_RELAY = 2


def main() -> None:
    """Entry point of the `logherd-guardian` command. Ends the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the result is the exit code."""
    if list(arguments) in (["--help"], ["-h"]):
        sys.stdout.write(USAGE)
        return 0
    try:
        options = parse_options(arguments)
    except UsageError as error:
        complain(f"{error} (--help shows the usage)")
        return _EXIT_USAGE
    Sayings.as_json = options.as_json
    if os.getpid() == _INIT:  # to which the kernel tells nothing that it does not handle, unless that is held back
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        return _assembled(options).run()
    except OSError as error:
        say(f"cannot start: {error}")
        return _EXIT_CANNOT_START


def _assembled(options: Options) -> Shell:
    selector = selectors.DefaultSelector()
    brood = Brood(None if options.waiting is None else Waiting(*options.waiting))
    resolver = Resolver(selector, brood)
    allowance = Allowance(_places(options), options.linger_ms)
    buffer = memoryview(bytearray(BUFFER_BYTES))

    def door(lent: Lent) -> Door:
        return Door(
            _bound(lent), lent.name, lent.peers, selector=selector, resolver=resolver, allowance=allowance,
            buffer=buffer,
        )  # fmt: skip

    doors = {lent.name: door(lent) for lent in options.lent}
    resolver.learn((*options.controllers, *(peer for lent in options.lent for peer in lent.peers)))
    reports = Reports(options.controllers, selector, resolver)
    return Shell(options, doors, reports, selector=selector, brood=brood, environment=os.environ)


def _places(options: Options) -> int:
    """Connections that may be passed on at one time: what is asked for, or less if descriptors would be wanting."""
    granted = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if granted == resource.RLIM_INFINITY:
        return options.connections_max
    own = _OWN_DESCRIPTORS + len(options.controllers) + (1 + SPARES) * len(options.lent)
    places = max(0, granted - own) // _DESCRIPTORS_OF_RELAY
    if places >= options.connections_max:
        return options.connections_max
    say(f"passes on at most {places} connections, not {options.connections_max}: it may open {granted} descriptors")
    return places


def _bound(lent: Lent) -> socket.socket:
    """A listening socket. Waits for the name service, if the host is a name. Raises: OSError."""
    host = lent.host.encode() or None
    made: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, lent.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # Without a host, IPv6's "any" takes IPv4 too.
        family, kind, _, _, address = max(found, key=lambda each: host is None and each[0] == socket.AF_INET6)
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host is not None))
        made.bind(address)
        made.listen(_BACKLOG)
        made.settimeout(0)
    except OSError as error:
        if made is not None:
            made.close()
        raise OSError(error.errno, f"{lent.name} at {lent.host}:{lent.port}: {error.strerror}") from error
    shown = made.getsockname()
    say(f"listening: {lent.name}={f'[{shown[0]}]' if family == socket.AF_INET6 else shown[0]}:{shown[1]}")
    return made
