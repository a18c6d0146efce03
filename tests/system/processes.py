"""Real broker processes for tests: started by their command line, ended by their pid, left without a trace."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

__all__ = ["BrokerProcess"]

_START_SECONDS_MAX = 120.0


class BrokerProcess:
    """One `logherd broker` on ephemeral ports over a data folder that survives it."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.directory = directory
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self.admin_port = 0
        self.log_path = directory / "broker.log"
        self.under: tuple[str, ...] = ()
        """A command to start it under, as `prlimit`."""
        self.flags: tuple[str, ...] = ()
        """Options of the command, as `--guarded`."""

    def start(self) -> None:
        """Start and wait until it is ready. Raises RuntimeError with its log if it is not in time."""
        self.spawn()
        ready = self.directory / "ready.json"
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not ready.exists():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker is not ready: {self.log_path.read_text()[-4000:]}")
            time.sleep(0.01)
        document = json.loads(ready.read_text())
        self.port = int(document["address"].rpartition(":")[2])
        self.admin_port = int(document["admin"].rpartition(":")[2])

    def write_config(self) -> Path:
        """Where its settings are. What the machine's disk has left decides no test that does not ask for it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        store = self.settings.get("store", {})
        config = {
            "brokerGroup": "bg",
            "clusterName": "DefaultCluster",
            "listen": f"127.0.0.1:{self.port}",
            "adminListen": f"127.0.0.1:{self.admin_port}",
            "dataDir": str(self.directory / "data"),
            "nameService": {"mode": "embedded", "listen": "127.0.0.1:0"},
            **self.settings,
            "store": {"reservedPercent": 0, **(store if isinstance(store, dict) else {})},
        }
        path = self.directory / "broker.json"
        path.write_text(json.dumps(config))
        return path

    def spawn(self) -> None:
        """Start, and wait for nothing."""
        path = self.write_config()
        ready = self.directory / "ready.json"
        ready.unlink(missing_ok=True)
        command = [*self.under, sys.executable, "-m", "logherd", "broker", *self.flags, "--config", str(path)]
        command += ["--ready-file", str(ready)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError("the broker was not started")
        return self.process.pid

    def status(self) -> dict[str, object]:
        with urllib.request.urlopen(f"http://{self.host}:{self.admin_port}/status", timeout=20) as answer:
            document = json.load(answer)
        if not isinstance(document, dict):
            raise TypeError(f"/status is {document!r}")
        return document

    def configure(self, token: str = "secret", **values: object) -> tuple[int, dict[str, Any]]:
        """Change settings while it runs: HTTP's status and what it says. Asked again for as long as the machine is too
        busy to have it checked."""
        for _ in range(20):
            status, said = self._configure(token, values)
            if status != 503:
                break
        return status, said

    def _configure(self, token: str, values: dict[str, object]) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"http://{self.host}:{self.admin_port}/config", data=json.dumps({"values": values}).encode(),
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def wait_for_line(self, text: str, seconds: float = 60.0) -> None:
        """Return once the log has this text. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while text not in self.log_path.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the log does not say within {seconds:g} s: {text}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, and proof that the process is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM and wait; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
            raise
