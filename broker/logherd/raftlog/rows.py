"""Recovery of a member's log as decision tables: what was found -> what to do, each row with its reason.

For each combination of facts exactly one row matches; a test walks through all of them. Refusing changes nothing.
"""

from enum import Enum

from logherd.store.format_file import FormatState
from logherd.store.recovery_rows import Row

__all__ = ["DIRECTORY_ROWS", "IMAGE_ROWS", "TAIL_ROWS", "Behind", "DirectoryAction", "ImageAction", "Newest", "Promise",
           "TailAction"]  # fmt: skip


class Promise(Enum):
    """The slots with term and vote."""

    LOST = "missing, or neither is whole"
    NONE = "whole, nothing promised"
    GIVEN = "whole, with term and vote"


class DirectoryAction(Enum):
    CREATE = "make a new log"
    CLEAR = "begin again: drop what is here"
    OPEN = "open"
    REFUSE = "refuse: damaged"
    REFUSE_VERSION = "refuse: unknown version"


_ABSENT, _KNOWN = (FormatState.ABSENT,), (FormatState.KNOWN,)

DIRECTORY_ROWS: tuple[Row[DirectoryAction], ...] = (
    Row("later release", {"format": (FormatState.UNKNOWN,)}, DirectoryAction.REFUSE_VERSION,
        "reading it by our rules could cut what is whole"),
    Row("not a log", {"format": (FormatState.GARBAGE,)}, DirectoryAction.REFUSE,
        "a file of this name that no log wrote: a wrong directory, or damage"),
    Row("new", {"format": _ABSENT, "content": (False,), "promise": (Promise.LOST, Promise.NONE)},
        DirectoryAction.CREATE, "the format file is made last, so a creation was interrupted or never began"),
    Row("format lost", {"format": _ABSENT, "content": (True,)}, DirectoryAction.REFUSE,
        "records or images are only written once the format file is durable: it was deleted"),
    Row("format lost, promise given", {"format": _ABSENT, "content": (False,), "promise": (Promise.GIVEN,)},
        DirectoryAction.REFUSE, "a term was promised here; beginning anew would forget a vote"),
    Row("promise lost", {"format": _KNOWN, "promise": (Promise.LOST,)}, DirectoryAction.REFUSE,
        "one slot is whole whenever the power goes; both bad is damage, and a second vote in one term could follow"),
    Row("founding interrupted", {"format": _KNOWN, "promise": (Promise.NONE,)}, DirectoryAction.CLEAR,
        "the promise is the last thing a founding writes, so nobody has heard of this member"),
    Row("ours", {"format": _KNOWN, "promise": (Promise.GIVEN,)}, DirectoryAction.OPEN, "the usual case"),
)  # fmt: skip


class Newest(Enum):
    """The newest image that is not below the log's base."""

    NONE = "there is none"
    WHOLE = "whole"
    DAMAGED = "damaged"


class ImageAction(Enum):
    NONE = "go on without"
    USE = "use it"
    USE_OLDER = "use the one before"
    REFUSE = "refuse: damaged"


IMAGE_ROWS: tuple[Row[ImageAction], ...] = (
    Row("joined", {"newest": (Newest.NONE,), "based": (False,)}, ImageAction.NONE,
        "a member that joins has a promise and no image until the group sends one"),
    Row("missing", {"newest": (Newest.NONE,), "based": (True,)}, ImageAction.REFUSE,
        "the records below the base were dropped because an image covered them: it was deleted"),
    Row("whole", {"newest": (Newest.WHOLE,)}, ImageAction.USE, "the usual case"),
    Row("older", {"newest": (Newest.DAMAGED,), "older": (True,)}, ImageAction.USE_OLDER,
        "an image is renamed only when it is flushed, so this is damage; the log reaches back to the one before"),
    Row("damaged", {"newest": (Newest.DAMAGED,), "older": (False,)}, ImageAction.REFUSE,
        "damage, and nothing else covers what was dropped: starting from nothing would be a lie"),
)  # fmt: skip


class Behind(Enum):
    """What lies behind the last record that continues the log."""

    NOTHING = "zeros"
    REMAINS = "bytes within what one window, or an interrupted cut, can have left"
    BEYOND = "bytes further away than unflushed writes can reach"


class TailAction(Enum):
    END = "the log ends here"
    CUT = "drop what lies behind, durably, before anything else"
    REFUSE = "refuse: damaged"


TAIL_ROWS: tuple[Row[TailAction], ...] = (
    Row("below the promise", {"promised": (True,)}, TailAction.REFUSE,
        "the record was flushed and may have been acknowledged: it is damaged, not torn"),
    Row("beyond", {"promised": (False,), "behind": (Behind.BEYOND,)}, TailAction.REFUSE,
        "something later was written, so this was flushed: damage in the middle"),
    Row("end", {"promised": (False,), "behind": (Behind.NOTHING,)}, TailAction.END, "the usual case"),
    Row("torn", {"promised": (False,), "behind": (Behind.REMAINS,)}, TailAction.CUT,
        "a write that was never called durable was cut short, or a cut was interrupted"),
)  # fmt: skip
