"""What a controller's state says to the name service in its process."""

from logherd.app.controllers.decisions import DecidedGroups
from unit.controller.desk import Desk


def test_h13_a_group_is_waited_for_and_has_an_epoch_once_it_was_led() -> None:
    desk = Desk()
    known = DecidedGroups(lambda: desk.machine)
    desk.register(1, replicas=2)
    assert (known.names(), known.epoch("c", "bg")) == ((), 0)
    desk.register(2, replicas=2)
    desk.beat(1, 2)
    assert len(desk.wait(50)) == 1
    assert (known.names(), known.epoch("c", "bg")) == (("bg",), desk.group.epoch)
    assert desk.group.epoch > 0
    assert (known.epoch("other", "bg"), known.epoch("c", "x")) == (0, 0)
