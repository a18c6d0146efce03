"""`python -m logherd.cli.nursery ROOM`: see the package."""

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

__all__: list[str] = []

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
        lent = await_guardian(theirs, guardian)
        if lent is None:
            return 0
        os.environ.update(lent)
        return start_process(kind, config, [], ready_file, guarded=False)
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
