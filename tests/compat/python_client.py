"""The program of the stock client for Python, beside this file, as its tests run it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from compat.toolchain import HERE

__all__ = ["PythonClient"]


class PythonClient:
    """Runs the Python program, one process for each verb. It writes its log below `home`."""

    def __init__(self, client: Path, name_server: str, home: Path) -> None:
        self.name_server = name_server
        self.environment = {**os.environ, "PYTHONPATH": str(client), "HOME": str(home)}

    def command(self, verb: str, topic: str, **flags: Any) -> list[str]:
        """What `run` runs, in `environment`."""
        options = {"name-server": self.name_server, "topic": topic, **flags}
        program = str(HERE / "python" / "program.py")
        return [sys.executable, program, *(f"--{name}={each}" for name, each in options.items()), verb]

    def run(self, verb: str, topic: str, **flags: Any) -> list[dict[str, Any]]:
        """What it printed, line by line."""
        command = self.command(verb, topic, **flags)
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
