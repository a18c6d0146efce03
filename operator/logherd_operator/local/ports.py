"""Which ports a group takes on this machine, found out before anything is started."""

import errno
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from logherd_operator.local.errors import LocalError

__all__ = ["Ports", "choose_ports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of one broker; 0 asks for any free one."""

    name_service: int = 9876
    broker: int = 10911
    admin: int = 10913


def choose_ports(host: str, wanted: Ports) -> Ports:
    """The same ports with free ones in place of zeros.

    A port is only known to be free at this moment: whoever binds it must still be ready for a refusal.
    Raises: LocalError that names the port that is taken and the option that changes it.
    """
    with ExitStack() as held:  # all at once, so that two zeros get two ports
        return Ports(
            name_service=_probe(held, host, wanted.name_service, "--name-service-port"),
            broker=_probe(held, host, wanted.broker, "--broker-port"),
            admin=_probe(held, host, wanted.admin, "--admin-port"),
        )


def _probe(held: ExitStack, host: str, port: int, option: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LocalError(f"port {port} of {host} is in use by another program; choose another: {option}") from error
        raise LocalError(f"cannot listen on {host} port {port}: {error.strerror}; see --host and {option}") from error
    return int(probe.getsockname()[1])
