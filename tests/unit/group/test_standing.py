"""What the controllers have told is never replaced by what they had told before; their answers overtake each other."""

import pytest

from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.group.ground import Standing
from logherd.group.seat import Process, cluster_of, replica_of
from logherd.model.names import Epoch

ME = Process(BrokerId(1), Registration(4))


def view(epoch: int, version: int, *, processes: tuple[int, int] = (4, 5)) -> RoleView:
    """Of a group of brokers 1 and 2."""
    return RoleView(
        epoch=Epoch(epoch), master=ME.broker_id, master_address="b1:10911", master_registration=ME.registration,
        version=version, members=(BrokerId(1), BrokerId(2)), learners=(), min_in_sync=2,
        processes=(Registration(processes[0]), Registration(processes[1])),
    )  # fmt: skip


def standing() -> Standing:
    return Standing(cluster_of(GroupKey("c", "bg")), ME, replica_of(ME))


@pytest.mark.parametrize("late", [view(2, 6), view(1, 8)], ids=["an earlier version", "an earlier epoch"])
def test_a_view_that_comes_late_is_not_taken(late: RoleView) -> None:
    known = standing()
    assert known.learn(view(2, 7))
    assert not known.learn(late)
    assert known.view == view(2, 7)


@pytest.mark.parametrize("news", [view(2, 8), view(3, 7), view(2, 7)], ids=["version", "epoch", "said again"])
def test_a_view_that_is_as_late_is_taken(news: RoleView) -> None:
    known = standing()
    known.learn(view(2, 7))
    assert known.learn(news)
    assert known.view == news


def test_no_view_however_late_makes_an_earlier_process_count_again() -> None:
    known = standing()
    known.learn(view(2, 7, processes=(4, 9)))
    known.learn(view(2, 8, processes=(4, 5)))
    assert known.latest(BrokerId(2)) == 9
    known.meet(Process(BrokerId(2), Registration(8)))
    assert known.latest(BrokerId(2)) == 9
