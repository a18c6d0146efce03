"""A machine: namespaces for network, mounts and processes. All that runs, is mounted or is filtered in it ends with it.

Its first process is ours. When that is killed, or dies with the test, the kernel kills every process in the machine,
containers too, and drops its mounts, its links and its rules. Only control groups are left; those are removed by name.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from compat.processes import ends_with_parent, until

__all__ = ["CGROUPS", "Machine", "Service", "joining", "processor_groups", "run"]

CGROUPS = Path("/sys/fs/cgroup")
_FIRST = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True); signal.pause()"
_OWN = ("/run", "/var/log", "/var/lib", "/opt")
"""Folders of which each machine has its own, at first empty."""


def run(*command: str, text: str | None = None, seconds: float = 120, environment: dict[str, str] | None = None) -> str:
    """What a command prints. Raises RuntimeError with its words if it fails."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=seconds,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:300]}: {done.stderr.strip()[-3000:]}")
    return done.stdout


_SHARES = str(64 * 1024)
"""Of processor time: as many processes', not one's. Otherwise all pods together get what one process outside gets."""
_SYSTEM = "system"
_SYSTEM_SHARES = "2048"
"""As much as all pods of a node with two processors."""
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs"; done; shift; exec "$@"'


def joining(groups: Sequence[Path], command: Sequence[str]) -> list[str]:
    """The command so that it counts among the processes of these control groups."""
    return ["sh", "-ec", _JOIN, "sh", " ".join(map(str, groups)), *command]


def processor_groups(pid: int) -> list[Path]:
    """Where the processor time of a process is counted."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    found = [CGROUPS / names / path.lstrip("/") for _, names, path in lines if "cpu" in names.split(",")]
    return [each for each in found if (each / "cpu.shares").exists()]


class Service:
    """A process in a machine; `path` of what it prints."""

    def __init__(self, name: str, command: Sequence[str], path: Path) -> None:
        self.name = name
        self.path = path
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.path.open("ab") as log:
            self._child = subprocess.Popen(
                ends_with_parent(list(self._command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def stop(self, *, how: signal.Signals = signal.SIGTERM, seconds: float = 20) -> None:
        """End it and wait; with force if it takes longer."""
        if self._child is None:
            return
        if self._child.poll() is None:
            _signal_inner(self._child.pid, how)
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                _signal_inner(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def words(self) -> str:
        """The end of what it printed."""
        return self.path.read_text(errors="replace")[-3000:] if self.path.exists() else ""


def _signal_inner(entered: int, how: signal.Signals) -> None:
    """To what `nsenter` waits for; it passes nothing on by itself."""
    try:
        inner = Path(f"/proc/{entered}/task/{entered}/children").read_text().split()
    except OSError:
        return
    for pid in inner or [str(entered)]:
        with suppress(ProcessLookupError):
            os.kill(int(pid), how)


class Machine:
    """`home` keeps its folders and logs."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.home = home
        self.services: dict[str, Service] = {}
        self.cgroup = f"logherd-e2e-{os.getpid()}-{name}"
        self._system: list[Path] = []
        """Control groups of what is no pod: it would starve beside pods that have all of this machine's share."""
        home.mkdir(parents=True)
        self._holder = subprocess.Popen(
            ends_with_parent([
                "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
                sys.executable, "-c", _FIRST,
            ]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "up\n":
            raise RuntimeError("no namespaces to be had here")
        self.pid = self._first()
        self._prepare()

    def _first(self) -> int:
        """The machine's first process as it is known outside."""
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        until(lambda: bool(children.read_text().split()), seconds=60, what="the machine's first process")
        return int(children.read_text().split()[0])

    def _prepare(self) -> None:
        for folder in _OWN:
            if Path(folder).is_dir():
                own = self.home / "own" / folder.strip("/").replace("/", "-")
                own.mkdir(parents=True)
                self.run("mount", "--bind", str(own), folder)
        self.run("ip", "link", "set", "lo", "up")
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for hierarchy in self._hierarchies():
            group = hierarchy / self.cgroup
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / name).exists():
                    (group / name).write_text((hierarchy / name).read_text())
            if (group / "cpu.shares").exists():
                (group / "cpu.shares").write_text(_SHARES)
                system = group / _SYSTEM
                system.mkdir(exist_ok=True)
                (system / "cpu.shares").write_text(_SYSTEM_SHARES)
                self._system.append(system)

    @staticmethod
    def _hierarchies() -> list[Path]:
        return [
            path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink() and path.name != "unified"
        ]

    def inside(self, *command: str) -> list[str]:
        """The command so that it runs in this machine."""
        return joining(self._system, ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", "--", *command])

    def run(self, *command: str, text: str | None = None, seconds: float = 120) -> str:
        """What a command prints in this machine. Raises RuntimeError."""
        return run(*self.inside(*command), text=text, seconds=seconds)

    def start(self, name: str, *command: str) -> Service:
        """A service; its log is `NAME.log` in the machine's home."""
        service = Service(name, self.inside(*command), self.home / f"{name}.log")
        self.services[name] = service
        service.start()
        return service

    def stop(self) -> None:
        """End everything in it, and remove its control groups."""
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()
        for service in self.services.values():
            service.stop(how=signal.SIGKILL)
        # runc makes one in the unified hierarchy, too, where that is mounted beside the others.
        for hierarchy in (path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()):
            _remove_group(hierarchy / self.cgroup)


def _remove_group(group: Path) -> None:
    """A control group with those in it; a killed process leaves its own a moment after it was killed."""
    deadline = time.monotonic() + 120
    for folder, _, _ in list(os.walk(group, topdown=False)):
        while True:
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                break
