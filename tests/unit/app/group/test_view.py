"""What a replica says of its group: why no writes are taken, also of one that should lead and cannot."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from logherd.app.clock import boot_ms
from logherd.app.group.mode import FollowerState
from logherd.app.group.view import GroupView
from logherd.controller.values import BrokerId
from logherd.group.output import Closed
from logherd.model.names import Epoch, Position
from logherd.service.forwarding.roles import Nobody
from logherd.service.replica_view import InSyncView, ReplicationView, RequestsView


def view_of(closed: Closed | None, *, leads: bool, shut: str = "", obstacle: str = "") -> str | None:
    """`closed` of the page, as the machine has it."""
    return whole_view(closed, leads=leads, shut=shut, obstacle=obstacle).closed


def whole_view(
    closed: Closed | None, *followers: FollowerState, leads: bool, shut: str = "", obstacle: str = "",
    connected: tuple[int, ...] = (), end: int = 100,
) -> ReplicationView:  # fmt: skip
    epoch = Epoch(3)
    machine = SimpleNamespace(
        leads=epoch if leads else None, epoch=epoch, closed=lambda _now: closed, serving=lambda _now: None
    )
    mode = SimpleNamespace(
        name="static", machine=machine, lease=None, leader=None, seat=None, pending=lambda _now: None,
        members=lambda: InSyncView(members=(), version=1, min_in_sync=1), followers=lambda: followers,
        obstacle=obstacle,
    )  # fmt: skip
    engine = SimpleNamespace(
        mode=mode, standing=SimpleNamespace(shut=shut), leadership=SimpleNamespace(current=Nobody()),
        store=SimpleNamespace(min_position=0, end_position=end, flushed_position=end, committed_position=0),
        peers=lambda: tuple(SimpleNamespace(name=str(each), connected=True) for each in connected),
    )  # fmt: skip
    return GroupView(cast("Any", engine), lambda: RequestsView(forwarded=0, held=0)).view()


@pytest.mark.parametrize("closed", [Closed.NOT_SERVING, Closed.TOO_FEW, None])
def test_only_who_leads_says_why_it_takes_no_writes(closed: Closed | None) -> None:
    assert view_of(closed, leads=False) is None
    assert view_of(closed, leads=True) == (None if closed is None else closed.value)
    assert view_of(closed, leads=True, shut="the disk is slow") == "the disk is slow"


def test_who_is_to_lead_and_lacks_what_was_acknowledged_says_so() -> None:
    assert view_of(Closed.LACKING, leads=False) == Closed.LACKING.value


def test_who_may_not_lead_by_its_settings_says_so() -> None:
    assert view_of(Closed.NOT_SERVING, leads=False, obstacle="others are set elsewhere") == "others are set elsewhere"
    assert view_of(None, leads=True, obstacle="too few") is None, "a leader says so once sends are refused"


@pytest.mark.parametrize(
    ("flushed", "lag_bytes", "behind"), [(100, 0, False), (99, 1, True), (None, None, True)],
)  # fmt: skip
def test_who_has_everything_has_no_lag_and_who_has_lost_it_is_not_taken_for_one(
    flushed: int | None, lag_bytes: int | None, *, behind: bool
) -> None:
    known = None if flushed is None else Position(flushed)
    state = FollowerState(BrokerId(2), in_sync=False, flushed=known, in_step_at=boot_ms() - 60_000)
    (follower,) = whole_view(None, state, leads=True).followers
    assert follower.lag_bytes == lag_bytes
    assert follower.lag_ms is not None
    assert (follower.lag_ms >= 60_000) is behind


def test_only_who_is_linked_is_being_copied_to() -> None:
    """One that is away may lack as much, or be nothing known of."""
    half = FollowerState(BrokerId(2), in_sync=False, flushed=Position(32 << 20), in_step_at=None)
    new = FollowerState(BrokerId(3), in_sync=False, flushed=None, in_step_at=None)
    for connected, shown in (((2, 3), [0.5, 0.0]), ((), [None, None])):
        view = whole_view(None, half, new, leads=True, connected=connected, end=64 << 20)
        assert [each.copying for each in view.followers] == shown
