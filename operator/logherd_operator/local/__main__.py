"""The process that `logherd up --detach` leaves behind: `python -m logherd_operator.local DIR LOCK_FD WRITTEN_FD`.

It begins when nobody has the other end of WRITTEN_FD any more: who started it has written down by then who it is, in
the file that is this process' own from then on.
"""

import os
import signal
import sys
import time
from pathlib import Path

from logherd_operator.local.folder import Folder
from logherd_operator.local.signals import stopping_signals
from logherd_operator.local.up import keep_on
from logherd_operator.spec.errors import OperatorError

__all__: list[str] = []


def _say(line: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stdout.write(f"{stamp} {line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Keep the group of a folder until SIGTERM; the result is the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, descriptor, written = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    try:
        with stopping_signals(), os.fdopen(descriptor, "w") as lock:
            with os.fdopen(written, "rb") as word:
                word.read()
            return keep_on(Folder(folder), lock, _say)
    except OperatorError as error:
        _say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
