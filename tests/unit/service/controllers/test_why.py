"""The sentence on a group says what is so, also when several things have gone wrong at once."""

from logherd.controller.commands import PlanTransfer
from logherd.controller.values import BrokerId
from logherd.service.controllers.why import why
from unit.controller.desk import KEY as GROUP
from unit.controller.desk import Desk, point

LONG_AGO = 60_000


def said(desk: Desk) -> str:
    return why(desk.group, desk.office, desk.now)


def planned(desk: Desk) -> None:
    desk.found(1, 2, master=1)
    order = PlanTransfer(
        group=GROUP, expected_epoch=desk.group.epoch, broker_id=BrokerId(2), registration=desk.registration(2),
        request="r1",
    )  # fmt: skip
    assert desk.submit(order).refusal is None


def test_a_hand_over_is_told_only_while_there_is_somebody_who_hands_over() -> None:
    desk = Desk()
    planned(desk)
    assert said(desk).startswith("Leadership is being handed to broker 2")
    assert why(desk.group, None, desk.now).startswith("Leadership is being handed to broker 2")
    desk.release(1)
    desk.release(2)
    assert desk.wait(LONG_AGO) == []
    assert said(desk) == "Nobody can be elected without loss: broker 1 has exited; broker 2 has exited."
    assert why(desk.group, None, desk.now).startswith("Nobody is elected")


def test_a_hand_over_of_a_leader_whose_lease_is_over_is_told_no_more() -> None:
    desk = Desk()
    planned(desk)
    desk.now += LONG_AGO
    assert said(desk).startswith("Nobody can be elected without loss: ")


def test_of_a_leader_whose_disk_is_full_it_is_said_who_leads_instead() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(1, space=False)
    disk = "the disk of broker 1, which leads, is at its reserve, or would be by a further segment"
    full = f"Messages are refused: {disk}"
    assert said(desk) == f"{full}; broker 2 leads once that has been so for 10000 ms."
    desk.beat(3, space=False)
    assert said(desk) == f"{full}, and fewer others than 2 are in sync and have space."


def test_of_the_doubted_it_is_said_what_keeps_each_of_them_from_leading() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    for broker in (1, 2, 3):
        desk.register(broker, life=2, trusted=False)
    desk.release(3, life=2)
    desk.beat(1, end=point(1, 9))
    desk.beat(2, end=point(1, 5), space=False, barrier=False)
    assert desk.decide() == []
    told = said(desk)
    assert told.endswith("broker 2: its disk is full, or it has no descriptor left; broker 3 has exited.")
    assert "broker 1:" not in told
