"""Recovery as decision tables: what was found -> what to do, each row with its reason.

Every table lists facts with few values and rows of patterns over them. For each combination of facts exactly one row
must match (a test walks through all of them); none matching stops the process, since then the code does not understand
the disk.

1. STORE_ROWS: is this a store, whose, and which parts of it can be believed?
2. SEGMENT_ROWS: is each file of the log as long as it should be, and where it should be?
3. TAIL_ROWS: the records end here: in order, torn, or damaged?
4. DERIVED_ROWS: derive again everything, or only what came after the checkpoint?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from logherd.kit.errors import ensure
from logherd.store.format_file import FormatState

__all__ = [
    "DERIVED_ROWS", "SEGMENT_ROWS", "STORE_ROWS", "TAIL_ROWS", "DerivedAction", "Fact", "Length", "Place", "Row",
    "Seen", "SegmentAction", "SlotState", "StoreAction", "TailAction", "choose",
]  # fmt: skip

_A = TypeVar("_A", bound=Enum)
Fact = Enum | bool


@dataclass(frozen=True, slots=True)
class Row(Generic[_A]):
    """`when` maps a fact to the values that match; a fact that is not named matches whatever it is."""

    label: str
    when: Mapping[str, Sequence[Fact]]
    action: _A
    reason: str

    def matches(self, facts: Mapping[str, Fact]) -> bool:
        return all(facts[name] in values for name, values in self.when.items())


def choose(rows: Sequence[Row[_A]], facts: Mapping[str, Fact]) -> Row[_A]:
    """The one row that matches. Raises InvariantError if none or several do."""
    found = [row for row in rows if row.matches(facts)]
    ensure(len(found) == 1, "exactly one recovery row matches", dict(facts), [row.label for row in found])
    return found[0]


class SlotState(Enum):
    """The checkpoint's own slots."""

    ABSENT = "no slot of ours"
    BAD = "ours, but no slot is whole"
    UNKNOWN = "of an unknown version"
    GOOD = "good"


class StoreAction(Enum):
    CREATE = "make a new store"
    OPEN = "open from the checkpoint"
    OPEN_UNCHECKED = "read the whole log, derive everything"
    ADOPT = "take over a RocketMQ store: read the whole log, derive everything"
    REFUSE = "refuse: damaged"
    REFUSE_VERSION = "refuse: unknown version"


_NO_FORMAT = (FormatState.ABSENT,)
_KNOWN = (FormatState.KNOWN,)
_USABLE = (FormatState.ABSENT, FormatState.KNOWN)
_NO_SLOT = (SlotState.ABSENT, SlotState.BAD)

STORE_ROWS: tuple[Row[StoreAction], ...] = (
    Row("format unknown", {"format": (FormatState.UNKNOWN,)}, StoreAction.REFUSE_VERSION,
        "store.json names a format of a later release; reading it by our rules could cut what is whole"),
    Row("checkpoint unknown", {"format": _USABLE, "slot": (SlotState.UNKNOWN,)}, StoreAction.REFUSE_VERSION,
        "a later release wrote the checkpoint, so it may also have written the log by later rules"),
    Row("wrong magic", {"format": (FormatState.GARBAGE,)}, StoreAction.REFUSE,
        "something is called store.json that no store wrote: a wrong directory, or damage"),
    Row("new", {"format": _USABLE, "slot": _NO_SLOT, "segments": (False,)}, StoreAction.CREATE,
        "nothing was ever promised here; a creation that was interrupted begins again"),
    Row("nothing yet", {"format": _USABLE, "slot": (SlotState.GOOD,), "segments": (False,), "promised": (False,)},
        StoreAction.CREATE, "the checkpoint promises no byte, so a missing first segment lost none"),
    Row("log missing", {"format": _USABLE, "slot": (SlotState.GOOD,), "segments": (False,), "promised": (True,)},
        StoreAction.REFUSE, "bytes were flushed, no segment is there: a volume is not mounted, or files were deleted"),
    Row("ours", {"format": _KNOWN, "slot": (SlotState.GOOD,), "segments": (True,)}, StoreAction.OPEN,
        "the usual case"),
    Row("format lost", {"format": _NO_FORMAT, "slot": (SlotState.GOOD,), "segments": (True,)}, StoreAction.OPEN,
        "the checkpoint tells that the store is ours; store.json can be written again"),
    Row("checkpoint lost", {"format": _KNOWN, "slot": _NO_SLOT, "segments": (True,)}, StoreAction.OPEN_UNCHECKED,
        "without a checkpoint nothing says how far derived files go, so all is derived again"),
    Row("checkpoint and format lost", {"format": _NO_FORMAT, "slot": (SlotState.BAD,), "segments": (True,)},
        StoreAction.OPEN_UNCHECKED, "slots with our magic tell that the store is ours, though none is whole"),
    Row("RocketMQ's", {"format": _NO_FORMAT, "slot": (SlotState.ABSENT,), "segments": (True,)}, StoreAction.ADOPT,
        "a commit log without any file of ours was written by RocketMQ"),
)  # fmt: skip


class Length(Enum):
    """How long a file of the log is."""

    EMPTY = "empty"
    SHORT = "shorter than segments of this store are"
    FULL = "as long as a segment, or as the next file's name says"
    LONG = "reaching into the next file, or a replica's last one and longer than it was made"


class Place(Enum):
    """Where a file of the log stands among the others."""

    INSIDE = "followed by the file that begins where it ends or by one that should"
    GAP = "followed by a file that begins later than it ends"
    LAST = "last"


class SegmentAction(Enum):
    KEEP = "keep"
    LENGTHEN = "allocate the rest; on a full disk a broker alone keeps it as the segment it is"
    COMPLETE = "allocate the rest"
    DELETE = "delete"
    REFUSE = "refuse: damaged"


_NOT_EMPTY = (Length.SHORT, Length.FULL)

SEGMENT_ROWS: tuple[Row[SegmentAction], ...] = (
    Row("deleted before", {"below_start": (True,)}, SegmentAction.DELETE,
        "retention had recorded that it goes and was interrupted"),
    Row("first missing", {"below_start": (False,), "first_missing": (True,)}, SegmentAction.REFUSE,
        "the log should begin earlier: files are missing that retention did not delete"),
    Row("overlap", {"below_start": (False,), "first_missing": (False,), "length": (Length.LONG,),
                    "place": (Place.INSIDE, Place.GAP)}, SegmentAction.REFUSE, "two files claim the same positions"),
    Row("last, too long", {"below_start": (False,), "first_missing": (False,), "length": (Length.LONG,),
                           "place": (Place.LAST,)}, SegmentAction.REFUSE,
        "the log would go on in it where all other replicas have begun the next file"),
    Row("inside", {"below_start": (False,), "first_missing": (False,), "length": (Length.FULL,),
                   "place": (Place.INSIDE,)}, SegmentAction.KEEP, "as it should be"),
    Row("gap", {"below_start": (False,), "first_missing": (False,), "length": (Length.EMPTY, *_NOT_EMPTY),
                "place": (Place.GAP,)}, SegmentAction.REFUSE,
        "positions are missing between two files: a file was deleted or shortened"),
    Row("inside, short", {"below_start": (False,), "first_missing": (False,), "length": (Length.EMPTY, Length.SHORT),
                          "place": (Place.INSIDE,)}, SegmentAction.REFUSE,
        "a file that ends where the next begins cannot be short; the facts contradict each other"),
    Row("creation interrupted", {"below_start": (False,), "first_missing": (False,), "length": (Length.EMPTY,),
                                 "place": (Place.LAST,), "promised": (False,)}, SegmentAction.DELETE,
        "the crash came between making the name and allocating; nothing in it was promised"),
    Row("allocation interrupted", {"below_start": (False,), "first_missing": (False,), "length": (Length.SHORT,),
                                   "place": (Place.LAST,), "promised": (False,)}, SegmentAction.COMPLETE,
        "its length was not yet durable; nothing in it was promised"),
    Row("last", {"below_start": (False,), "first_missing": (False,), "length": (Length.FULL,),
                 "place": (Place.LAST,), "covers": (True,)}, SegmentAction.KEEP, "as it should be"),
    Row("last, promise beyond", {"below_start": (False,), "first_missing": (False,), "length": (Length.FULL,),
                                 "place": (Place.LAST,), "covers": (False,)}, SegmentAction.REFUSE,
        "bytes were flushed behind the last file's end: a file is missing"),
    Row("short, promise kept", {"below_start": (False,), "first_missing": (False,), "length": (Length.SHORT,),
                                "place": (Place.LAST,), "promised": (True,), "covers": (True,)},
        SegmentAction.LENGTHEN, "somebody shortened the file behind its last flushed byte; nothing is lost"),
    Row("short, promise broken", {"below_start": (False,), "first_missing": (False,),
                                  "length": (Length.EMPTY, Length.SHORT), "place": (Place.LAST,), "promised": (True,),
                                  "covers": (False,)}, SegmentAction.REFUSE,
        "flushed bytes lay behind its end"),
    Row("empty, promise kept", {"below_start": (False,), "first_missing": (False,), "length": (Length.EMPTY,),
                                "place": (Place.LAST,), "promised": (True,), "covers": (True,)}, SegmentAction.REFUSE,
        "an empty file cannot hold a promised byte; the facts contradict each other"),
)  # fmt: skip


class Seen(Enum):
    """What lies behind the first byte that is no record."""

    NOTHING = "zeros"
    REMAINS = "bytes that are no record, or records within one unflushed window"
    RECORDS = "a whole record, further away than a write that was never flushed can reach"


class TailAction(Enum):
    END = "the log ends here"
    CUT = "drop what lies behind, durably, before anything else"
    REFUSE = "refuse: damaged"


TAIL_ROWS: tuple[Row[TailAction], ...] = (
    Row("below the promise", {"promised": (True,)}, TailAction.REFUSE,
        "the record was flushed and answered: it is damaged, not torn"),
    Row("records behind", {"promised": (False,), "behind": (Seen.RECORDS,)}, TailAction.REFUSE,
        "what was flushed later is whole, so this was flushed too: damage in the middle, whatever the checkpoint says"),
    Row("end", {"promised": (False,), "behind": (Seen.NOTHING,), "zeros": (True,)}, TailAction.END,
        "the usual case"),
    Row("torn", {"promised": (False,), "behind": (Seen.NOTHING, Seen.REMAINS), "zeros": (False,)}, TailAction.CUT,
        "a write that was never flushed and never answered was cut short"),
    Row("torn, head lost", {"promised": (False,), "behind": (Seen.REMAINS,), "zeros": (True,)}, TailAction.CUT,
        "the first sector of a write was lost and later ones were not; left there they could come back to life"),
)  # fmt: skip


class DerivedAction(Enum):
    CONTINUE = "derive again what came after the checkpoint"
    REBUILD = "throw it away, derive it from the whole log"


DERIVED_ROWS: tuple[Row[DerivedAction], ...] = (
    Row("no checkpoint", {"checkpoint": (False,)}, DerivedAction.REBUILD, "nothing says how far the files go"),
    Row("other geometry", {"checkpoint": (True,), "geometry": (False,)}, DerivedAction.REBUILD,
        "the options for file lengths changed"),
    Row("ahead of the log", {"checkpoint": (True,), "geometry": (True,), "within_log": (False,)},
        DerivedAction.REBUILD, "the files name records that a repair dropped"),
    Row("files damaged", {"checkpoint": (True,), "geometry": (True,), "within_log": (True,), "files_whole": (False,)},
        DerivedAction.REBUILD, "a file is missing, short or unreadable"),
    Row("whole", {"checkpoint": (True,), "geometry": (True,), "within_log": (True,), "files_whole": (True,)},
        DerivedAction.CONTINUE, "the usual case"),
)  # fmt: skip
