"""The command line. By hand: the library for it costs a tenth of the memory that the guardian may take."""

from collections.abc import Sequence

from logherd_guardian.values import Value

__all__ = ["USAGE", "Address", "Lent", "Options", "UsageError", "parse_address", "parse_options"]

USAGE = """\
usage: logherd-guardian --listen [NAME=]HOST:PORT ... [options] -- COMMAND [ARGUMENT ...]

  --listen [NAME=]HOST:PORT   bind this socket and lend it to COMMAND; NAME is 'remoting' if not given
  --peer [NAME=]HOST:PORT     a peer's own port (of its child) that serves what this listener cannot; repeatable
  --controllers HOST:PORT,... who is told when COMMAND has exited
  --state-file FILE           keep the child's page here, in a memory file system, instead of nowhere to be seen
  --stop-seconds N            from a stop to SIGKILL (30)
  --restart-ms-max N          longest wait before COMMAND is started again; more if it cannot start (10000)
  --connections-max N         connections passed on at one time (256); fewer if descriptors are scarce
  --linger-seconds N          how long they may last once COMMAND serves again (60)
  --log-format text|json      how what happens is told on stderr, a line each (text)
  --waiting PID:FD            a child of this process that waits at this socket to be COMMAND's first life
"""
_NAME = "remoting"
_PORT_MAX = 65535
_PORT_DIGITS_MAX = 5
_DIGITS_MAX = 9
_TEXTS = ("--controllers", "--log-format", "--state-file", "--waiting")
_NUMBERS = {
    "--stop-seconds": 86_400,
    "--restart-ms-max": 3_600_000,
    "--connections-max": 100_000,
    "--linger-seconds": 86_400,
}

Address = tuple[str, int]


class UsageError(Exception):
    """The command line is wrong; the text says how."""


class Lent(Value):
    """One listening socket to be, and who can serve in its place."""

    __slots__ = ("host", "name", "peers", "port")

    def __init__(self, name: str, host: str, port: int, peers: tuple[str, ...] = ()) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.peers = peers


class Options(Value):
    """What the command line says."""

    __slots__ = (
        "as_json",
        "command",
        "connections_max",
        "controllers",
        "lent",
        "linger_ms",
        "restart_ms_max",
        "state_file",
        "stop_ms",
        "waiting",
    )

    def __init__(
        self, *, lent: tuple[Lent, ...], command: tuple[str, ...], controllers: tuple[str, ...] = (),
        state_file: str | None = None, stop_ms: int = 30_000, connections_max: int = 256, linger_ms: int = 60_000,
        restart_ms_max: int = 10_000, waiting: tuple[int, int] | None = None, as_json: bool = False,
    ) -> None:  # fmt: skip
        self.lent = lent
        self.command = command
        self.controllers = controllers
        self.state_file = state_file
        self.stop_ms = stop_ms
        self.connections_max = connections_max
        self.linger_ms = linger_ms
        self.restart_ms_max = restart_ms_max
        self.waiting = waiting
        self.as_json = as_json


def parse_address(text: str) -> Address:
    """(host, port) of `HOST:PORT`, `[V6]:PORT` or `:PORT`. Raises: UsageError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"{text}: an IPv6 address stands in [ ]")
    if not host.isprintable():
        raise UsageError(f"{text!a}: a host of characters that none can have")
    if not colon or not _is_number(port, _PORT_DIGITS_MAX) or int(port) > _PORT_MAX:
        raise UsageError(f"{text}: HOST:PORT is expected")
    return host, int(port)


def parse_options(arguments: Sequence[str]) -> Options:
    """The options of a command line without the program's name. Raises: UsageError."""
    if "--" not in arguments:
        raise UsageError("-- and a command are missing")
    end = arguments.index("--")
    given, command = arguments[:end], tuple(arguments[end + 1 :])
    if not command:
        raise UsageError("there is no command after --")
    listeners: dict[str, Address] = {}
    peers: list[tuple[str, str]] = []
    single: dict[str, str] = {}
    for option, value in zip(given[::2], [*given[1::2], None], strict=False):
        if value is None:
            raise UsageError(f"{option} is without a value")
        if option == "--listen":
            name, address = _named(value)
            if name in listeners:
                raise UsageError(f"{value}: there is a listener {name} already; give it a NAME")
            listeners[name] = parse_address(address)
        elif option == "--peer":
            peers.append(_named(value))
        elif option in {*_TEXTS, *_NUMBERS} and option not in single:
            single[option] = value
        else:
            raise UsageError(f"{option} is unknown or given twice")
    return _checked(listeners, peers, single, command)


def _checked(
    listeners: dict[str, Address], peers: list[tuple[str, str]], single: dict[str, str], command: tuple[str, ...]
) -> Options:
    if not listeners:
        raise UsageError("--listen is missing")
    for name, address in peers:
        parse_address(address)
        if name not in listeners:
            raise UsageError(f"--peer {address}: there is no listener {name}")
    controllers = tuple(part for part in single.get("--controllers", "").split(",") if part)
    for controller in controllers:
        parse_address(controller)
    log_format = single.get("--log-format", "text")
    if log_format not in {"text", "json"}:
        raise UsageError(f"--log-format {log_format}: text or json is expected")
    return Options(
        lent=tuple(
            Lent(name, host, port, tuple(address for of, address in peers if of == name))
            for name, (host, port) in listeners.items()
        ),
        command=command, controllers=controllers, state_file=single.get("--state-file"),
        stop_ms=_number(single, "--stop-seconds", 30) * 1000,
        restart_ms_max=_number(single, "--restart-ms-max", 10_000),
        connections_max=_number(single, "--connections-max", 256),
        linger_ms=_number(single, "--linger-seconds", 60) * 1000,
        waiting=_waiting(single["--waiting"]) if "--waiting" in single else None, as_json=log_format == "json",
    )  # fmt: skip


def _named(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not equals:
        return _NAME, text
    if not (name.isascii() and name.replace("-", "").isalnum()):
        raise UsageError(f"{text}: a NAME has letters, digits and -")
    return name, address


def _waiting(text: str) -> tuple[int, int]:
    pid, _, descriptor = text.partition(":")
    if not (_is_number(pid) and _is_number(descriptor)):
        raise UsageError(f"--waiting {text}: PID:FD is expected")
    return int(pid), int(descriptor)


def _number(single: dict[str, str], option: str, default: int) -> int:
    text = single.get(option, str(default))
    if not _is_number(text) or int(text) > _NUMBERS[option]:
        raise UsageError(f"{option} {text}: a number from 0 to {_NUMBERS[option]} is expected")
    return int(text)


def _is_number(text: str, digits_max: int = _DIGITS_MAX) -> bool:
    """Whether it is so many digits at most; of thousands `int` makes no number but another error."""
    return text.isascii() and text.isdigit() and len(text) <= digits_max
