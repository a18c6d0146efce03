"""From the command line's words to a running operator, and to an exit code."""

import asyncio
import logging
import secrets
from dataclasses import dataclass
from importlib.metadata import version

import kopf

from logherd_operator.clients.errors import ClusterError
from logherd_operator.clients.lease import LeasePlace
from logherd_operator.handlers.audit import WatchStale
from logherd_operator.handlers.process import LeaseLost, RunOptions, run_operator
from logherd_operator.handlers.reconcile import Options

__all__ = ["Started", "start"]

_log = logging.getLogger("logherd.operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What was said on the command line."""

    broker_image: str
    operator_image: str
    lease: str
    namespaces: tuple[str, ...]
    identity: str
    health_port: int
    log_level: str
    log_format: str


def start(said: Started) -> int:
    """Run until a signal; the result is the exit code: 0 after a signal, 1 if it has to begin anew."""
    kopf.configure(
        debug=said.log_level == "debug",
        log_format=kopf.LogFormat.JSON if said.log_format == "json" else kopf.LogFormat.FULL,
    )  # fmt: skip
    logging.getLogger().setLevel(said.log_level.upper())  # kopf knows no errors only
    namespace, _, name = said.lease.partition("/")
    # Of two processes with one name, as after a restart in place, each must see that the other is another.
    identity = f"{said.identity}_{secrets.token_hex(4)}"
    run = RunOptions(
        options=Options(
            broker_image=said.broker_image, operator_image=said.operator_image, version=version("logherd"),
            namespace=namespace, reporter=said.identity,
        ),
        lease=LeasePlace(namespace=namespace, name=name, identity=identity), namespaces=said.namespaces,
        health_port=said.health_port,
    )  # fmt: skip
    try:
        asyncio.run(run_operator(run))
    except (LeaseLost, WatchStale, ClusterError, OSError) as error:
        _log.error("the operator ends: %s", error)
        return 1
    return 0
