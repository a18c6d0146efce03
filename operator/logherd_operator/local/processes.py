"""Processes by pid and start time, so that a pid that the kernel gave to somebody else is never signalled. In another
boot both may come again: what was written down goes by `boot_id`, too."""

import errno
import os
import signal
import subprocess
from pathlib import Path

from logherd_operator.local.errors import LocalError
from logherd_operator.local.state import Process

__all__ = ["boot_id", "child_ticks", "is_alive", "lives", "signal_process", "start_process", "started_ticks"]

_NO_PROCESS = (errno.ESRCH, errno.EINVAL, errno.ENOENT)
"""There is none of that number, or, in the words of older and newer kernels, it is a thread of another one."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PARENT_FIELD, _START_TIME_FIELD = 1, 19  # after the command's closing parenthesis in /proc/PID/stat


def started_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot; None if there is none, or only its exit code is left."""
    fields = _fields(pid)
    return None if fields is None else int(fields[_START_TIME_FIELD])


def boot_id() -> str:
    """What the kernel has drawn since the machine was started; "" where it does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def child_ticks(pid: int, parent: int) -> int | None:
    """The same of a process whose parent is `parent`; None for anybody else's."""
    fields = _fields(pid)
    return None if fields is None or int(fields[_PARENT_FIELD]) != parent else int(fields[_START_TIME_FIELD])


def _fields(pid: int) -> list[bytes] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()  # a name in it is any bytes, also half a letter
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else fields


def is_alive(pid: int, ticks: int) -> bool:
    """Does exactly the process live that was started as `pid` at `ticks`?"""
    return started_ticks(pid) == ticks


def lives(process: Process | None) -> bool:
    """The same of a process that was written down, if one was."""
    return process is not None and is_alive(process.pid, process.ticks)


def start_process(command: list[str], *, output: Path, inherited: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, so that only we hear the terminal's Ctrl-C.

    Its output goes to the end of the file `output`. Raises: LocalError if that is not possible.
    """
    try:
        with output.open("ab") as file:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, pass_fds=inherited
            )  # fmt: skip
    except OSError as error:
        raise LocalError(f"cannot start {' '.join(command[:4])}: {error}") from error


def _opened(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in _NO_PROCESS:
            return None
        raise LocalError(f"process {pid} cannot be reached: {error.strerror}") from error


def signal_process(pid: int, ticks: int, number: int) -> bool:
    """Send a signal to exactly that process; False if it does not live. Raises: LocalError if we may not."""
    descriptor = _opened(pid)
    if descriptor is None:
        return False
    try:
        # The descriptor names one process for good; the start time tells whether it is the one that we mean.
        if not is_alive(pid, ticks):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise LocalError(f"you may not signal process {pid}: it belongs to another user") from error
    finally:
        os.close(descriptor)
    return True
