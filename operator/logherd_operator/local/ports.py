"""Are the wanted ports free? Asked before anything is started, so that the answer can name the option to change."""

import errno
import socket
from dataclasses import dataclass

from logherd_operator.local.errors import LocalError

__all__ = ["Ports", "check_ports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of one broker; 0 asks for any free one."""

    name_service: int = 9876
    broker: int = 10911
    admin: int = 10913


def check_ports(host: str, ports: Ports) -> None:
    """Try each port for a moment. The broker itself may still be refused one, if another program is faster.

    Raises: LocalError that names the port that is taken and the option that changes it.
    """
    _try_port(host, ports.name_service, "--name-service-port")
    _try_port(host, ports.broker, "--broker-port")
    _try_port(host, ports.admin, "--admin-port")


def _try_port(host: str, port: int, option: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise LocalError(f"port {port} of {host} is in use by another program; change it: {option}") from error
            raise LocalError(f"cannot listen on {host} port {port}: {error.strerror}; see --host, {option}") from error
