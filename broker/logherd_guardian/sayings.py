"""One line for whoever reads stderr, dropped if nobody does: the guardian waits for no reader."""

import os
import select

__all__ = ["say"]

_LINE_MAX = select.PIPE_BUF


def say(text: str) -> None:
    """Write a line if that cannot block. stderr is shared with the child, so it may not be made non-blocking."""
    line = f"logherd-guardian: {text}\n".encode(errors="replace")[:_LINE_MAX]
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    try:
        if any(mask & select.POLLOUT for _, mask in writable.poll(0)):
            os.write(2, line)
    except OSError:
        return
