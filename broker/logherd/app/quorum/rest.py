"""When a member of a quorum last said anything, kept over an orderly stop.

What a member promised by messages (to vote for nobody else while a leader may count on it) ends by time. A process that
starts does not know how long ago its last life spoke, and must owe all of it; unless that life left word here. The word
is of one boot of one machine, whose clock it was read from, and is taken away before the next life speaks: after a
crash there is none.
"""

import json
from pathlib import Path

from logherd.app.clock import boot_id, boot_ms

__all__ = ["leave_word", "take_word"]

_NAME = "silent-since.json"


def leave_word(directory: Path) -> None:
    """Nothing is said by this member from now on. Where it cannot be written, the next life waits."""
    try:
        (directory / _NAME).write_text(json.dumps({"boot": boot_id(), "at": boot_ms()}))
    except OSError:
        pass


def take_word(directory: Path) -> int | None:
    """Since when nothing was said, on the clock of `boot_ms`; None if nobody knows. To be called before anything is.

    Raises: OSError if it is there and cannot be removed: then it would speak for this life, too.
    """
    path = directory / _NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    path.unlink()
    try:
        said = json.loads(text)
        at = int(said["at"])
        same = said["boot"] == boot_id()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return at if same and at <= boot_ms() else None
