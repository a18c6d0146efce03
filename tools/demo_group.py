"""A broker group of its own for a demonstration, and its leader's death."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from logherd_operator.local.finding import find_folder
from logherd_operator.local.status import observe, serves

__all__ = ["DemoGroup", "Trouble"]

ROOT = Path(__file__).resolve().parents[1]
LOGHERD = str(Path(sys.executable).with_name("logherd"))
SECONDS = 120.0
SMALL = {"mappedFileSizeCommitLog": str(64 << 20)}
"""For a disk that is nearly full, and for some hundred megabytes in all."""


class Trouble(Exception):
    """In one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads: its number, its process, and since which epoch."""

    broker: int
    pid: int
    epoch: int


class DemoGroup:
    """Three brokers on free ports, in a folder that is removed with them; after an error their logs stay."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="logherd-demo-"))
        self._data = self.folder / ".logherd"
        self._starting: subprocess.Popen[str] | None = None
        self._began = time.monotonic()

    def __enter__(self) -> "DemoGroup":
        group = yaml.safe_load((ROOT / "examples/group.yaml").read_text())
        group["spec"].setdefault("config", {}).update(SMALL)
        group["spec"]["storage"] = {"reservedPercent": 2}
        (self.folder / "group.json").write_text(json.dumps(group))
        free = ["--name-service-port", "0", "--broker-port", "0", "--admin-port", "0"]
        command = [LOGHERD, "up", "-f", "group.json", "--data", str(self._data), "--detach", *free]
        self._starting = subprocess.Popen(
            command, cwd=self.folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._starting is not None and self._starting.poll() is None:
            self._starting.send_signal(signal.SIGINT)
            self._starting.wait(SECONDS)
        subprocess.run(
            [LOGHERD, "down", "--data", str(self._data)], capture_output=True, check=False, timeout=SECONDS
        )  # fmt: skip
        if error is None or isinstance(error, KeyboardInterrupt):
            shutil.rmtree(self.folder)

    def await_ready(self) -> float:
        """Wait until it serves; the seconds that took. Raises: Trouble."""
        if self._starting is None:
            raise Trouble("the group was not started")
        said, _ = self._starting.communicate(timeout=SECONDS)
        if self._starting.returncode:
            raise Trouble(said.strip())
        return time.monotonic() - self._began

    @property
    def name_servers(self) -> str:
        return ",".join(str(self._status()["nameServer"]).split(";"))

    def create_topic(self, topic: str, queues: int) -> None:
        command = [LOGHERD, "topic", "create", topic, "--queues", str(queues), "--name-server", self.name_servers]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode:
            raise Trouble(f"the topic {topic} was not created: {done.stderr.strip()}")

    def leader(self) -> Leader:
        """Who leads now; waits until somebody does. Raises: Trouble."""
        deadline = time.monotonic() + SECONDS
        while True:
            status = self._status()
            if serves(status) and status["leader"]["pid"]:
                found = status["leader"]
                return Leader(int(found["brokerId"]), int(found["pid"]), int(found["epoch"]))
            if time.monotonic() > deadline:
                raise Trouble(f"nobody leads the group for {SECONDS:.0f} s; its logs are in {self._data}")
            time.sleep(0.02)

    def kill_leader(self) -> Leader:
        """SIGKILL for the process that leads; returns when the kernel has forgotten it."""
        leader = self.leader()
        os.kill(leader.pid, signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while Path(f"/proc/{leader.pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        return leader

    def _status(self) -> dict[str, Any]:
        return observe(*find_folder(self._data))
