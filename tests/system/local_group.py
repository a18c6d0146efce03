"""A group that `logherd up --detach` runs: its file, its status, and proof that nothing is left of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

__all__ = ["FREE", "LOGHERD", "LocalGroup", "await_true", "left_over"]

LOGHERD = str(Path(sys.executable).with_name("logherd"))
FREE = ("--name-service-port", "0", "--broker-port", "0", "--admin-port", "0")
_ANY_SECONDS = 240.0

_FILE = """apiVersion: logherd.dev/v1alpha1
kind: BrokerGroup
metadata: {name: herd}
spec:
  replicas: 3
  storage: {reservedPercent: 2}
  config: {mappedFileSizeCommitLog: "4194304", maxMessageSize: "65536"}
"""


def await_true(holds: Callable[[], bool], why: Callable[[], object], seconds: float = _ANY_SECONDS) -> None:
    """Wait until it holds. Raises: AssertionError with what `why` says then."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


def left_over(folder: Path) -> dict[int, str]:
    """Processes that name the folder in their command line."""
    found = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in line:
                found[int(path.name)] = line
    return found


class LocalGroup:
    """Use as a context manager: on leaving, nothing of it runs."""

    def __init__(self, folder: Path, *, replicas: int = 3, replication: str = "") -> None:
        """`replication`: of the spec, as YAML in one line."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.file = folder / "group.yaml"
        self.data = folder / "data"
        also = f"\n  replication: {replication}" if replication else ""
        self.file.write_text(_FILE.replace("replicas: 3", f"replicas: {replicas}{also}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.logherd("down", "--wait", "5")
        for pid in left_over(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def logherd(self, command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command about this group."""
        return subprocess.run(
            [LOGHERD, command, *arguments, "--data", str(self.data)], cwd=self.folder, capture_output=True, text=True,
            timeout=_ANY_SECONDS, check=False,
        )  # fmt: skip

    def client(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a client's command."""
        return subprocess.run(
            [LOGHERD, *arguments, "--name-server", self.name_servers], cwd=self.folder, capture_output=True, text=True,
            timeout=_ANY_SECONDS, check=False,
        )  # fmt: skip

    def up(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Start it behind this process."""
        return self.logherd("up", "-f", str(self.file), "--detach", *FREE, "--wait", "200", *arguments)

    def status(self) -> dict[str, Any]:
        """What `logherd status` says."""
        document = json.loads(self.logherd("status", "-o", "json").stdout)
        assert isinstance(document, dict)
        return document

    @property
    def name_servers(self) -> str:
        return str(json.loads((self.data / "group.json").read_text())["name_servers"][0])

    def said(self) -> str:
        """What the keeper has said."""
        return (self.data / "up.log").read_text()

    def change(self, before: str, after: str) -> int:
        """Save the file with a change; the generation that this will be."""
        text = self.file.read_text()
        assert before in text
        wanted = int(self.status()["generation"]) + 1
        fresh = self.file.with_suffix(".fresh")
        fresh.write_text(text.replace(before, after))
        fresh.replace(self.file)
        return wanted

    def settle(self, generation: int, brokers: int) -> dict[str, Any]:
        """Wait until everything that this generation wants is so; the status then."""
        seen: list[dict[str, Any]] = [{}]

        def settled() -> bool:
            seen[0] = status = self.status()
            whole = status["inSync"] == [each["brokerId"] for each in status["brokers"] if each["ready"]]
            done = status["generation"] >= generation and status["doing"] is None
            return bool(whole and done and len(status["inSync"]) == len(status["brokers"]) == brokers)

        await_true(settled, lambda: f"{json.dumps(seen[0], indent=1)}\n{self.said()[-4000:]}")
        return seen[0]
