"""The guardian's command line, from the settings of the process that it is to guard. Pure, and imports next to nothing:
a guardian's start is part of its process' start.

The settings are the checked ones as JSON carries them, the fields named as in `settings.options`.

So what the guardian lends is what its child asks for, and nobody writes it twice. The child reads its file again in
each of its lives: if the addresses in it have changed meanwhile, it says so and does not start until the guardian is
new, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["NAMES", "REMOTING", "broker_guardian", "controller_guardian"]

NAMES = "names"
REMOTING = "remoting"
"""What the lent sockets are called."""
Values = Mapping[str, Any]


def broker_guardian(values: Values) -> list[str]:
    """Arguments of `logherd-guardian` for this broker, up to `--`. Its controllers, if any, are told of its exit."""
    return list(_arguments(values, values["replication"]["controllers"]))


def controller_guardian(values: Values) -> list[str]:
    """The same for this controller. Nobody is told of its exit: it holds no lease, and the others hear that it is
    silent."""
    return list(_arguments(values, ()))


def _lent(values: Values) -> dict[str, Values]:
    names = values["name_service"]
    return {REMOTING: values["listen"]} | ({NAMES: names["listen"]} if names["mode"] == "embedded" else {})


def _arguments(values: Values, controllers: Sequence[Values]) -> Iterator[str]:
    lent, guardian = _lent(values), values["guardian"]
    for name, endpoint in lent.items():
        # IPv6's "any" takes IPv4, too, as it does without a guardian; to that, an address says that it is IPv6 alone.
        shown = f":{endpoint['port']}" if endpoint["host"] == "::" else _shown(endpoint)
        yield from ("--listen", f"{name}={shown}")
    for name in lent:
        for peer in guardian["peers"]:
            yield from ("--peer", f"{name}={_shown(peer)}")
    if controllers:
        yield from ("--controllers", ",".join(map(_shown, controllers)))
    if guardian["state_file"] is not None:
        yield from ("--state-file", guardian["state_file"])
    yield from ("--stop-seconds", str(guardian["stop_ms"] // 1000))
    if values["log"]["format"] != "text":
        yield from ("--log-format", values["log"]["format"])


def _shown(endpoint: Values) -> str:
    host, port = endpoint["host"], endpoint["port"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
