"""1008: which decisions are worth a push, what it says, and which connections it goes to."""

import pytest

from logherd.controller.commands import CancelTransfer, Configure, Release
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.controller.verdicts import Verdict
from logherd.service.controllers.notices import Seat, Speakers, notice_of, seat_of
from logherd.service.ports import Reply
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from unit.controller.desk import KEY, Desk
from unit.service.controllers.caller import Caller
from unit.service.controllers.test_desk import beating, registering

OTHER = GroupKey("c", "other")


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


def told(verdict: Verdict) -> tuple[dict[str, str], bytes] | None:
    notice = notice_of(verdict)
    return None if notice is None else (encode_header(notice.header), notice.body)


def seat(broker: int, registration: int = 1, group: GroupKey = KEY) -> Seat:
    return Seat(group, BrokerId(broker), Registration(registration))


# ---- what is worth a push ------------------------------------------------------------------------------------------


def test_an_election_is_told_as_rocketmqs_controller_tells_it(desk: Desk) -> None:
    desk.release(1)
    (command,) = desk.office.decide(desk.now)
    assert told(desk.submit_proposed(command)) == (
        {"masterAddress": "b2:10911", "masterBrokerId": "2", "masterEpoch": "2", "syncStateSetEpoch": "2"},
        b'{"syncStateSet":[2,3],"syncStateSetEpoch":2}',
    )


def test_a_released_lease_is_told_without_a_master(desk: Desk) -> None:
    assert told(desk.release(1)) == (
        {"masterEpoch": "1", "syncStateSetEpoch": "1"}, b'{"syncStateSet":[1,2,3],"syncStateSetEpoch":1}',
    )  # fmt: skip


def test_another_in_sync_set_is_told(desk: Desk) -> None:
    found = told(desk.alter(1, 1, 2))
    assert found is not None
    assert found[1] == b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}'


def test_what_changes_nobodys_role_is_told_nobody(desk: Desk) -> None:
    assert told(desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2))) is None
    assert told(desk.release(2)) is None
    assert told(desk.alter(1, 1, 2, epoch=9)) is None
    assert told(desk.submit(CancelTransfer(group=KEY, expected_epoch=desk.group.epoch, request="none"))) is None
    once = Release(group=KEY, broker_id=BrokerId(1), store_id="store1", incarnation="store1.1", exited=True)
    assert told(desk.submit(once)) is not None
    assert told(desk.submit(once)) is None


# ---- whom to tell --------------------------------------------------------------------------------------------------


def test_a_taken_heartbeat_and_registration_name_who_speaks(desk: Desk) -> None:
    call = Caller(desk)
    beat = {name: str(value) for name, value in beating(desk, 2).items()}
    frame = Frame(RequestCode.BROKER_HEARTBEAT, 1, ext=beat)
    assert seat_of(frame, call.send(frame)) == seat(2, desk.registration(2))
    later = registering(2, logherdIncarnation="later", logherdEndEpoch=1, logherdEndPosition=100)
    again = {name: str(value) for name, value in later.items()}
    frame = Frame(RequestCode.CONTROLLER_REGISTER_BROKER, 1, ext=again)
    assert seat_of(frame, call.send(frame)) == seat(2, 4)


def test_refused_requests_and_other_ones_name_nobody(desk: Desk) -> None:
    beat = {name: str(value) for name, value in beating(desk, 2).items()}
    assert seat_of(Frame(RequestCode.BROKER_HEARTBEAT, 1, ext=beat), Reply(2010)) is None
    assert seat_of(Frame(RequestCode.CONTROLLER_GET_METADATA_INFO, 1), Reply()) is None


def test_a_notice_goes_to_the_latest_session_of_each_broker_once() -> None:
    speakers = Speakers()
    for session, who in ((7, seat(1)), (8, seat(2)), (7, seat(3)), (9, seat(1, group=OTHER))):
        speakers.heard(session, who)
    assert speakers.of(KEY) == [7, 8]
    speakers.heard(10, seat(2))
    assert sorted(speakers.of(KEY)) == [7, 10]
    assert speakers.of(OTHER) == [9]
    assert speakers.of(GroupKey("d", "bg")) == []


def test_a_late_word_of_an_older_process_changes_nothing() -> None:
    speakers = Speakers()
    speakers.heard(7, seat(1, registration=5))
    speakers.heard(8, seat(1, registration=4))
    assert speakers.of(KEY) == [7]


def test_a_session_that_ends_is_told_nothing_more_and_only_it() -> None:
    speakers = Speakers()
    speakers.heard(7, seat(1))
    speakers.heard(8, seat(2))
    speakers.heard(8, seat(1))
    speakers.closed(7)
    assert speakers.of(KEY) == [8]
    speakers.closed(8)
    speakers.closed(8)
    assert (speakers.of(KEY), len(speakers)) == ([], 0)


def test_the_table_is_bounded_and_forgets_who_was_silent_longest() -> None:
    speakers = Speakers(seats_max=3, seats_per_session_max=2)
    speakers.heard(1, seat(1))
    speakers.heard(2, seat(2))
    speakers.heard(3, seat(3))
    speakers.heard(1, seat(1))
    speakers.heard(4, seat(4))
    assert sorted(speakers.of(KEY)) == [1, 3, 4]
    speakers.heard(4, seat(5))
    speakers.heard(4, seat(6))
    assert len(speakers) == 3
    assert sorted(speakers.of(KEY)) == [1, 4]
