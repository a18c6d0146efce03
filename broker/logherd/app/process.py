"""One broker process."""

import os
import sys
from pathlib import Path

from logherd.app.broker import Broker
from logherd.app.foreground import EXIT_STARTS_AGAIN, run_server
from logherd.app.guarded.lent import has_guardian
from logherd.settings.options import BrokerOptions

__all__ = ["run"]


def run(options: BrokerOptions, *, ready_file: Path | None) -> int:
    """Run a broker until SIGTERM or SIGINT. Blocks. The result is the exit code, see `run_server`.

    A replica that has to begin its log anew does so in another process: its guardian starts it, else it is this one
    after an `exec`.
    """
    code = run_server(
        "broker", lambda lent, failed: Broker.start(options, on_failure=failed, lent=lent), options.log,
        ready_file=ready_file,
    )  # fmt: skip
    if code == EXIT_STARTS_AGAIN and not has_guardian():
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 -- this very command again
    return code
