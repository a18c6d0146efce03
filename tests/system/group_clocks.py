"""What can happen to wall clocks: somebody sets them, by an hour or a day, or they go to and fro.

Nothing but the times of messages may depend on them: nobody is elected, and no lease is shorter or longer (P23 of the
fault plan).
"""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from system.broker_groups import BROKER_PORT, BROKERS
from system.controllers import CLIENT_PORT, CLIENTS, NODES
from system.group_rounds import Round, Shape, apply
from system.wall_clocks import Moved

__all__ = ["CLOCK_SHAPES"]

_HOUR, _DAY = 3600, 86_400
_STROBES = 20


def _standing(r: Round) -> tuple[Any, ...]:
    """Whether that one leads, and in which epoch."""
    said = r.group.ask(r.leader)
    return (said.get("leads"), said.get("term"))


def _stir(r: Round, name: str) -> None:
    """Give it something to log: bytes that are no request."""
    network, port = r.bench.network, BROKER_PORT if name in BROKERS else CLIENT_PORT
    with suppress(OSError), network.doorway(CLIENTS).connect(network.address(name), port) as made:
        made.sendall(b"\xff" * 8)
        made.recv(1)


def _jumps(r: Round, name: str) -> None:
    before = _standing(r)
    for seconds in r.draw.sample((_HOUR, -_HOUR, _DAY, -_DAY), 4):
        apply(r.goes_on, Moved(r.bench.clocks[name], name, seconds, stir=lambda: _stir(r, name)))
    assert _standing(r) == before, "nobody is elected because a clock was set"


def _of_leader(r: Round) -> None:
    _jumps(r, r.leader)


def _of_follower(r: Round) -> None:
    _jumps(r, r.follower)


def _of_controller(r: Round) -> None:
    _jumps(r, r.controllers.agree(seconds=180))


def _strobe(r: Round) -> None:
    """All of them, each for itself."""
    before = _standing(r)
    clocks = [r.bench.clocks[name] for name in (*BROKERS, *NODES)]
    with ExitStack() as stack:
        for clock in clocks:
            stack.callback(clock.move, 0)
        for _ in range(_STROBES):
            for clock in clocks:
                clock.move(r.draw.choice((0, _HOUR, -_HOUR)))
            r.hold(0.2, 0.2)
    r.goes_on()
    assert _standing(r) == before, "nobody is elected because clocks go to and fro"


CLOCK_SHAPES: Mapping[str, Shape] = {
    "wall clock of the leader is set": _of_leader,
    "wall clock of a follower is set": _of_follower,
    "wall clock of the leading controller is set": _of_controller,
    "wall clocks go to and fro": _strobe,
}
