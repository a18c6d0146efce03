"""The guardian's command line, from the settings of the process that it is to guard. Pure.

So what the guardian lends is what its child asks for, and nobody writes it twice. The child reads its file again in
each of its lives: if the addresses in it have changed meanwhile, it says so and does not start until the guardian is
new, too.
"""

from collections.abc import Iterator, Sequence

from logherd.app.guarded.lent import NAMES, REMOTING
from logherd.settings.options import BrokerOptions, ControllerOptions, Endpoint, GuardianOptions

__all__ = ["broker_guardian", "controller_guardian"]


def broker_guardian(options: BrokerOptions) -> list[str]:
    """Arguments of `logherd-guardian` for this broker, up to `--`. Its controllers, if any, are told of its exit."""
    names = options.name_service
    lent = {REMOTING: options.listen} | ({NAMES: names.listen} if names.mode == "embedded" else {})
    return list(_arguments(lent, options.guardian, options.replication.controllers))


def controller_guardian(options: ControllerOptions) -> list[str]:
    """The same for this controller. Nobody is told of its exit: it holds no lease, and the others hear that it is
    silent."""
    names = options.name_service
    lent = {REMOTING: options.listen} | ({NAMES: names.listen} if names.mode == "embedded" else {})
    return list(_arguments(lent, options.guardian, ()))


def _arguments(
    lent: dict[str, Endpoint], options: GuardianOptions, controllers: Sequence[Endpoint]
) -> Iterator[str]:  # fmt: skip
    for name, endpoint in lent.items():
        # IPv6's "any" takes IPv4, too, as it does without a guardian; to that, an address says that it is IPv6 alone.
        shown = f":{endpoint.port}" if endpoint.host == "::" else str(endpoint)
        yield from ("--listen", f"{name}={shown}")
    for name in lent:
        for peer in options.peers:
            yield from ("--peer", f"{name}={peer}")
    if controllers:
        yield from ("--controllers", ",".join(map(str, controllers)))
    if options.state_file is not None:
        yield from ("--state-file", options.state_file)
    yield from ("--stop-seconds", str(options.stop_ms // 1000))
