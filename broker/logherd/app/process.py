"""One broker process."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from logherd.app.broker import Broker
from logherd.app.classic.follower import ClassicFollower
from logherd.app.foreground import Server, run_server
from logherd.app.guarded.lent import Lent
from logherd.settings.options import BrokerOptions

__all__ = ["run"]


def run(options: BrokerOptions, *, ready_file: Path | None) -> int:
    """Run a broker until SIGTERM or SIGINT. Blocks. The result is the exit code, see `run_server`."""

    def start(lent: Lent, failed: Callable[[], None]) -> Awaitable[Server]:
        if options.replication.classic_ha.master is not None:
            return ClassicFollower.start(options, on_failure=failed, lent=lent)
        return Broker.start(options, on_failure=failed, lent=lent)

    return run_server("broker", start, options.log, ready_file=ready_file)
