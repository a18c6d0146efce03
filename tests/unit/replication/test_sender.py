"""What a leader keeps and forgets of a follower when it begins something else with it."""

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.replication.messages import ReplicaId
from logherd.replication.sender import CopyState, Mode, Sender, ShipOptions
from logherd.replication.window import Window

IMAGE = Image("i", Point(Epoch(1), Position(40)), 0, 0, 0, b"")


def busy(mode: Mode) -> Sender:
    """One with something left of whatever was begun before."""
    sender = Sender(ReplicaId("f"), Window(4, 100), Position(90), Position(50), mode)
    sender.window.add(Position(90), 40)
    sender.copy, sender.retry_at, sender.failures, sender.behind = CopyState(IMAGE, 1, 2, asked=True), 7, 3, False
    return sender


def begun(sender: Sender) -> tuple[Mode, int, int, int | None]:
    """Whatever it does, nothing that was under way counts, and nobody waits."""
    assert (sender.window.messages, sender.window.room) == (0, 100)
    assert sender.match == 50
    return sender.mode, sender.generation, sender.failures, sender.retry_at


def test_a_question_begins_a_new_exchange_and_keeps_the_gaps_of_the_one_before() -> None:
    sender = busy(Mode.COPY)
    sender.become_probe(Position(70))
    assert begun(sender) == (Mode.PROBE, 2, 3, None)
    assert (sender.next, sender.copy, sender.behind) == (70, None, True)
    sender.become_probe(Position(10))
    assert (sender.next, sender.generation) == (50, 3)


def test_records_go_on_from_what_is_compared_and_as_if_nothing_had_been_silent() -> None:
    sender = busy(Mode.COPY)
    sender.become_replicate(Position(80))
    assert begun(sender) == (Mode.REPLICATE, 1, 0, None)
    assert (sender.next, sender.copy) == (80, None)
    with pytest.raises(InvariantError, match="entered from another mode"):
        sender.become_replicate(Position(80))


def test_a_copy_begins_at_its_first_byte_with_a_question_and_is_limited_as_whoever_is_behind() -> None:
    sender = busy(Mode.REPLICATE)
    sender.become_copy(IMAGE)
    assert begun(sender) == (Mode.COPY, 1, 3, None)
    assert (sender.copy, sender.behind) == (CopyState(IMAGE), True)


def test_what_is_confirmed_never_falls_and_only_more_of_it_is_news() -> None:
    sender = busy(Mode.REPLICATE)
    assert [sender.confirm(Position(at)) for at in (49, 50, 60, 60, 55)] == [False, False, True, False, False]
    assert (sender.match, sender.next, sender.failures, sender.window.messages) == (60, 90, 0, 1)
    assert sender.confirm(Position(95))
    assert (sender.match, sender.next, sender.window.messages) == (95, 95, 0)


def test_the_deadline_of_an_answer_moves_away_with_each_failure_up_to_a_limit() -> None:
    sender, waits = busy(Mode.PROBE), list[int | None]()
    for failures in (0, 1, 3, 4, 16, 1_000_000):
        sender.failures = failures
        sender.asked(10_000, ShipOptions())
        waits.append(sender.retry_at)
    assert waits == [10_500, 11_000, 14_000, 15_000, 15_000, 15_000]
