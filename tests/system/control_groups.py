"""Control groups of version 1 that a test makes, and removes: a process with less of something than there is."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from system.faults import prove_within

__all__ = ["ControlGroup"]


class ControlGroup:
    """One, below a controller's folder. `limits` are its files and what is written to them."""

    def __init__(self, controller: Path, whose: str, limits: Mapping[str, str]) -> None:
        self._controller = controller
        self._folder = controller / f"logherd-{os.getpid()}-{whose}"
        self._limits = limits

    def enter(self, pid: int) -> None:
        """Make it, and have all threads of a process in it."""
        self._folder.mkdir()
        for name, value in self._limits.items():
            (self._folder / name).write_text(value)
        (self._folder / "cgroup.procs").write_text(str(pid))

    def read(self, name: str) -> str:
        """What one of its files says."""
        return (self._folder / name).read_text()

    def leave(self) -> None:
        """Let everybody out, and remove it; nothing if it was not made."""
        if not self._folder.exists():
            return
        for pid in self.read("cgroup.procs").split():
            with contextlib.suppress(ProcessLookupError):
                (self._controller / "cgroup.procs").write_text(pid)
        prove_within(10, f"{self._folder.name} is empty", lambda: not self.read("tasks"))
        self._folder.rmdir()

    def prove_left(self) -> None:
        """Raises: AssertionError."""
        assert not self._folder.exists(), self._folder
