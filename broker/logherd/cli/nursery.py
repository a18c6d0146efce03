"""`python -m logherd.cli.nursery ROOM`: imports once what brokers and controllers are made of, then forks as many of
them as are ordered. Importing is most of a process' start, and a group of three begins six processes at once.

    first it says   ready
    a line in       {"kind": "broker" or "controller", "config": FILE, "ready_file": FILE, "output": FILE}
    a line out      pid of the guardian, or nothing if it could not be forked

What comes of an order is the same as `logherd KIND --guarded --config FILE --ready-file FILE` with its output at the
end of a file, in a session of its own: a guardian, which is a new program, and the process as its child, which is a
fork of this one. Only that first life is; the guardian starts the next ones as ever. Ends with its input; the
guardians are then its parent's, if that adopts orphans.

There is one thread, and this process opens nothing and draws nothing at random before it forks: forks share only code.
`ps` shows a fork's own command in the place of ours, which is as long as ROOM makes it.
"""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logherd.app.guarded.waiting import await_guardian
from logherd.cli.processes import guardian_command, import_processes, plain_command, start_process
from logherd.settings.errors import SettingsError

__all__ = ["main"]

_BEGIN, _END = 45, 46  # of the fields after the command's closing parenthesis in /proc/PID/stat: where its words stand
_WRONG_SETTINGS = 2


def main() -> int:
    """Serve orders until there are no more. Returns in the forks, too, with their exit codes."""
    import_processes()
    os.write(1, b"ready\n")
    for line in sys.stdin.buffer:
        order = json.loads(line)
        try:
            output = os.open(order["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            guardian = os.fork()
        except OSError:
            os.write(1, b"\n")
            continue
        if guardian == 0:
            return _begin(order, output)
        os.close(output)
        os.write(1, b"%d\n" % guardian)
    os._exit(0)  # nothing to put away


def _begin(order: dict[str, Any], output: int) -> int:
    """Fork once more: this process becomes the guardian, its fork the first life."""
    _let_go(output)
    guardian = os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kind, config, ready_file = order["kind"], order["config"], order["ready_file"]
    child = os.fork()
    if child == 0:
        ours.close()
        _show_as(plain_command(kind, config, (), ready_file))
        return start_process(kind, config, [], ready_file, guarded=False) if await_guardian(theirs, guardian) else 0
    theirs.close()
    try:
        command = guardian_command(kind, config, (), ready_file, waiting=f"{child}:{ours.fileno()}")
    except SettingsError as error:
        sys.stderr.write(f"logherd {kind}: {error}\n")
        return _WRONG_SETTINGS
    ours.set_inheritable(True)
    return os.execv(command[0], command)  # noqa: S606


def _let_go(output: int) -> None:
    """Of whoever started the nursery: this fork reads nothing, and writes to `output`."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _show_as(command: Sequence[str]) -> None:
    """Have other processes see this command line as ours, as far as it fits."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    begin, end = int(fields[_BEGIN]), int(fields[_END])
    text = "\0".join(command).encode(errors="surrogateescape")[: end - begin - 1]
    if begin:
        ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    sys.exit(main())
