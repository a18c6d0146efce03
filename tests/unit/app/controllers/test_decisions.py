"""What a controller's state says to the name service in its process."""

from collections.abc import Callable

from logherd.app.controllers.decisions import DecidedGroups
from logherd.app.quorum.outcomes import ReadAt, ReadOutcome, Rejected
from logherd.controller.commands import Clean
from logherd.model.names import Position
from logherd.raft.output import Refusal
from unit.controller.desk import Desk


def whole(known: DecidedGroups) -> DecidedGroups:
    """Its state is that of the quorum."""
    known.look(lambda then: then(ReadAt(Position(0))))
    return known


def led() -> Desk:
    """Where a group of two has had a leader."""
    desk = Desk()
    desk.register(1, replicas=2)
    desk.register(2, replicas=2)
    desk.beat(1, 2)
    assert len(desk.wait(50)) == 1
    assert desk.group.epoch > 0
    return desk


def test_h13_a_group_is_waited_for_and_has_an_epoch_once_it_was_led() -> None:
    desk = Desk()
    known = whole(DecidedGroups(lambda: desk.machine))
    desk.register(1, replicas=2)
    assert (known.names(), known.epoch("c", "bg")) == ((), 0)
    desk.register(2, replicas=2)
    desk.beat(1, 2)
    assert len(desk.wait(50)) == 1
    assert (known.names(), known.epoch("c", "bg")) == (("bg",), desk.group.epoch)
    assert desk.group.epoch > 0
    assert (known.epoch("other", "bg"), known.epoch("c", "x")) == (0, 0)


def test_a_group_that_was_cleaned_has_no_epoch_until_it_has_brokers_again() -> None:
    """Its name may be taken by a group whose epochs are no controllers' business, and begin at 1."""
    desk = led()
    known = whole(DecidedGroups(lambda: desk.machine))
    before = desk.group.epoch
    desk.submit(Clean(group=desk.group.key, expected_epoch=before))
    assert (known.names(), known.epoch("c", "bg"), desk.group.epoch) == ((), 0, before)
    desk.register(1, replicas=2)
    assert known.epoch("c", "bg") == before


def test_h13_no_group_is_known_before_all_of_them_are() -> None:
    """In the image from which a controller starts the newest ones are missing."""
    desk = led()
    known = DecidedGroups(lambda: desk.machine)
    asked: list[Callable[[ReadOutcome], None]] = []
    known.look(asked.append)
    known.look(asked.append)
    assert (len(asked), known.names()) == (1, ())
    asked[0](Rejected(Refusal.NOT_READY, None))
    assert known.names() == ()
    known.look(asked.append)
    asked[1](ReadAt(Position(0)))
    assert known.names() == ("bg",)
    known.look(asked.append)
    assert len(asked) == 2
