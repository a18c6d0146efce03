"""The stock Java client as an object: calls of `java/.../Driver.java` over its line protocol."""

import base64
import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.processes import ends_with_parent
from compat.toolchain import find_tool

__all__ = ["CallFailed", "Driver", "message"]


class CallFailed(Exception):
    """The client threw. `code` is the broker's response code where one answered."""

    def __init__(self, call: str, error: dict[str, Any]) -> None:
        super().__init__(f"{call}: {error['type']}: {error['message']}")
        self.code: int | None = error.get("code")
        self.error = error


def message(body: bytes | str, **fields: Any) -> dict[str, Any]:
    """One message for `producer.send`: tags, keys, properties, shard, wait, delay."""
    data = body.encode() if isinstance(body, str) else body
    return {"body": base64.b64encode(data).decode(), **fields}


class Driver:
    """One JVM with the stock client in it.

    Calls run one after the other. A call that takes longer than `seconds` fails the test, with the JVM's stderr.
    """

    def __init__(
        self, class_path: str, home: Path, *, main: str = "dev.logherd.compat.Driver", options: Iterable[str] = (),
        under: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """`under`: a command to start it under, as one that enters a network."""
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._errors = (home / "stderr.log").open("ab")
        command = [
            *under, find_tool("java"), "-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            f"-Duser.home={home}", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true",
            f"-Drocketmq.client.localOffsetStoreDir={home / 'offsets'}", *options, "-cp", class_path, main,
        ]  # fmt: skip
        self._child = subprocess.Popen(
            ends_with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, cwd=home,
            text=True, encoding="utf-8",
        )  # fmt: skip
        self._ids = itertools.count(1)
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True, name="driver-answers")
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            # Only our answers are JSON objects; a library that prints to standard output does not disturb them.
            if line.startswith('{"id":'):
                self._answers.put(line)
        self._answers.put(None)

    def call(self, name: str, /, seconds: float = 60, **args: Any) -> Any:
        """The call's result. Raises CallFailed, RuntimeError if the JVM is gone, TimeoutError."""
        number = next(self._ids)
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"id": number, "call": name, "args": args}) + "\n")
        self._child.stdin.flush()
        while True:
            try:
                line = self._answers.get(timeout=seconds)
            except queue.Empty:
                raise TimeoutError(f"{name} gave no answer within {seconds:g} s\n{self.stderr()}") from None
            if line is None:
                raise RuntimeError(f"the JVM ended during {name}\n{self.stderr()}")
            answer = json.loads(line)
            if answer["id"] == number:
                break
        if "error" in answer:
            raise CallFailed(name, answer["error"])
        return answer["result"]

    def stderr(self) -> str:
        return (self.home / "stderr.log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """End the JVM: end of its input, then by its id."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        if self._child.poll() is None:
            self._child.stdin.close()
            try:
                self._child.wait(10)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()
        self._reader.join()
        self._child.stdout.close()
        self._errors.close()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
