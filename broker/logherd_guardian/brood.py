"""The guardian's processes: the child, what it leaves behind, and strangers that the kernel hands over. Blocks for
nothing but `fork`.
"""

import ctypes
import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

from logherd_guardian.waiting import Waiting

__all__ = ["FORWARDED", "STOPPING", "Brood"]

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
FORWARDED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_RESTORED = (*STOPPING, *FORWARDED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that this interpreter or the guardian changed; a child starts without that."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CANNOT_EXECUTE = 126
_NOT_FOUND = 127
_TRY_AGAIN = 75
"""By the system's own names of exit codes: EX_TEMPFAIL."""
_MOMENTARY = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY})
"""What is wanting now and may be there soon."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


class Brood:
    """At most one child at a time, and whatever came of it."""

    def __init__(self, waiting: Waiting | None = None) -> None:
        """Orphans of the child become the guardian's from now on. Raises: OSError if the system forbids that."""
        self.child: int | None = None
        self.spared = _children()
        """Processes of the guardian's own, and of whoever became the guardian by `exec`, which are no leftovers."""
        self._waiting = waiting
        self._last_child = 0
        self._is_init = os.getpid() == 1
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], lent: Iterable[int]) -> None:
        """Start the child with these descriptors and no other above 2. Raises: OSError if the system refuses to fork.

        A command that cannot be executed becomes an exit with 126 or 127, with 75 if it may soon.
        """
        self._sweep()
        guardian = os.getpid()
        # Until its handlers are reset, a signal for the child would be taken for one of the guardian's.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _become(command, environment, lent, guardian, held)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        self.child = self._last_child = pid

    def wake(self, incarnation: str, lent: Mapping[str, int], page: int) -> bool:
        """Have the child that waits begin, with these descriptors; False if none waits (any more): `spawn` one."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return False
        self.spared.discard(waiting.pid)
        if not waiting.begin(incarnation, lent, page):
            return False
        self.child = self._last_child = waiting.pid
        return True

    def kill(self, number: int) -> None:
        """Send the child a signal, if there is one. It is not reaped yet, so its id cannot be somebody else's.

        Raises: PermissionError if the child has become another user's.
        """
        if self.child is not None:
            os.kill(self.child, number)

    def reap(self) -> int | None:
        """Collect every process that has ended; the child's exit code, or minus its signal, if it is among them.

        What the child leaves behind is killed first, while its process group cannot be another's.
        """
        status = None
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return status
            if ended is None:
                return status
            if ended.si_pid == self.child:
                _kill_group(ended.si_pid)
                self.child = None
                self._sweep(dying=ended.si_pid)
                status = os.waitstatus_to_exitcode(os.waitpid(ended.si_pid, 0)[1])
            else:
                os.waitpid(ended.si_pid, 0)
                self.spared.discard(ended.si_pid)
                if self.child is None:
                    self._sweep()  # its own children have just become the guardian's

    def _sweep(self, *, dying: int = 0) -> None:
        """Kill what earlier children left. As init, only what belongs to the session of the last one."""
        for pid in _children() - self.spared - {dying}:
            try:
                if not self._is_init or os.getsid(pid) == self._last_child:
                    os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it is gone, or has become another user's


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody else is in it


def _children() -> set[int]:
    pid = os.getpid()
    try:
        with open(f"/proc/self/task/{pid}/children", "rb") as listed:  # noqa: PTH123 - pathlib costs a megabyte
            return {int(each) for each in listed.read().split()}
    except OSError:
        return set()  # a kernel without that list: the process group has to do


def _become(
    command: Sequence[str],
    environment: Mapping[str, str],
    lent: Iterable[int],
    guardian: int,
    mask: Iterable[int],
) -> None:
    """Turn this fork into the child. Does not return."""
    code = _CANNOT_EXECUTE
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # it died before it could be bound to
            os._exit(code)
        for descriptor in lent:
            os.set_inheritable(descriptor, True)  # noqa: FBT003
        signal.set_wakeup_fd(-1)
        for number in _RESTORED:
            if number in {signal.SIGPIPE, signal.SIGXFSZ} or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        if error.errno in _MOMENTARY:
            code = _TRY_AGAIN
        elif isinstance(error, FileNotFoundError):
            code = _NOT_FOUND
        os.write(2, f"logherd-guardian: {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(code)
