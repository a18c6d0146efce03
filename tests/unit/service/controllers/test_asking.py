"""What a broker of LogHerd says arrives at the office as it was meant, and it reads the answer as it was meant."""

import pytest

from logherd.controller.commands import AlterSyncSet, Claim, PlanTransfer, Register, Release, encode_command
from logherd.controller.holder import LeaseHolder
from logherd.controller.office import view_of
from logherd.controller.reports import Granted, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.service.controllers import asking
from logherd.service.controllers.asking import Asking, Joined, Redirected, Refused, SetChanged
from logherd.service.controllers.brokers import heartbeat
from logherd.service.controllers.steps import Confirm
from logherd.service.errors import RequestError
from logherd.service.ports import Reply
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import HeaderError
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.headers import encode_header
from logherd.wire.limits import WireLimits
from unit.controller.desk import KEY, Desk, point
from unit.service.controllers.caller import Caller


class Broker:
    """Sends over the codec, so that what a header cannot carry is lost here too."""

    def __init__(self, desk: Desk, serialize: Serialize) -> None:
        self.call = Caller(desk)
        self.serialize = serialize

    def ask(self, request: Asking) -> Frame:
        header = encode_header(request.header)
        reply = self.call.send(self.carried(Frame(request.code, 1, ext=header, body=request.body)))
        return self.carried(answered(reply))

    def carried(self, frame: Frame) -> Frame:
        sent = Frame(
            frame.code, 1, flag=frame.flag, ext=frame.ext, body=frame.body, remark=frame.remark,
            serialize=self.serialize,
        )  # fmt: skip
        (received,) = FrameReader(WireLimits()).feed(encode_frame(sent))
        return received


def answered(reply: Reply) -> Frame:
    assert isinstance(reply.body, bytes)
    ext = encode_header(reply.header) if reply.header is not None and not isinstance(reply.header, dict) else {}
    return Frame(reply.code, 1, flag=Flag.RESPONSE, ext=ext, body=reply.body, remark=reply.remark)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


@pytest.fixture(params=list(Serialize), ids=lambda each: each.name.lower())
def broker(desk: Desk, request: pytest.FixtureRequest) -> Broker:
    return Broker(desk, request.param)


def test_a_heartbeat_arrives_whole_and_its_lease_is_read_back(desk: Desk, broker: Broker) -> None:
    report = desk.report(
        1, end=point(1, 900), committed=point(1, 800), priority=7, space=False, answered=6,
        epoch_ends=(point(0, 0), point(1, 820)),
    )  # fmt: skip
    answer = asking.leased(broker.ask(asking.heartbeat(report)))
    seen = desk.office.last_seen(desk.group.replicas[0], KEY)
    assert seen is not None
    assert seen.report == report
    assert isinstance(answer, Granted)
    assert answer == desk.office.renew(report, desk.now, heard=desk.now)
    holder = LeaseHolder()
    holder.granted(answer, sent=100)
    assert holder.epoch_at(100) == 1


def test_of_a_full_disk_of_an_earlier_releases_broker_it_is_not_known_whether_it_could_lead(
    desk: Desk, broker: Broker
) -> None:
    """Such a one means both when it says that it has no space; what is said to an earlier controller is the same."""
    for space, barrier in ((True, True), (False, True), (False, False)):
        broker.ask(asking.heartbeat(desk.report(1, space=space, barrier=barrier)))
        assert said_of_disk(desk) == (space, barrier)
        request = asking.heartbeat(desk.report(1, space=space, barrier=barrier))
        fields = encode_header(request.header)
        assert fields["logherdSpace"] == ("true" if space else "false")
        del fields["logherdBarrier"]
        heartbeat(Frame(request.code, 1, ext=fields), desk.office, desk.now)
        assert said_of_disk(desk) == (space, space)


def test_a_report_of_an_earlier_releases_broker_counts_by_its_arrival(desk: Desk, broker: Broker) -> None:
    """It does not tell of which report it knows the answer; what is said to an earlier controller is more than that
    needs."""
    request = asking.heartbeat(desk.report(2, number=8, answered=7))
    fields = encode_header(request.header)
    known, desk.now = desk.now, desk.now + 100
    for after in (known, desk.now):
        heartbeat(Frame(request.code, 1, ext=fields), desk.office, desk.now)
        seen = desk.office.last_seen(desk.group.replicas[1], KEY)
        assert seen is not None
        assert seen.after == after
        fields.pop("logherdAnswered", None)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("1", "holds no places"), ("1:2:3", "holds no places"), ("1:2;", "holds no places"), ("1:x", "holds no places"),
        ("1:2;" * 300 + "1:2", "has 1203 characters"),
    ],
)  # fmt: skip
def test_of_what_is_no_list_of_ends_nothing_is_heard(desk: Desk, text: str, wrong: str) -> None:
    request = asking.heartbeat(desk.report(1, number=9))
    frame = Frame(request.code, 1, ext={**encode_header(request.header), "logherdEpochEnds": text})
    with pytest.raises(RequestError, match=f"logherdEpochEnds {wrong}"):
        heartbeat(frame, desk.office, desk.now)
    seen = desk.office.last_seen(desk.group.replicas[0], KEY)
    assert seen is not None
    assert seen.report.number < 9


def said_of_disk(desk: Desk) -> tuple[bool, bool]:
    seen = desk.office.last_seen(desk.group.replicas[0], KEY)
    assert seen is not None
    return seen.report.space, seen.report.barrier


def test_a_lease_is_counted_from_when_its_heartbeat_came_and_not_from_when_the_quorum_answered(desk: Desk) -> None:
    desk.now += desk.terms.holder_ms
    request = asking.heartbeat(desk.report(1))
    step = heartbeat(Frame(request.code, 1, ext=encode_header(request.header)), desk.office, desk.now)
    assert isinstance(step, Confirm)
    desk.now += desk.terms.holder_ms - 1
    answer = step.then(desk.now)
    assert isinstance(answer, Reply)
    assert isinstance(asking.leased(answered(answer)), Granted)
    assert desk.office.serving(desk.group, desk.now) is not None
    assert desk.office.serving(desk.group, desk.now + 1) is None


@pytest.mark.parametrize("field", ["logherdLearners", "logherdMemberRegistrations"])
@pytest.mark.parametrize("text", ["1;x", "9" * 5000], ids=["a letter", "no number in Python"])
def test_what_is_no_list_of_numbers_is_no_controllers_answer(desk: Desk, broker: Broker, field: str, text: str) -> None:
    answer = broker.ask(asking.heartbeat(desk.report(1)))
    answer.ext[field] = text
    with pytest.raises(HeaderError, match=field):
        asking.leased(answer)


@pytest.mark.parametrize("text", ["1;2", "1;2;3;4", ""])
def test_who_names_members_without_the_process_of_each_is_no_controller(
    desk: Desk, broker: Broker, text: str
) -> None:  # fmt: skip
    answer = broker.ask(asking.heartbeat(desk.report(1)))
    answer.ext["logherdMemberRegistrations"] = text
    with pytest.raises(HeaderError, match="logherdMemberRegistrations"):
        asking.leased(answer)


@pytest.mark.parametrize("text", [None, "0", "-1"])
def test_r6_a_lease_without_the_least_number_in_sync_is_no_lease(
    desk: Desk, broker: Broker, text: str | None
) -> None:  # fmt: skip
    answer = broker.ask(asking.heartbeat(desk.report(1)))
    del answer.ext["logherdMinInSync"]
    if text is not None:
        answer.ext["logherdMinInSync"] = text
    with pytest.raises(HeaderError, match="logherdMinInSync"):
        asking.leased(answer)


def test_that_clients_find_the_leader_is_read_back(desk: Desk, broker: Broker) -> None:
    for told in (False, True):
        if told:
            desk.office.endpoint_leads(KEY, desk.group.epoch, desk.now)
        answer = asking.leased(broker.ask(asking.heartbeat(desk.report(1))))
        assert isinstance(answer, Granted)
        assert answer.endpoint == told


def test_an_order_to_hand_over_is_read_back(desk: Desk, broker: Broker) -> None:
    desk.submit(
        PlanTransfer(
            group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), registration=desk.registration(3),
            request="r",
        )
    )  # fmt: skip
    answer = asking.leased(broker.ask(asking.heartbeat(desk.report(1))))
    assert isinstance(answer, Granted)
    assert answer.hand_over == 3


def test_the_role_of_a_follower_and_why_a_sick_master_has_no_lease(desk: Desk, broker: Broker) -> None:
    desk.register(4, learner=True)
    for sick in (desk.report(2), desk.report(1, healthy=False)):
        answer = asking.leased(broker.ask(asking.heartbeat(sick)))
        assert isinstance(answer, Withheld)
        assert answer == desk.office.renew(sick, desk.now, heard=desk.now)
        assert answer.view is not None
        assert answer.view.learners == (4,)
        assert answer.view.others == ((4, desk.registration(4)),)


def test_that_nobody_leads_is_read_back(desk: Desk, broker: Broker) -> None:
    desk.release(1)
    answer = asking.leased(broker.ask(asking.heartbeat(desk.report(2))))
    assert answer == Withheld(view_of(desk.group), None)
    assert answer.view is not None
    assert (answer.view.master, answer.view.master_address, answer.view.master_registration) == (None, "", 0)


def test_a_process_that_is_not_known_hears_that_it_must_register(desk: Desk, broker: Broker) -> None:
    answer = asking.leased(broker.ask(asking.heartbeat(desk.report(1, registration=9))))
    assert isinstance(answer, Refused)
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_every_request_at_another_controller_is_redirected(desk: Desk, broker: Broker) -> None:
    broker.call.leads = False
    release = Release(group=KEY, broker_id=BrokerId(1), store_id="s", incarnation="i", exited=True)
    assert asking.leased(broker.ask(asking.heartbeat(desk.report(1)))) == Redirected("h1:9878")
    assert asking.released(broker.ask(asking.releasing(release))) == Redirected("h1:9878")
    assert asking.joined(broker.ask(asking.registering(wish(2)))) == Redirected("h1:9878")
    assert asking.set_changed(broker.ask(asking.altering(proposal(desk, 1, 2)))) == Redirected("h1:9878")


def wish(broker_id: int, **more: object) -> Register:
    said = {
        "group": KEY, "broker_id": broker_id, "store_id": f"store{broker_id}", "incarnation": "new",
        "address": "b:1", "end": point(3, 70), "epoch_seen": 4, "trusted": False, "learner": True,
        "rules": Rules(replicas=5, min_in_sync=3), **more,
    }  # fmt: skip
    return Register(**said)  # type: ignore[arg-type]


def test_a_registration_arrives_whole(desk: Desk, broker: Broker) -> None:
    assert asking.joined(broker.ask(asking.registering(wish(4)))) == Joined(Registration(4), 2)
    assert desk.log[-1] == encode_command(wish(4))
    answer = asking.joined(broker.ask(asking.registering(wish(1, store_id="thief"))))
    assert isinstance(answer, Refused)
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def proposal(desk: Desk, *members: int, version: int = 1) -> AlterSyncSet:
    return AlterSyncSet(
        group=KEY, broker_id=BrokerId(1), registration=desk.registration(1), epoch=desk.group.epoch, version=version,
        members=tuple(desk.member(each, point(1, 90), {}) for each in members), committed=point(1, 80), min_in_sync=2,
        request="r1",
    )  # fmt: skip


def test_a_proposal_arrives_whole_and_the_set_in_force_is_read_back(desk: Desk, broker: Broker) -> None:
    wanted = proposal(desk, 1, 2)
    assert asking.set_changed(broker.ask(asking.altering(wanted))) == SetChanged((BrokerId(1), BrokerId(2)), 2)
    assert desk.log[-1] == encode_command(wanted)
    answer = asking.set_changed(broker.ask(asking.altering(proposal(desk, 1, 2, 3, version=1))))
    assert isinstance(answer, Refused)
    assert answer.code == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_a_release_arrives_whole_and_late_ones_have_nothing_to_release(desk: Desk, broker: Broker) -> None:
    release = Release(
        group=KEY, broker_id=BrokerId(1), store_id="store1", incarnation="store1.1", exited=True,
        committed=point(1, 75),
    )  # fmt: skip
    assert asking.released(broker.ask(asking.releasing(release))) is True
    assert desk.log[-1] == encode_command(release)
    desk.register(1, life=2)
    desk.release(1, life=2)
    desk.wait(50, 2, 3)
    assert asking.released(broker.ask(asking.releasing(release))) is False


def test_a_resignation_says_of_which_epoch(desk: Desk, broker: Broker) -> None:
    release = Release(
        group=KEY, broker_id=BrokerId(1), store_id="store1", incarnation="store1.1", exited=False, epoch=Epoch(1)
    )  # fmt: skip
    assert asking.released(broker.ask(asking.releasing(release))) is True
    assert desk.log[-1] == encode_command(release)


def withheld(reason: str) -> Frame:
    said = {"masterEpoch": "3", "logherdWithheld": reason, "logherdMinInSync": "2"}
    return Frame(0, 1, flag=Flag.RESPONSE, ext=said, body=b"{}")


def test_a_reason_of_a_newer_controller_is_no_lease_all_the_same() -> None:
    frame = withheld("the moon")
    answer = asking.leased(frame)
    assert isinstance(answer, Withheld)
    assert (answer.refusal, answer.view is not None) == (None, True)


@pytest.mark.parametrize("refusal", list(Refusal))
def test_every_reason_is_read_back(refusal: Refusal) -> None:
    frame = withheld(refusal.value)
    answer = asking.leased(frame)
    assert isinstance(answer, Withheld)
    assert answer.refusal is refusal


def test_all_that_have_registered_are_told_whether_somebody_leads_or_not(desk: Desk, broker: Broker) -> None:
    desk.alter(1, 1, 2)
    desk.submit(Claim(group=KEY, broker_id=BrokerId(4), check_code="somebody"))  # and never came
    everybody = asking.Enrolled(frozenset({1, 2, 3}), Epoch(1))
    before = desk.machine.save()
    assert asking.enrolled(broker.ask(asking.enrolling(KEY)), KEY) == everybody
    desk.now += 10_000
    assert not desk.office.leads(desk.group, desk.now)
    answer = broker.ask(asking.enrolling(KEY))
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert asking.enrolled(answer, KEY) == everybody
    assert desk.machine.save() == before
    assert isinstance(asking.enrolled(answer, GroupKey("another", KEY.name)), Refused)
    unknown = GroupKey("another", KEY.name)
    assert isinstance(asking.enrolled(broker.ask(asking.enrolling(unknown)), unknown), Refused)
    hint = Frame(ResponseCode.CONTROLLER_NOT_LEADER, 1, ext={"controllerLeaderAddress": "c2:1"})
    assert isinstance(asking.enrolled(hint, KEY), Redirected)
    broker.call.lost = True
    assert isinstance(asking.enrolled(broker.ask(asking.enrolling(KEY)), KEY), Redirected | Refused)
