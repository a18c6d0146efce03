"""What a replica says of its group: why no writes are taken, also of one that should lead and cannot."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from logherd.app.group.view import GroupView
from logherd.group.output import Closed
from logherd.model.names import Epoch
from logherd.service.forwarding.roles import Nobody
from logherd.service.replica_view import InSyncView, RequestsView


def view_of(closed: Closed | None, *, leads: bool, shut: str = "", obstacle: str = "") -> str | None:
    """`closed` of the page, as the machine has it."""
    epoch = Epoch(3)
    machine = SimpleNamespace(
        leads=epoch if leads else None, epoch=epoch, closed=lambda _now: closed, serving=lambda _now: None
    )
    mode = SimpleNamespace(
        name="static", machine=machine, lease=None, leader=None, seat=None, pending=lambda _now: None,
        members=lambda: InSyncView(members=(), version=1, min_in_sync=1), followers=lambda: (), obstacle=obstacle,
    )  # fmt: skip
    engine = SimpleNamespace(
        mode=mode, standing=SimpleNamespace(shut=shut), leadership=SimpleNamespace(current=Nobody()),
        store=SimpleNamespace(end_position=1, flushed_position=1, committed_position=0),
    )  # fmt: skip
    return GroupView(cast("Any", engine), lambda: RequestsView(forwarded=0, held=0)).view().closed


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
