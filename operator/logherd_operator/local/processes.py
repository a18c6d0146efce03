"""Processes by pid and start time, so that a pid that the kernel gave to somebody else is never signalled."""

import os
import select
import signal
import subprocess
from pathlib import Path

from logherd_operator.local.errors import LocalError

__all__ = ["child_ticks", "is_alive", "signal_process", "start_process", "started_ticks", "stop_process"]

_PARENT_FIELD, _START_TIME_FIELD = 1, 19  # after the command's closing parenthesis in /proc/PID/stat


def started_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot; None if there is none, or only its exit code is left."""
    fields = _fields(pid)
    return None if fields is None else int(fields[_START_TIME_FIELD])


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


def signal_process(pid: int, ticks: int, number: int) -> bool:
    """Send a signal to exactly that process; False if it does not live. Raises: LocalError if we may not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
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


def stop_process(pid: int, ticks: int, *, seconds: float) -> str:
    """Ask the process to stop; kill it when it has not stopped within `seconds`. Blocks for that long at most.

    The result is "gone" (it did not live), "stopped" or "killed". Raises: LocalError if we may not stop it.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return "gone"
    try:
        # The descriptor names one process for good; the start time tells whether it is the one that we mean.
        if not is_alive(pid, ticks):
            return "gone"
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if _ended(descriptor, seconds):
            return "stopped"
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _ended(descriptor, seconds)
    except ProcessLookupError:
        return "stopped"
    except PermissionError as error:
        raise LocalError(f"you may not stop process {pid}: it belongs to another user") from error
    finally:
        os.close(descriptor)
    return "killed"


def _ended(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
