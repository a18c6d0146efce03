"""What one replica gives another one to mend damage with: committed records as they lie here, each verified.

It is read from the files, so it is the same for a store that is open and for one that is being mended itself.
"""

from enum import StrEnum
from struct import Struct
from typing import NamedTuple

import msgspec

from logherd.kit.checksum import crc32
from logherd.model.record import BLANK_MAGIC, BLANK_SIZE_MIN, RecordError
from logherd.store.files import Files
from logherd.store.mending import Neighbour, replica_checkpoint
from logherd.store.readable import Unreadable
from logherd.store.scan import Scanned, find_record, read_whole, scan_records
from logherd.store.segment import Segment
from logherd.store.verify import open_segments

__all__ = ["Kept", "Piece", "PieceAsk", "PieceState", "lies_in_record", "read_piece"]

_U32X2 = Struct(">II")
_RECORD_BYTES_MAX = 16 << 20
"""A longer one does not fit into the frames in which replicas ship. It bounds what is read on the word of an asker, or
of what is no record."""
_SEARCH_BYTES = 1 << 20
_FURTHER_MAX = 16


class PieceAsk(msgspec.Struct, frozen=True, kw_only=True):
    """Records from position `start` on until `end` is passed, if these are the whole records before and behind them.
    `further`: more of those behind, in order, for who has neither. A release without this passes over it."""

    start: int
    end: int
    before: Neighbour | None = None
    after: Neighbour | None = None
    further: tuple[Neighbour, ...] = ()


class PieceState(StrEnum):
    """What came of it."""

    WHOLE = "whole"
    NOT_YET = "not known to be committed here"
    GONE = "deleted here"
    DIFFERS = "another log is committed here"
    DAMAGED = "damaged here, too"


class Piece(NamedTuple):
    """`data` holds records of one segment, at least one, up to `end`; of a blank the head alone, as in store.raw. `at`:
    the position of what is damaged here; of what is given, of what stands beside it. None: nothing that was met."""

    state: PieceState
    data: bytes = b""
    end: int = 0
    at: int | None = None


class Kept(NamedTuple):
    """What is committed of a log, and still there. `held`: up to where it goes on behind that."""

    start: int
    end: int
    held: int = 0


def read_piece(files: Files, root: str, ask: PieceAsk, kept: Kept, *, bytes_max: int) -> Piece:
    """Up to `bytes_max` bytes, or one record. Blocks for one read. Raises: StoreDamaged for the checkpoint; OSError.

    Of what stands beside it one is enough to see that it is the same log, if the other one is damaged here: else two
    replicas of which each lacks what is next to the damage of the other would give each other nothing. If all that is
    damaged, one further behind is, too: of two logs in which it lies at the same place all before it is the same. If
    there is none, nothing is given; whether the log is the asker's is not known yet, but what is whole here is not
    lost. Of what is not known to be committed here nothing is given, or said, unless both are the same.
    """
    beside = [each for each in (ask.before, ask.after) if each is not None]
    needed = max(ask.start + 1, ask.end, *(max(each.start + 1, each.end) for each in beside))
    if ask.start < kept.start:
        return Piece(PieceState.GONE)
    if needed > kept.end and (len(beside) < 2 or needed > kept.held):
        return Piece(PieceState.NOT_YET)
    bare_end = replica_checkpoint(files, root).bare_end
    segments = open_segments(files, root)
    try:
        if needed > kept.end:
            return _read_held(segments, ask, bytes_max, bare_end)
        found = [_compare(segments, each, bare_end) for each in beside if each.start >= kept.start]
        for each in found:
            if each.state not in (PieceState.WHOLE, PieceState.DAMAGED):
                return each
        damaged = [each for each in found if each.state is PieceState.DAMAGED]
        piece = _read(segments, ask, min(bytes_max, ask.end - ask.start), bare_end)
        if damaged and len(damaged) == len(found):
            if piece.state is not PieceState.WHOLE:
                return damaged[0]
            if not _is_proven(segments, ask, kept.end, bare_end):
                return damaged[0]._replace(state=PieceState.NOT_YET)
        return piece._replace(at=damaged[0].at) if damaged and piece.at is None else piece
    finally:
        for segment in segments:
            segment.close()


def _read_held(segments: list[Segment], ask: PieceAsk, bytes_max: int, bare_end: int) -> Piece:
    """Of what is not known to be committed here, but to the asker, in whose log the same records stand before and
    behind it: then all between them is the same. What stands behind is compared before and after the reading: if this
    log is cut meanwhile, all behind the cut is zeroed before other records come to lie there, the asker's or not."""
    before, after = ask.before, ask.after
    if before is None or after is None or not before.end <= ask.start < ask.end <= after.start:
        return Piece(PieceState.NOT_YET)
    if all(_compare(segments, each, bare_end).state is PieceState.WHOLE for each in (before, after)):
        piece = _read(segments, ask, min(bytes_max, ask.end - ask.start), bare_end)
        if piece.state is PieceState.WHOLE and _compare(segments, after, bare_end).state is PieceState.WHOLE:
            return piece
    return Piece(PieceState.NOT_YET)


def _is_proven(segments: list[Segment], ask: PieceAsk, committed: int, bare_end: int) -> bool:
    """Whether one of those further behind is in this log, and none is another one."""
    further = [each for each in ask.further[:_FURTHER_MAX] if ask.end <= each.start < each.end <= committed]
    states = {_compare(segments, each, bare_end).state for each in further}
    return PieceState.WHOLE in states and states <= {PieceState.WHOLE, PieceState.DAMAGED}


def _segment_at(segments: list[Segment], position: int) -> Segment | None:
    return next((each for each in segments if each.start <= position < each.end), None)


def _compare(segments: list[Segment], neighbour: Neighbour, bare_end: int) -> Piece:
    segment = _segment_at(segments, neighbour.start)
    if segment is None:
        return Piece(PieceState.GONE)
    if not 0 < neighbour.end - neighbour.start <= _RECORD_BYTES_MAX:
        return Piece(PieceState.DIFFERS)
    at = neighbour.start - segment.start
    try:
        segment.readable.ensure(at, min(neighbour.end - segment.start, segment.size))
        if crc32(segment.view[at : neighbour.end - segment.start]) == neighbour.checksum:
            return Piece(PieceState.WHOLE)
    except RecordError:
        return _unreadable(segment, at, bare_end)
    return Piece(PieceState.DIFFERS) if _is_whole(segment, at, bare_end) else _unreadable(segment, at, bare_end)


def _unreadable(segment: Segment, place: int, bare_end: int) -> Piece:
    """What it means that no whole record begins at this byte of a segment: damage, unless a blank one does, or one that
    is whole lies across it. Then the asker's log is another one, and a sound log must not be taken for a damaged one on
    its word. Near before the place there is a record, unless a large one is there, or damage: only then more is read,
    but no more than what a record can take."""
    if _ends_file(segment, place):
        return Piece(PieceState.DIFFERS)
    for back in (_SEARCH_BYTES, _RECORD_BYTES_MAX):
        across = _lies_across(segment, max(place - back, 0), place, bare_end)
        if across is not None:
            break
    return Piece(PieceState.DIFFERS) if across else Piece(PieceState.DAMAGED, at=segment.start + place)


def lies_in_record(segment: Segment, position: int, bare_end: int) -> bool:
    """Whether a whole record, or the blank one, lies across a position, as far as 1 MiB before it tells."""
    place = position - segment.start
    if not segment.is_mappable or _ends_file(segment, place) or _is_whole(segment, place, bare_end):
        return False
    return bool(_lies_across(segment, max(place - _SEARCH_BYTES, 0), place, bare_end))


def _lies_across(segment: Segment, first: int, place: int, bare_end: int) -> bool | None:
    """Whether a walk from the first record that begins at byte `first` or behind ends in one that holds the place; a
    walk from further back would pass that one. None: none begins there."""
    view, at = segment.view, first
    if first:
        found = find_record(view, segment.start, first, place, bare_end=bare_end, readable=segment.readable)
        if found is None:
            return None
        at = found.position - segment.start
    while at < place:
        try:
            segment.readable.ensure(at, at + BLANK_SIZE_MIN)
        except Unreadable:
            break
        size, _ = _U32X2.unpack_from(view, at)
        if size < BLANK_SIZE_MIN:
            break
        if at + size > place:
            return _ends_file(segment, at) or _is_whole(segment, at, bare_end)
        at += size
    return False


def _ends_file(segment: Segment, at: int) -> bool:
    """Whether a blank record begins there."""
    try:
        segment.readable.ensure(at, at + BLANK_SIZE_MIN)
    except Unreadable:
        return False
    size, magic = _U32X2.unpack_from(segment.view, at)
    return bool(magic == BLANK_MAGIC and at + size == segment.size)


def _is_whole(segment: Segment, at: int, bare_end: int) -> bool:
    try:
        segment.readable.ensure(at, at + BLANK_SIZE_MIN)
        if _U32X2.unpack_from(segment.view, at)[0] > _RECORD_BYTES_MAX:
            return False
        read_whole(segment.view, at, segment.start + at, bare_end, segment.readable)
    except RecordError:
        return False
    return True


def _read(segments: list[Segment], ask: PieceAsk, bytes_max: int, bare_end: int) -> Piece:
    segment = _segment_at(segments, ask.start)
    if segment is None:
        return Piece(PieceState.GONE)
    first = at = ask.start - segment.start
    if not _ends_file(segment, first) and not _is_whole(segment, first, bare_end):
        return _unreadable(segment, first, bare_end)
    for found in scan_records(segment.view, segment.start, at, bare_end, segment.readable):
        if isinstance(found, Scanned):
            if at > first and at - first + found.size > bytes_max:
                break
            at = found.position + found.size - segment.start
            if at - first >= bytes_max:
                break
        elif found.reason is None and found.offset > at:  # a blank; of a rest too small for one nothing is there
            return Piece(PieceState.WHOLE, bytes(segment.view[first : at + BLANK_SIZE_MIN]), segment.end)
    return Piece(PieceState.WHOLE, bytes(segment.view[first:at]), segment.start + at)
