"""One controller process."""

from pathlib import Path

from logherd.app.controllers.controller import Controller
from logherd.app.foreground import run_server
from logherd.settings.options import ControllerOptions

__all__ = ["run"]


def run(options: ControllerOptions, *, ready_file: Path | None) -> int:
    """Run a controller until SIGTERM or SIGINT. Blocks. The result is the exit code, see `run_server`."""
    return run_server(
        "controller", lambda lent, failed: Controller.start(options, on_failure=failed, lent=lent), options.log,
        ready_file=ready_file,
    )  # fmt: skip
