"""Members of a quorum as real processes in namespaces of their own, and what all of them say of themselves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from checkers.leadership import Sighting
from system.netns import Network

__all__ = ["SAYS_NOTHING", "NodeProcess", "NotSettled", "Quorum"]

_START_SECONDS_MAX, _END_SECONDS_MAX = 120.0, 60.0
SAYS_NOTHING: Mapping[str, Any] = {}


class NotSettled(AssertionError):
    """The members did not come to what they must come to in time."""


class NodeProcess:
    """One member: a command inside a namespace, over a directory that outlives the process."""

    def __init__(self, network: Network, name: str, directory: Path, command: Sequence[str]) -> None:
        """`command` gets `--ready-file FILE` behind it."""
        self.name = name
        self.directory = directory
        self.log_path = directory / f"{name}.log"
        self._ready = directory / f"{name}.ready"
        self._enter = network.enter(name)
        self._command = tuple(command)
        self.under: tuple[str, ...] = ()
        """What the command is started by, and which then becomes the command."""
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it. The kernel ends it when the test's process dies; main thread only, for that reason."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        setting = [*self._enter, "setpriv", "--pdeathsig", "KILL", *self.under]
        command = [*setting, *self._command, "--ready-file", str(self._ready)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def start(self) -> None:
        """Launch and wait until it serves. Raises NotSettled with its log."""
        self.launch()
        self.wait_ready()

    def wait_ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self._ready.exists():
            if not self.running or time.monotonic() > deadline:
                raise NotSettled(f"{self.name} is not ready: {self.log_text()[-4000:]}")
            time.sleep(0.01)
        document = json.loads(self._ready.read_text())
        assert isinstance(document, dict)
        return document

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and proof that it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(_END_SECONDS_MAX)

    def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        assert self.process is not None
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(_END_SECONDS_MAX)

    def wait(self, seconds: float) -> int:
        """Wait until it ends by itself; the exit code. Raises NotSettled."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise NotSettled(f"{self.name} goes on: {self.log_text()[-2000:]}") from error

    def condition(self) -> str:
        """What the kernel says of a process that says nothing itself, and the end of its log."""
        kernel = []
        for file in ("stat", "wchan", "stack"):
            try:
                kernel.append(Path(f"/proc/{self.pid}/{file}").read_text().strip()[:400])
            except OSError as error:
                kernel.append(str(error))
        return "\n".join((f"exit code {self.process and self.process.poll()}", *kernel, self.log_text()[-2000:]))

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_events(self, message: str) -> list[dict[str, Any]]:
        """Lines of its JSON log with this message."""
        found = []
        for line in self.log_text().splitlines():
            if line.startswith("{") and message in line:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the last line of a process that was killed in the middle of it
                if event.get("message") == message:
                    found.append(event)
        return found


StatusOf = Callable[[str, float], Mapping[str, Any]]
"""What a member says of itself, asked from inside its namespace so that partitions do not hide it; raises OSError.

With `role`, `term`, `leader`, and `leads`: it is the leader and may serve."""


class Quorum:
    """Members and a watcher for each, which asks it all the time. Use as a context manager; leaving ends everything."""

    def __init__(self, nodes: Sequence[NodeProcess], status_of: StatusOf, *, every_seconds: float = 0.1) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._status_of = status_of
        self._every = every_seconds
        self._over = threading.Event()
        self._latest: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self.sightings: set[Sighting] = set()
        self.samples = 0
        self._watchers = [
            threading.Thread(target=self._watch, args=(name,), name=f"watch-{name}", daemon=True) for name in self.nodes
        ]

    def __enter__(self) -> Self:
        try:
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():
                node.wait_ready()
        except BaseException:
            self._end_all()
            raise
        for watcher in self._watchers:
            watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for watcher in self._watchers:
            if watcher.ident is not None:
                watcher.join(10)
        self._end_all()

    def _end_all(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def _watch(self, name: str) -> None:
        while not self._over.wait(self._every):
            self.ask(name, seconds=0.5)

    def ask(self, name: str, *, seconds: float = 1.0) -> Mapping[str, Any]:
        """What a member says now, noted as seen; nothing if it does not answer."""
        try:
            said = self._status_of(name, seconds)
        except (OSError, ValueError):
            return SAYS_NOTHING
        self._latest[name] = (time.monotonic_ns(), said)
        self.samples += 1
        if said.get("role") == "leader":
            self.sightings.add(Sighting(int(said["term"]), name, f"{name} of itself"))
        if said.get("leader"):
            self.sightings.add(Sighting(int(said["term"]), str(said["leader"]), f"{name} as a {said['role']}"))
        return said

    def leader(self, *, among: Sequence[str] | None = None, seconds: float = 10.0) -> str:
        """Who leads, and may serve, of these members, by asking them now. Raises NotSettled."""
        names = list(among or self.nodes)
        deadline = time.monotonic() + seconds
        said: dict[str, Mapping[str, Any]] = {}
        while time.monotonic() < deadline:
            for name in names:
                said[name] = self.ask(name, seconds=0.3)
            leading = [name for name in names if said[name].get("leads")]
            if leading:
                return max(leading, key=lambda name: int(said[name]["term"]))
            time.sleep(0.01)
        raise NotSettled(f"none of {names} leads after {seconds:g} s: {said}")

    def agree(self, *, seconds: float = 10.0) -> str:
        """Wait until every running member follows one leader that serves; its name. Raises NotSettled."""
        names = [name for name, node in self.nodes.items() if node.running]
        deadline = time.monotonic() + seconds
        said: dict[str, Mapping[str, Any]] = {}
        while time.monotonic() < deadline:
            said = {name: self.ask(name, seconds=0.5) for name in names}
            leaders = {each.get("leader") for each in said.values()}
            terms = {each.get("term") for each in said.values()}
            if len(leaders) == len(terms) == 1 and None not in leaders:
                leader = str(leaders.pop())
                if said.get(leader, {}).get("leads"):
                    return leader
            time.sleep(0.02)
        silent = {name: self.nodes[name].condition() for name, each in said.items() if not each}
        raise NotSettled(f"no agreement after {seconds:g} s: {said}; silent: {silent}")

    def logged_sightings(self) -> set[Sighting]:
        """Leaders by what the members wrote into their logs whenever their role changed."""
        return {
            Sighting(int(event["term"]), str(event["leader"]).partition(".")[0], f"log of {name}")
            for name, node in self.nodes.items()
            for event in node.log_events("role")
            if event.get("leader") != "none"
        }

    def converge(self, *, seconds: float = 10.0) -> None:
        """Wait until all members have applied the same. Raises NotSettled."""
        deadline = time.monotonic() + seconds
        while True:
            ends = {name: self.ask(name).get("applied") for name in self.nodes}
            if len(set(ends.values())) == 1 and None not in ends.values():
                return
            if time.monotonic() > deadline:
                raise NotSettled(f"the members have applied different ends after {seconds:g} s: {ends}")
            time.sleep(0.02)

    def lines_with(self, text: str) -> list[str]:
        """What members wrote that has `text` in it, for whom a failure has to be explained to."""
        return [
            f"{name}: {line}"
            for name, node in self.nodes.items()
            for line in node.log_text().splitlines()
            if text in line
        ]

    def complaints(self) -> list[str]:
        """What no member may have written: errors, and anything that is no log line."""
        return [
            f"{name}: {line[:500]}"
            for name, node in self.nodes.items()
            for line in node.log_text().splitlines()
            if not line.startswith("{") or '"level": "ERROR"' in line
        ]


def python_command(*arguments: str) -> list[str]:
    """A command of this interpreter."""
    return [sys.executable, *arguments]
