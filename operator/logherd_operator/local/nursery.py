"""Guardians and their first processes, forked by a process that has imported the code of them all: that spares each of
them most of its start. It gets ready while others still read the file.

Imports next to nothing, so that it can begin first.
"""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Adopted", "Nursery"]

_PR_SET_CHILD_SUBREAPER = 36
_READY = b"ready\n"
_ROOM = 4000
"""For the command line of a fork, which `ps` shows in the place of its parent's."""


class Adopted:
    """A child of this process that another one has forked; it answers as a Popen does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code once it has ended, which takes it away; None while it lives, or is not ours."""
        if self.returncode is None:
            with suppress(ChildProcessError):
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode


class Nursery:
    """Use as a context manager: the process ends with the block, if it was not closed before."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        # In a session of its own: the terminal's Ctrl-C is for us.
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "logherd.cli.nursery", "-" * _ROOM], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def fork(self, order: Mapping[str, str]) -> Adopted | None:
        """Start the guardian of this order (`logherd.cli.nursery`); None if it has to be started in another way.

        It is the nursery's child until that is closed, and then ours. Blocks until the nursery has imported. To be
        `undivided`: what was forked and not heard of would never be stopped.
        """
        return self._ordered(order) if self.await_ready() else None

    def close(self) -> None:
        """End the process; what it has forked goes on as children of ours."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
            _adopt_orphans(wanted=False)

    def await_ready(self) -> bool:
        """Block until the nursery has imported; False if it is of no use."""
        process = self._process
        if process is not None and process.stdout is not None and not self._is_ready:
            self._is_ready = process.stdout.readline() == _READY
            _adopt_orphans(wanted=True)
        return process is not None and self._is_ready

    def _ordered(self, order: Mapping[str, str]) -> Adopted | None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = process.stdout.readline()
        return Adopted(int(answer)) if answer.strip() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _adopt_orphans(*, wanted: bool) -> None:
    """Whether who comes of us and loses its parent becomes our child. Not for ever: we wait for nobody else's."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
