"""Where everything of a group listens on one machine: all of it follows from three numbers, so nobody has to be told.

Controller N takes four ports from the name service's on, N tens higher: names, admin, listen, peer. Broker N, counted
from 0, takes the broker's port, N tens higher, and the two that follow (peer) and follow by three (relay); its admin
port is counted from a number of its own.
"""

import errno
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logherd_operator.local.errors import LocalError

__all__ = ["PLACES_MAX", "Addresses", "BrokerPorts", "ControllerPorts", "Ports", "check_ports", "choose_ports"]

PLACES_MAX = 7
_STEP = 10
_RANDOM_FIRST = 12_000
_RANDOM_LAST = 32_000
_TRIES = 200
_ROOM = 1000
"""So many ports below the kernel's a group's three blocks want, or they hardly find a place."""
_CONTROLLERS_MAX = 5
_ADMIN_AFTER_BROKER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Of the first controller's name service, and of the first broker for clients and for its admin HTTP.

    0 asks for any that is free, with room for the others.
    """

    name_service: int = 9876
    broker: int = 10911
    admin: int = 10913


@dataclass(frozen=True, slots=True)
class ControllerPorts:
    """Of one controller, each `host:port`."""

    names: str
    admin: str
    listen: str
    peer: str


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """Of one broker, each `host:port`."""

    listen: str
    peer: str
    relay: str
    admin: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """All of a group's."""

    host: str
    ports: Ports

    def controller(self, ordinal: int) -> ControllerPorts:
        """Of the controller at a place."""
        first = self.ports.name_service + _STEP * ordinal
        return ControllerPorts(*(self._at(first + n) for n in range(4)))

    def broker(self, ordinal: int) -> BrokerPorts:
        """Of the broker at a place."""
        first = self.ports.broker + _STEP * ordinal
        admin = self.ports.admin + _STEP * ordinal
        return BrokerPorts(self._at(first), self._at(first + 1), self._at(first + 3), self._at(admin))

    def _at(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def choose_ports(host: str, wanted: Ports) -> Ports:
    """Replace zeros by numbers from which on everything is free at this moment.

    They lie below those that the kernel gives to outgoing connections, if it leaves any: one of those may be taken at
    any time, also the port of a broker that is restarting or does not run yet. Raises: LocalError if there is no room.
    """
    names, brokers, admins = _blocks(_CONTROLLERS_MAX, 4), _blocks(PLACES_MAX, 4), _blocks(PLACES_MAX, 1)
    given = ((wanted.name_service, names), (wanted.broker, brokers), (wanted.admin, admins))
    own = {first + each for first, offsets in given if first for each in offsets}
    name_service = wanted.name_service or _find(host, names, own)
    broker = wanted.broker or _find(host, brokers, own)
    follows = not wanted.admin and not wanted.broker
    admin = broker + _ADMIN_AFTER_BROKER if follows else wanted.admin or _find(host, admins, own)
    return Ports(name_service=name_service, broker=broker, admin=admin)


def _blocks(count: int, ports: int) -> list[int]:
    return [_STEP * n + k for n in range(count) for k in range(ports)]


def _find(host: str, offsets: list[int], own: set[int]) -> int:
    """Where all of these are free, and not among the group's own, to which they are added."""
    ephemeral, room = _ephemeral_first(), max(offsets) + 1
    # Where the kernel gives away all of them, any that is free has to do.
    last = (ephemeral if _RANDOM_FIRST + room + _ROOM < ephemeral < _RANDOM_LAST else _RANDOM_LAST) - room
    for _ in range(_TRIES):
        first = random.randrange(_RANDOM_FIRST, last, _STEP)  # noqa: S311 -- spreads, keeps no secret
        ports = {first + each for each in offsets}
        if own.isdisjoint(ports) and all(_fault(host, each) is None for each in ports):
            own |= ports
            return first
    raise LocalError(f"no {len(offsets)} free ports were found on {host}; name some with the --...-port options")


def _ephemeral_first() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return _RANDOM_LAST


def check_ports(addresses: Addresses, *, controllers: int, brokers: int) -> None:
    """Try each port for a moment. A process may still be refused one, if another program is faster.

    Raises: LocalError that names the port that is taken and the option that changes it.
    """
    given: dict[str, str] = {}
    for address, option in _wanted(addresses, controllers, brokers):
        host, _, port = address.rpartition(":")
        if (former := given.setdefault(address, option)) != option:
            raise LocalError(f"port {port} of {addresses.host} would be needed twice; change {former} or {option}")
        fault = _fault(host.strip("[]"), int(port))
        if fault is None:
            continue
        if fault.errno == errno.EADDRINUSE:
            raise LocalError(f"port {port} of {addresses.host} is in use by another program; change it: {option}")
        raise LocalError(f"cannot listen on {addresses.host} port {port}: {fault.strerror}; see --host, {option}")


def _wanted(addresses: Addresses, controllers: int, brokers: int) -> Iterator[tuple[str, str]]:
    for ordinal in range(controllers):
        each = addresses.controller(ordinal)
        for address in (each.names, each.admin, each.listen, each.peer):
            yield address, "--name-service-port"
    for ordinal in range(brokers):
        ports = addresses.broker(ordinal)
        for address in (ports.listen, ports.peer, ports.relay):
            yield address, "--broker-port"
        yield ports.admin, "--admin-port"


def _fault(host: str, port: int) -> OSError | None:
    if port > 65_535:
        return OSError(errno.ERANGE, "there is no such port; choose a smaller one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None
