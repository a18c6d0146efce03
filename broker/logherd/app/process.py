"""One broker process."""

from pathlib import Path

from logherd.app.broker import Broker
from logherd.app.foreground import run_server
from logherd.settings.options import BrokerOptions

__all__ = ["run"]


def run(options: BrokerOptions, *, ready_file: Path | None) -> int:
    """Run a broker until SIGTERM or SIGINT. Blocks. The result is the exit code, see `run_server`."""
    return run_server(
        "broker", lambda lent, failed: Broker.start(options, on_failure=failed, lent=lent), options.log,
        ready_file=ready_file,
    )  # fmt: skip
