"""Drivers in processes of their own, and orders to them."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

__all__ = ["DriverProcess", "JobFailed"]

_ROOT = Path(__file__).parents[2]


class JobFailed(Exception):
    """What the driver's job said."""


class DriverProcess:
    """Use as a context manager. One order at a time, the next waits; the first one waits until Spark is there."""

    def __init__(self, directory: Path, *hosts: str) -> None:
        directory.mkdir(parents=True)
        self._log = directory / "driver.log"
        roots = [str(_ROOT / each) for each in ("broker", "spark", "tests")]
        import pyspark

        environment = {
            **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(Path(pyspark.__file__).parent), "PYTHONPATH": os.pathsep.join(roots),
            # Short jobs: compiling them well would cost more than they do.
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }  # fmt: skip
        command = [sys.executable, "-m", "spark.driver", str(directory), ",".join(hosts)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._ready = False
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process.stdout.close()

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Carry an order out. Raises: JobFailed with the text of the error."""
        assert self._process.stdin is not None
        with self._turn:
            if not self._ready:
                self._ready = "ready" in self._answer()
            self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
        if "error" in answer:
            raise JobFailed(answer["error"])
        return answer

    def begin(self, do: str, **order: Any) -> "Future[dict[str, Any]]":
        """The same, while the test goes on."""
        found: Future[dict[str, Any]] = Future()

        def carry_out() -> None:
            try:
                found.set_result(self.ask(do, **order))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=carry_out).start()
        return found

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver is gone: {self._log.read_text(errors='replace')[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
