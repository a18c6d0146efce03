"""One line for whoever reads stderr, dropped if nobody does: the guardian waits for no reader.

The lines of its child stand between these, so they have the same form: text or a JSON object, each with the time.
"""

import os
import select
import time

__all__ = ["Sayings", "complain", "say"]

_TEXT_MAX = 600
"""In characters: with what each may become in JSON a line stays below PIPE_BUF, and so in one piece."""


class Sayings:
    """How this process writes. One for all, as stderr is."""

    as_json = False


def say(text: str) -> None:
    """Tell what has happened."""
    now, text = time.time(), text[:_TEXT_MAX]
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
    if Sayings.as_json:
        said = "".join(each if each >= " " and each not in '"\\' else f"\\u{ord(each):04x}" for each in text)
        _write(f'{{"time": "{at}", "level": "INFO", "source": "logherd.guardian", "message": "{said}"}}')
    else:
        _write(f"{at} logherd-guardian: {text}")


def complain(text: str) -> None:
    """The same to a person who has just typed the command."""
    _write(f"logherd-guardian: {text[:_TEXT_MAX]}")


def _write(line: str) -> None:
    # stderr is shared with the child, so it may not be made non-blocking: what could block is not written.
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    try:
        if any(mask & select.POLLOUT for _, mask in writable.poll(0)):
            os.write(2, f"{line}\n".encode(errors="replace"))
    except OSError:
        return
