"""A group that was taken down for good is forgotten whole, and counts as leaderless no longer."""

import pytest

from logherd.app.metrics.controller import _state
from logherd.controller.leases import LeaseTerms
from unit.controller.desk import Desk
from unit.service.controllers.caller import HttpCaller

FORGET = "/groups/c/bg/forget"


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


def taken_down(desk: Desk) -> None:
    for broker in (1, 2, 3):
        desk.release(broker, exited=True)
    desk.now += 10 * LeaseTerms().waiter_ms


def test_a_group_that_was_taken_down_is_forgotten_although_its_brokers_were_in_sync(desk: Desk) -> None:
    http = HttpCaller(desk)
    taken_down(desk)
    assert _state(desk.group, desk.office, desk.now) == "leaderless"
    assert http.post(FORGET, brokerIds=[1, 2, 3], expectedEpoch=1)[1]["reason"] == "IN_SYNC"
    status, page = http.post(FORGET, brokerIds=[], whole=True, expectedEpoch=1)
    assert (status, page["changed"], page["group"]["brokers"], page["group"]["epoch"]) == (200, True, [], 1)
    assert _state(desk.group, desk.office, desk.now) == "empty"
    assert http.post(FORGET, brokerIds=[], whole=True, expectedEpoch=1)[0] == 404


def test_a_group_that_is_led_is_forgotten_only_if_that_is_said(desk: Desk) -> None:
    http = HttpCaller(desk)
    assert http.post(FORGET, brokerIds=[], whole=True, expectedEpoch=1)[1]["reason"] == "IN_SYNC"
    assert http.post(FORGET, brokerIds=[], whole=True, expectedEpoch=9)[1]["reason"] == "FENCED_EPOCH"
    assert desk.group.replicas != ()


@pytest.mark.parametrize("body", [{"brokerIds": []}, {"brokerIds": [1], "whole": True}])
def test_all_or_some_have_to_be_meant(desk: Desk, body: dict[str, object]) -> None:
    status, page = HttpCaller(desk).post(FORGET, expectedEpoch=1, **body)
    assert (status, page["field"]) == (400, "brokerIds")
