"""How far the state of a member is, and when it is worth an image."""

from typing import Any

from logherd.app.quorum.applying import Applying, ImageRule
from logherd.model.names import Epoch, Position
from logherd.raft.record import HEADER_SIZE, Kind, Record
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from unit.app.quorum.group import Lines


def image(at: int) -> Image:
    return Image(str(at), Point(Epoch(1), Position(at)), 0, 0, 9, b"")


class Log:
    """As `RaftLog`: a record at every hundred, also below the image, and one that is no command."""

    def __init__(self, newest: Image | None) -> None:
        self.newest = newest

    def image(self) -> Image | None:
        return self.newest

    def image_chunk(self, which: Image, _offset: int, _size: int) -> bytes:
        return b"\n".join(b"%d" % end for end in range(100, which.point.position + 1, 100))

    def records(self, after: Position, upto: Position) -> list[Record]:
        return [
            Record(
                Kind.NOOP if end == 700 else Kind.DATA, Epoch(1), Position(end - 100), Position(end), 0,
                bytes(HEADER_SIZE) + b"%d" % end,
            )
            for end in range(after + 100, upto + 1, 100)
        ]  # fmt: skip


def applying(
    newest: Image | None, *, records: int = 1_000_000, bytes_: int = 1 << 40
) -> tuple[Applying[int], Lines]:  # fmt: skip
    machine, log = Lines(lambda: None), Log(newest)
    given: Any = log
    return Applying(given, machine, ImageRule(records=records, bytes_=bytes_)), machine


def lines(*ends: int) -> list[bytes]:
    return [b"%d" % end for end in ends]


def test_what_an_image_holds_is_not_applied_again() -> None:
    state, machine = applying(image(300))
    assert (state.position, state.behind) == (300, False)
    state.goal = Position(400)
    assert state.behind
    state.apply_some(keep_results=False)
    assert machine.lines == lines(100, 200, 300, 400)
    assert (state.position, state.behind) == (400, False)


def test_an_image_that_comes_later_takes_the_place_of_what_is_below_it_and_leaves_what_is_above_to_do() -> None:
    state, machine = applying(None)
    state.goal = Position(600)
    state.load(image(500))
    assert state.behind
    state.apply_some(keep_results=False)
    assert machine.lines == lines(100, 200, 300, 400, 500, 600)
    state.load(image(900))
    assert (state.position, state.goal, state.behind) == (900, 900, False)


def test_only_commands_are_applied_and_give_results_to_who_waits_for_them() -> None:
    state, machine = applying(image(500))
    state.goal = Position(800)
    state.apply_some(keep_results=True)
    assert state.results == {600: 6, 800: 7}
    assert machine.lines[-2:] == lines(600, 800)


def test_what_is_much_is_applied_in_pieces_each_of_which_counts_for_the_next_image() -> None:
    state, machine = applying(None, records=5_000)
    state.goal = Position(500_000)
    assert not state.apply_some(keep_results=False)
    assert (len(machine.lines), state.position, state.behind) == (1_999, 200_000, True)
    assert not state.apply_some(keep_results=False)
    assert state.apply_some(keep_results=False)
    assert (state.position, state.behind, state.results) == (500_000, False, {})


def test_the_next_image_is_counted_for_from_the_one_that_was_loaded() -> None:
    state, _ = applying(image(300), bytes_=200)
    state.goal = Position(400)
    assert not state.apply_some(keep_results=False)
    state.goal = Position(500)
    assert state.apply_some(keep_results=False)


def test_an_image_is_due_after_so_many_records_or_bytes_whichever_comes_first_and_never_of_nothing() -> None:
    rule = ImageRule(records=3, bytes_=100)
    rule.begin(Position(1_000))
    assert not rule.due(0, Position(9_000))
    assert not rule.due(2, Position(1_099))
    assert rule.due(1, Position(1_099))
    rule.begin(Position(1_099))
    assert not rule.due(1, Position(1_198))
    assert rule.due(1, Position(1_199))
