"""What controllers take from the fields of a broker's request: nothing more than it says, and nothing less."""

from typing import cast

import msgspec
import pytest

from logherd.controller.commands import Release
from logherd.controller.office import Office
from logherd.controller.reports import Report
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point
from logherd.service.controllers.brokers import alter, heartbeat, register, release
from logherd.service.controllers.steps import Decide
from logherd.service.errors import RequestError
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.insync import AlteringBody
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame

WHO = {"clusterName": "c", "brokerName": "bg", "brokerId": "1"}


class Hearing:
    """The office, as far as a heartbeat speaks to it."""

    def __init__(self) -> None:
        self.heard: list[Report] = []

    def hear(self, report: Report, _now: int) -> None:
        self.heard.append(report)


NOBODY = cast("Office", None)


def released(**more: str) -> Release:
    ext = {**WHO, "storeId": "s", "incarnation": "i", "exited": "false", **more}
    step = release(Frame(RequestCode.LEASE_RELEASE, 1, ext=ext), NOBODY, 0)
    assert isinstance(step, Decide)
    assert isinstance(step.command, Release)
    return step.command


def reported(**more: str) -> Report:
    office = Hearing()
    ext = {**WHO, "brokerAddr": "b1:1", "logherdRegistration": "7", **more}
    heartbeat(Frame(RequestCode.BROKER_HEARTBEAT, 1, ext=ext), cast("Office", office), 0)
    (report,) = office.heard
    return report


@pytest.mark.parametrize("exited", [True, False])
def test_h14_that_a_process_has_exited_is_what_its_guardian_says_and_not_what_it_says_itself(exited: bool) -> None:
    assert released(exited="true" if exited else "false").exited == exited


def test_a_release_is_of_the_epoch_that_it_names_or_of_whichever_is_led() -> None:
    assert released(masterEpoch="7").epoch == Epoch(7)
    assert released().epoch is msgspec.UNSET


def test_room_for_a_barrier_is_there_if_it_is_said_or_else_if_there_is_room_at_all() -> None:
    said = [(), ("false", None), ("false", "true"), ("true", "false")]
    fields = [
        {name: value for name, value in zip(("logherdSpace", "logherdBarrier"), each, strict=False) if value}
        for each in said
    ]
    assert [reported(**each).barrier for each in fields] == [True, False, True, False]


def test_what_lies_before_every_log_counts_as_the_beginning_of_each() -> None:
    report = reported(epoch="-1", maxOffset="-5", logherdConfirmEpoch="2", confirmOffset="30")
    assert (report.end, report.committed) == (ORIGIN, Point(Epoch(2), Position(30)))


def test_1001_without_the_number_of_a_process_is_refused() -> None:
    ext = {"brokerName": "bg", "masterBrokerId": "1", "masterEpoch": "1"}
    frame = Frame(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, 1, ext=ext)
    frame.body = encode_body(AlteringBody(members=[1], version=1))
    with pytest.raises(RequestError, match="a master must send logherdRegistration"):
        alter(frame, NOBODY, 0)


@pytest.mark.parametrize("missing", ["logherdStoreId", "logherdIncarnation"])
def test_1003_without_a_store_or_a_process_is_refused(missing: str) -> None:
    ext = {**WHO, "brokerAddress": "b1:1", "logherdStoreId": "s", "logherdIncarnation": "i"}
    ext[missing] = ""
    with pytest.raises(RequestError, match="must send logherdStoreId and logherdIncarnation"):
        register(Frame(RequestCode.CONTROLLER_REGISTER_BROKER, 1, ext=ext), NOBODY, 0)
