"""`damage.json`: a process of this store has met damage in its log, so the next one reads all of it before it goes on.

    {"format":1,"places":[{"path":"commitlog/00000000000000000000","offset":4711,"what":"the record checksum ..."}]}

A start reads only the end of the log. So what was met elsewhere is written down before the process that met it ends,
and the file goes when the whole log was found sound.
"""

from pathlib import PurePath

import msgspec

from logherd.store.errors import StoreDamaged
from logherd.store.files import Files
from logherd.store.readable import is_unreadable
from logherd.store.whole_file import replace_file

__all__ = ["DAMAGE_NOTE", "Place", "forget_damage", "note_damage", "noted_damage"]

DAMAGE_NOTE = "damage.json"
_PLACES_MAX = 64


class Place(msgspec.Struct, frozen=True):
    """Where damage was met: a file of the store, a byte in it, and what is wrong there."""

    path: str
    offset: int
    what: str


class _Note(msgspec.Struct, frozen=True):
    format: int
    places: tuple[Place, ...]


def noted_damage(files: Files, root: str) -> tuple[Place, ...]:
    """What earlier processes have met; empty if nothing. A note that cannot be read is one all the same."""
    path = f"{root}/{DAMAGE_NOTE}"
    size = files.size(path)
    if size is None:
        return ()
    file = files.open(path)
    try:
        return msgspec.json.decode(file.read(0, size), type=_Note).places or (Place("", 0, "nobody wrote where"),)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return (Place(DAMAGE_NOTE, 0, f"the note itself is damaged: {error}"),)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return (Place(DAMAGE_NOTE, 0, f"the note itself cannot be read: {error.strerror}"),)
    finally:
        file.close()


def note_damage(files: Files, root: str, error: StoreDamaged) -> None:
    """Add a place to the note, durably. Blocks. Raises: StoreFull, OSError."""
    path = PurePath(error.path)
    if path.is_relative_to(root):  # not of the text: a root may be given with a slash at its end, and the like
        path = path.relative_to(root)
    place = Place(str(path), error.offset, error.what)
    known = noted_damage(files, root)
    if place not in known and len(known) < _PLACES_MAX:
        replace_file(files, root, DAMAGE_NOTE, (msgspec.json.encode(_Note(1, (*known, place))),))


def forget_damage(files: Files, root: str) -> None:
    """The whole log is sound. Blocks; durable. Raises: OSError."""
    files.unlink(f"{root}/{DAMAGE_NOTE}")
    files.sync_dir(root)
