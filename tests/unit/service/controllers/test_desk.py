"""RocketMQ's controller requests as frames: what each answers, when it waits, and with which code it refuses."""

import msgspec
import pytest

from logherd.controller.commands import Clean, Register
from logherd.controller.machine import Machine
from logherd.controller.settings import TUNABLE
from logherd.controller.values import BrokerId, GroupKey
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.service.controllers.asking import joined
from logherd.service.controllers.codes import response_code
from logherd.service.controllers.desk import SERVED, take, unknown_outcome
from logherd.service.controllers.steps import AwaitMaster, Catch, Confirm, Decide, QuorumRefusal
from logherd.service.ports import Reply
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.brokers import ElectMasterAnswer, SyncStateData, SyncStateSet
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.controller import (
    AlterSyncStateSetResponse,
    ApplyBrokerIdResponse,
    ControllerMetadataResponse,
    MasterResponse,
    NextBrokerIdResponse,
)
from logherd.wire.headers.leases import LeaderHint, LeaseAnswer, LeaseReleaseResponse, RegisteredResponse
from logherd.wire.headers.roles import RolesPromoteResponse
from unit.controller.desk import KEY, Desk, point
from unit.service.controllers.caller import Caller, quorum_view

C = RequestCode
QUORUM = quorum_view(Machine())


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


@pytest.fixture
def call(desk: Desk) -> Caller:
    return Caller(desk)


def header(reply: Reply, cls: type[msgspec.Struct]) -> object:
    assert isinstance(reply.header, cls)
    return reply.header


def body(reply: Reply) -> bytes:
    assert isinstance(reply.body, bytes)
    return reply.body


def registering(broker: int, **more: object) -> dict[str, object]:
    return {
        "clusterName": "c", "brokerName": "bg", "brokerId": broker, "brokerAddress": f"b{broker}:10911",
        "logherdStoreId": f"store{broker}", "logherdIncarnation": f"store{broker}.1", **more,
    }  # fmt: skip


def beating(desk: Desk, broker: int, **more: object) -> dict[str, object]:
    return {
        "clusterName": "c", "brokerName": "bg", "brokerId": broker, "brokerAddr": f"b{broker}:10911", "epoch": 1,
        "maxOffset": 100, "confirmOffset": 50, "logherdConfirmEpoch": 1,
        "logherdRegistration": desk.registration(broker), **more,
    }  # fmt: skip


# ---- any controller, and the redirect ------------------------------------------------------------------------------


def test_1005_is_answered_by_any_controller() -> None:
    answer = take(Frame(C.CONTROLLER_GET_METADATA_INFO, 1), None, QUORUM, 0)
    assert isinstance(answer, Reply)
    assert header(answer, ControllerMetadataResponse) == ControllerMetadataResponse(
        group="ctl", leader_id="n1", leader_address="h1:9878", leader=False, peers="n0:h0:9878;n1:h1:9878"
    )


@pytest.mark.parametrize(
    "code", sorted(SERVED - {C.CONTROLLER_GET_METADATA_INFO, C.GET_CONTROLLER_CONFIG, C.UPDATE_CONTROLLER_CONFIG})
)
def test_everything_else_is_redirected_by_a_controller_that_does_not_lead(code: int) -> None:
    answer = take(Frame(code, 1), None, QUORUM, 0)
    assert isinstance(answer, Reply)
    assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
    assert header(answer, LeaderHint) == LeaderHint(leader_id="n1", leader_address="h1:9878")
    assert answer.remark is not None
    assert "h1:9878" in answer.remark


def test_a_leader_that_is_not_ready_sends_nobody_to_itself() -> None:
    own = quorum_view(Machine(), own="n1")
    answer = take(Frame(C.CONTROLLER_GET_REPLICA_INFO, 1), None, own, 0)
    assert isinstance(answer, Reply)
    assert header(answer, LeaderHint) == LeaderHint()


def test_a_code_that_no_controller_answers_is_refused_by_number(call: Caller) -> None:
    answer = call(C.SEND_MESSAGE)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark is not None
    assert "10" in answer.remark


@pytest.mark.parametrize("leads", [True, False])
def test_settings_of_more_than_256_kib_are_not_read(call: Caller, leads: bool) -> None:
    call.leads = leads
    answer = call(C.UPDATE_CONTROLLER_CONFIG, b"#" * 262_100 + b"\ngatherMs=2000\n" + b"#" * 40)
    assert (answer.code, answer.remark) == (29, "the settings have 262155 bytes, at most 262144 are read")


def test_the_codes_of_the_protocol_are_served() -> None:
    assert {904, *range(1001, 1007), *range(1009, 1014), 27001, 27002} == SERVED


@pytest.mark.parametrize("code", sorted(SERVED - {C.CONTROLLER_GET_METADATA_INFO, C.GET_CONTROLLER_CONFIG, 1009}))
def test_a_request_without_its_fields_is_refused_and_not_an_error_of_ours(call: Caller, code: int) -> None:
    assert call(code).code == ResponseCode.INVALID_PARAMETER


# ---- identity and registration -------------------------------------------------------------------------------------


def test_ids_are_handed_out_as_rocketmqs_brokers_ask_for_them(call: Caller) -> None:
    fresh = {"clusterName": "c", "brokerName": "new"}
    assert header(call(C.CONTROLLER_GET_NEXT_BROKER_ID, **fresh), NextBrokerIdResponse) == NextBrokerIdResponse(
        cluster_name="c", broker_name="new", next_broker_id=1
    )
    claim = {**fresh, "appliedBrokerId": 1, "registerCheckCode": "a:1;5"}
    assert header(call(C.CONTROLLER_APPLY_BROKER_ID, **claim), ApplyBrokerIdResponse) == ApplyBrokerIdResponse(
        cluster_name="c", broker_name="new"
    )
    assert call.steps == [Decide]
    other = {**claim, "registerCheckCode": "b:1;6"}
    assert call(C.CONTROLLER_APPLY_BROKER_ID, **other).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


CLAIM = {"clusterName": "c", "brokerName": "bg", "appliedBrokerId": 7, "registerCheckCode": "a:1;5"}
PROMOTION = {"clusterName": "c", "brokerName": "bg", "brokerId": 1, "after": 1, "table": "{}"}


@pytest.mark.parametrize(
    ("code", "fields", "wrong"),
    [
        (C.CONTROLLER_REGISTER_BROKER, registering(1000, logherdLearner=True), "broker ids are 1 to 999"),
        (C.CONTROLLER_REGISTER_BROKER, registering(7, clusterName="c" * 256), "clusterName has 256 characters"),
        (C.CONTROLLER_REGISTER_BROKER, registering(7, brokerName="b" * 256), "brokerName has 256 characters"),
        (C.CONTROLLER_REGISTER_BROKER, registering(7, brokerAddress="b" * 1025), "brokerAddress has 1025 characters"),
        (C.CONTROLLER_REGISTER_BROKER, registering(7, logherdStoreId="s" * 1025), "logherdStoreId has 1025 characters"),
        (C.CONTROLLER_REGISTER_BROKER, registering(7, logherdIncarnation="i" * 1025), "logherdIncarnation has 1025"),
        (C.CONTROLLER_APPLY_BROKER_ID, {**CLAIM, "appliedBrokerId": 1000}, "broker ids are 1 to 999"),
        (C.CONTROLLER_APPLY_BROKER_ID, {**CLAIM, "brokerName": "b" * 256}, "brokerName has 256 characters"),
        (C.CONTROLLER_APPLY_BROKER_ID, {**CLAIM, "registerCheckCode": "a" * 1025}, "registerCheckCode has 1025"),
        (C.ROLES_PROMOTE, {**PROMOTION, "clusterName": "c" * 256}, "clusterName has 256 characters"),
    ],
)
def test_what_the_controllers_keep_for_good_is_bounded(
    desk: Desk, call: Caller, code: int, fields: dict[str, object], wrong: str
) -> None:
    """Each broker hears of all learners of its group with each heartbeat: of a million it could not read the answer."""
    before = desk.machine.save()
    answer = call(code, **fields)
    assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert wrong in (answer.remark or "")
    assert (call.steps, desk.machine.save()) == ([], before)


def test_a_broker_cannot_move_to_what_is_too_long_for_an_address(desk: Desk, call: Caller) -> None:
    answer = call(C.BROKER_HEARTBEAT, **beating(desk, 1, brokerAddr="b" * 1025))
    assert (answer.code, call.steps) == (ResponseCode.CONTROLLER_INVALID_REQUEST, [])
    assert call(C.BROKER_HEARTBEAT, **beating(desk, 1, brokerAddr="b" * 1024)).code == 0
    for name in ("clusterName", "brokerName"):  # they are remembered, also of groups that nobody knows
        answer = call(C.BROKER_HEARTBEAT, **beating(desk, 1, **{name: "n" * 256}))
        assert (answer.code, call.steps) == (ResponseCode.CONTROLLER_INVALID_REQUEST, [])
    assert call(C.CONTROLLER_REGISTER_BROKER, **registering(999, brokerAddress="b" * 1024)).code == 0


def test_1003_names_the_master_only_while_it_may_hold_a_lease(desk: Desk, call: Caller) -> None:
    answer = call(C.CONTROLLER_REGISTER_BROKER, **registering(2))
    found = header(answer, RegisteredResponse)
    assert isinstance(found, RegisteredResponse)
    assert (found.master_broker_id, found.master_epoch, found.registration) == (1, 1, 2)
    assert decode_body(SyncStateSet, body(answer)) == SyncStateSet(members=[1, 2, 3], epoch=1)
    desk.release(1)
    found = header(call(C.CONTROLLER_REGISTER_BROKER, **registering(2)), RegisteredResponse)
    assert isinstance(found, RegisteredResponse)
    assert found.master_broker_id is None


def test_1003_without_a_store_id_is_refused(call: Caller) -> None:
    answer = call(C.CONTROLLER_REGISTER_BROKER, clusterName="c", brokerName="bg", brokerId=1, brokerAddress="a:1")
    assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert answer.remark is not None
    assert "logherdStoreId" in answer.remark


def test_1003_of_another_store_under_a_living_id_is_refused(call: Caller) -> None:
    answer = call(C.CONTROLLER_REGISTER_BROKER, **registering(2, logherdStoreId="thief"))
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


@pytest.mark.parametrize("seen", [(1 << 30) + 1, 1 << 31, (1 << 63) - 1])
def test_1003_with_an_epoch_that_no_group_comes_to_changes_nothing(desk: Desk, call: Caller, seen: int) -> None:
    before = desk.group
    answer = call(C.CONTROLLER_REGISTER_BROKER, **registering(4, logherdEpochSeen=seen))
    assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert desk.group == before


def test_1003_with_a_negative_epoch_has_seen_none(desk: Desk, call: Caller) -> None:
    answer = call(C.CONTROLLER_REGISTER_BROKER, **registering(4, logherdEpochSeen=-(1 << 63)))
    assert answer.code == ResponseCode.SUCCESS
    assert desk.group.epoch == 1
    assert desk.group.master is not None


def test_brokers_read_what_is_answered_after_the_highest_epoch_that_is_taken(desk: Desk, call: Caller) -> None:
    call(C.CONTROLLER_REGISTER_BROKER, **registering(4, logherdEpochSeen=1 << 30))
    desk.wait(10_000, 1, 2, 3)
    assert desk.group.epoch == (1 << 30) + 1
    answer = call(C.CONTROLLER_REGISTER_BROKER, **registering(2))
    assert header(answer, RegisteredResponse).master_epoch == desk.group.epoch  # type: ignore[attr-defined]
    joined(Frame(0, 1, ext=encode_header(answer.header)))  # type: ignore[arg-type]


# ---- heartbeats ----------------------------------------------------------------------------------------------------


def test_904_is_answered_with_a_lease_after_the_quorum_has_confirmed_the_leader(desk: Desk, call: Caller) -> None:
    answer = call(C.BROKER_HEARTBEAT, **beating(desk, 1))
    assert call.steps == [Confirm]
    assert encode_header(header(answer, LeaseAnswer)) == {  # type: ignore[arg-type]
        "masterBrokerId": "1", "masterAddress": "b1:10911", "masterEpoch": "1", "syncStateSetEpoch": "1",
        "logherdMasterRegistration": "1", "logherdMemberRegistrations": "1;2;3", "logherdMinInSync": "2",
        "logherdLeaseMs": "2940",
    }  # fmt: skip
    assert desk.office.committed(KEY) == point(1, 50)


def test_904_of_a_follower_tells_the_roles_and_no_lease(desk: Desk, call: Caller) -> None:
    found = header(call(C.BROKER_HEARTBEAT, **beating(desk, 2)), LeaseAnswer)
    assert isinstance(found, LeaseAnswer)
    assert (found.master_broker_id, found.lease_ms, found.withheld) == (1, None, None)


def test_904_of_a_sick_master_is_told_why_it_gets_no_lease(desk: Desk, call: Caller) -> None:
    found = header(call(C.BROKER_HEARTBEAT, **beating(desk, 1, logherdHealthy=False)), LeaseAnswer)
    assert isinstance(found, LeaseAnswer)
    assert (found.lease_ms, found.withheld) == (None, Refusal.NOT_FIT.value)


def test_904_of_an_older_process_must_register_again(desk: Desk, call: Caller) -> None:
    answer = call(C.BROKER_HEARTBEAT, **beating(desk, 2, logherdRegistration=9))
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_904_only_a_leader_that_the_quorum_has_confirmed_says_that_a_process_is_unknown(desk: Desk) -> None:
    """A controller that has lost the quorum without knowing it has missed registrations: a leader that it sends away
    would let go."""
    for more in ({"logherdRegistration": 9}, {"epoch": 7}, {"clusterName": "c9"}):
        fields = {name: str(value) for name, value in beating(desk, 1, **more).items()}
        assert isinstance(take(Frame(C.BROKER_HEARTBEAT, 1, ext=fields), desk.office, QUORUM, desk.now), Confirm)


def test_904_of_a_log_of_a_later_epoch_than_the_groups_must_register_again(desk: Desk, call: Caller) -> None:
    answer = call(C.BROKER_HEARTBEAT, **beating(desk, 2, epoch=2))
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_904_of_a_broker_that_restarts_while_the_quorum_is_asked_gets_no_lease(desk: Desk) -> None:
    fields = {name: str(value) for name, value in beating(desk, 1).items()}
    step = take(Frame(C.BROKER_HEARTBEAT, 1, ext=fields), desk.office, QUORUM, desk.now)
    assert isinstance(step, Confirm)
    desk.register(1, life=2)
    answer = step.then(desk.now)
    assert isinstance(answer, Reply)
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_904_as_java_sends_it_is_refused(call: Caller) -> None:
    answer = call(C.BROKER_HEARTBEAT, clusterName="c", brokerName="bg", brokerAddr="a:1", brokerId=1)
    assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST


# ---- the in-sync set -----------------------------------------------------------------------------------------------


def altering(desk: Desk, **more: object) -> dict[str, object]:
    return {
        "brokerName": "bg", "masterBrokerId": 1, "masterEpoch": 1, "logherdRegistration": desk.registration(1),
        "logherdMinInSync": 2, **more,
    }  # fmt: skip


def proposal(*members: int, version: int = 1, processes: list[dict[str, int]] | None = None) -> bytes:
    return encode_body({"syncStateSet": members, "syncStateSetEpoch": version, "logherdMembers": processes or []})


def test_1001_changes_the_set(desk: Desk, call: Caller) -> None:
    answer = call(C.CONTROLLER_ALTER_SYNC_STATE_SET, proposal(1, 2), **altering(desk))
    assert header(answer, AlterSyncStateSetResponse) == AlterSyncStateSetResponse(sync_state_set_epoch=2)
    assert decode_body(SyncStateSet, body(answer)) == SyncStateSet(members=[1, 2], epoch=2)
    back = [{"brokerId": 3, "registration": desk.registration(3), "endEpoch": 1, "endPosition": 9}]
    answer = call(C.CONTROLLER_ALTER_SYNC_STATE_SET, proposal(1, 2, 3, version=2, processes=back), **altering(desk))
    assert answer.code == 0
    assert desk.group.sync.members == (1, 2, 3)


@pytest.mark.parametrize(
    ("said", "members", "version", "code"),
    [
        ({"brokerName": "none"}, (1, 2), 1, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        ({}, (1, 2, 3), 1, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        ({"masterBrokerId": 2}, (1, 2), 1, ResponseCode.CONTROLLER_INVALID_MASTER),
        ({"logherdRegistration": 9}, (1, 2), 1, ResponseCode.CONTROLLER_INVALID_MASTER),
        ({"masterEpoch": 2}, (1, 2), 1, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH),
        ({}, (1, 2), 7, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        ({}, (1, 9), 1, ResponseCode.CONTROLLER_INVALID_REPLICAS),
        ({}, (2, 3), 1, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
    ],
)
def test_1001_is_refused_with_rocketmqs_numbers(
    desk: Desk, call: Caller, said: dict[str, object], members: tuple[int, ...], version: int, code: int
) -> None:
    answer = call(C.CONTROLLER_ALTER_SYNC_STATE_SET, proposal(*members, version=version), **altering(desk, **said))
    assert answer.code == code


PROCESS = {"brokerId": 1, "registration": 1, "endEpoch": 1, "endPosition": 9}


@pytest.mark.parametrize(("said", "more"), [
    ({"syncStateSet": [1] * 1_000}, {}), ({"logherdMembers": [PROCESS] * 1_000}, {}),
    ({}, {"logherdRequest": "x" * 1_025}),
])  # fmt: skip
def test_1001_with_more_than_a_group_has_is_not_proposed(
    desk: Desk, call: Caller, said: dict[str, object], more: dict[str, object]
) -> None:
    proposed = encode_body({"syncStateSet": [1, 2], "syncStateSetEpoch": 1, **said})
    answer = call(C.CONTROLLER_ALTER_SYNC_STATE_SET, proposed, **altering(desk, **more))
    assert (answer.code, call.steps) == (ResponseCode.CONTROLLER_INVALID_REQUEST, [])


def test_1001_with_a_member_that_does_not_report_is_refused(desk: Desk, call: Caller) -> None:
    desk.alter(1, 1, 2)
    desk.now += 60_000
    answer = call(C.CONTROLLER_ALTER_SYNC_STATE_SET, proposal(1, 2, 3, version=2), **altering(desk))
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE


# ---- elections -----------------------------------------------------------------------------------------------------


def electing(target: int, *, designated: bool = True) -> dict[str, object]:
    return {"clusterName": "c", "brokerName": "bg", "brokerId": target, "designateElect": designated}


def test_1002_of_a_designated_broker_is_answered_when_the_transfer_is_done(desk: Desk, call: Caller) -> None:
    def hand_over() -> None:
        desk.release(1, exited=False)
        desk.wait(50, 2, 3)

    call.while_waiting = hand_over
    answer = call(C.CONTROLLER_ELECT_MASTER, **electing(3))
    assert call.steps == [Confirm, Decide, AwaitMaster]
    assert answer.code == 0
    assert header(answer, MasterResponse) == MasterResponse(
        master_broker_id=3, master_address="b3:10911", master_epoch=2, sync_state_set_epoch=2
    )
    found = decode_body(ElectMasterAnswer, body(answer))
    assert found.members == [1, 2, 3]
    assert found.group.addresses == found.addresses == {1: "b1:10911", 2: "b2:10911", 3: "b3:10911"}


def test_1002_that_ends_with_another_one_than_was_designated_has_failed_and_says_who_leads(
    desk: Desk, call: Caller
) -> None:
    def another() -> None:
        desk.release(3)
        desk.release(1, exited=False)
        desk.wait(2_000, 2)

    call.while_waiting = another
    answer = call(C.CONTROLLER_ELECT_MASTER, **electing(3))
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    found = header(answer, MasterResponse)
    assert isinstance(found, MasterResponse)
    assert found.master_broker_id == 2
    assert answer.remark == "broker 2 was elected, not 3"


def test_1002_that_is_not_done_in_time_says_so(call: Caller) -> None:
    assert call(C.CONTROLLER_ELECT_MASTER, **electing(3)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


def test_1002_with_a_living_master_says_who_it_is(call: Caller) -> None:
    for request in (electing(1), electing(2, designated=False)):
        answer = call(C.CONTROLLER_ELECT_MASTER, **request)
        assert answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        found = header(answer, MasterResponse)
        assert isinstance(found, MasterResponse)
        assert found.master_broker_id == 1


def test_1002_of_nobody_in_sync_or_an_unknown_group_is_refused(desk: Desk, call: Caller) -> None:
    desk.register(4)
    desk.beat(4)
    assert call(C.CONTROLLER_ELECT_MASTER, **electing(4)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    unknown = {**electing(1), "brokerName": "none"}
    need = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert call(C.CONTROLLER_ELECT_MASTER, **unknown).code == need
    assert call(C.CONTROLLER_ELECT_MASTER, **{**unknown, "designateElect": False}).code == need


def test_1002_where_nobody_leads_says_what_the_group_waits_for(desk: Desk, call: Caller) -> None:
    desk.alter(1, 1, 2)
    desk.now += desk.terms.waiter_ms
    desk.beat(3)
    answer = call(C.CONTROLLER_ELECT_MASTER, **electing(3))
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert answer.remark is not None
    assert answer.remark.startswith("the broker is not in sync: Nobody can be elected without loss: broker 1: ")


def test_1002_without_a_master_elects_the_designated_member_at_once(desk: Desk, call: Caller) -> None:
    desk.now += desk.terms.waiter_ms
    desk.beat(2, 3)
    assert call(C.CONTROLLER_ELECT_MASTER, **electing(3)).code == 0
    assert call.steps == [Confirm, Decide]
    assert desk.group.epoch == 2


# ---- questions -----------------------------------------------------------------------------------------------------


def test_1004_answers_master_and_set_after_confirmation(call: Caller) -> None:
    answer = call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="bg")
    assert call.steps == [Confirm]
    assert header(answer, MasterResponse) == MasterResponse(
        master_broker_id=1, master_address="b1:10911", master_epoch=1, sync_state_set_epoch=1
    )
    missing = call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="none")
    assert missing.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


def test_1006_lists_replicas_in_and_out_of_sync_and_leaves_unknown_names_out(desk: Desk, call: Caller) -> None:
    desk.alter(1, 1, 2)
    desk.release(3)
    answer = call(C.CONTROLLER_GET_SYNC_STATE_DATA, b'["bg","none"]')
    found = decode_body(SyncStateData, body(answer)).replicas
    assert set(found) == {"bg"}
    assert [(row.broker_id, row.alive) for row in found["bg"].in_sync] == [(1, True), (2, True)]
    assert [(row.broker_id, row.alive) for row in found["bg"].not_in_sync] == [(3, False)]


def test_a_name_that_two_clusters_have_is_refused_when_none_is_named(desk: Desk, call: Caller) -> None:
    desk.submit(
        Register(group=GroupKey("d", "bg"), broker_id=BrokerId(1), store_id="x", incarnation="x", address="x:1")
    )
    answer = call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="bg")
    assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert answer.remark is not None
    assert "c, d" in answer.remark


def test_a_group_of_which_all_brokers_were_forgotten_hides_none_of_its_name(desk: Desk, call: Caller) -> None:
    for cluster in ("d", "e"):
        key = GroupKey(cluster, "bg")
        desk.submit(Register(group=key, broker_id=BrokerId(1), store_id="x", incarnation="x", address="x:1"))
        desk.submit(Clean(group=key, expected_epoch=Epoch(0)))
    assert call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="bg").code == ResponseCode.SUCCESS
    desk.submit(Clean(group=GroupKey("c", "bg"), expected_epoch=desk.group.epoch))
    answer = call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="bg")
    assert answer.code not in {ResponseCode.SUCCESS, ResponseCode.CONTROLLER_INVALID_REQUEST}


# ---- cleaning and settings -----------------------------------------------------------------------------------------


def test_1011_forgets_a_dead_broker_out_of_sync_and_refuses_the_rest(desk: Desk, call: Caller) -> None:
    invalid = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    asked = {"clusterName": "c", "brokerName": "bg", "isCleanLivingBroker": False}
    assert call(C.CLEAN_BROKER_DATA, **asked).code == invalid
    assert call(C.CLEAN_BROKER_DATA, **asked, brokerControllerIdsToClean="3").code == invalid
    assert call(C.CLEAN_BROKER_DATA, **asked, brokerControllerIdsToClean="three").code == invalid
    assert call(C.CLEAN_BROKER_DATA, **asked, brokerControllerIdsToClean="3;three").code == invalid
    assert call(C.CLEAN_BROKER_DATA, **asked, brokerControllerIdsToClean="9" * 5_000).code == invalid
    for none in (";", " ; ;"):
        answer = call(C.CLEAN_BROKER_DATA, **{**asked, "isCleanLivingBroker": True}, brokerControllerIdsToClean=none)
        assert (answer.code, len(desk.group.replicas)) == (invalid, 3)
    desk.alter(1, 1, 2)
    desk.now += 60_000
    assert call(C.CLEAN_BROKER_DATA, **asked, brokerControllerIdsToClean="3;").code == 0
    assert desk.group.replica(BrokerId(3)) is None
    assert call(C.CLEAN_BROKER_DATA, **{**asked, "brokerName": "none"}).code == invalid


def test_1009_and_1010_set_and_show(call: Caller) -> None:
    assert call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n").code == 0
    shown = body(call(C.GET_CONTROLLER_CONFIG)).decode()
    assert "transferMs=777\n" in shown
    assert "controllerType=LogHerd\n" in shown


def test_1009_takes_the_ends_of_each_range(call: Caller) -> None:
    for name, bounds in TUNABLE.items():
        for value in bounds:
            assert call(C.UPDATE_CONTROLLER_CONFIG, b"%s=%d\n" % (name.encode(), value)).code == 0
            assert f"{name}={value}\n" in body(call(C.GET_CONTROLLER_CONFIG)).decode()


def test_1010_is_answered_by_any_controller_because_tools_ask_each_of_a_list(desk: Desk, call: Caller) -> None:
    call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n")
    call.leads = False
    assert "transferMs=777\n" in body(call(C.GET_CONTROLLER_CONFIG)).decode()
    assert call.steps == []


def test_1009_at_another_controller_is_done_if_the_leader_was_told_and_else_a_redirect(call: Caller) -> None:
    call.leads = False
    answer = call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n")
    assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
    assert call.steps == [Catch]
    call.leads = True
    assert call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n").code == 0
    call.leads = False
    assert call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n").code == 0
    assert call(C.UPDATE_CONTROLLER_CONFIG, b"leaseMs=1\n").code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"configStorePath=/tmp\n", ResponseCode.NO_PERMISSION),
        (b"leaseMs=1\n", ResponseCode.INVALID_PARAMETER),
        (b"transferMs=1\n", ResponseCode.INVALID_PARAMETER),
        (b"gatherMs=1\ntransferMs=x\n", ResponseCode.INVALID_PARAMETER),
    ],
)
def test_1009_sets_all_or_nothing(desk: Desk, call: Caller, text: bytes, code: int) -> None:
    assert call(C.UPDATE_CONTROLLER_CONFIG, text).code == code
    assert desk.machine.settings == {}


def test_every_refusal_has_a_code_for_every_request() -> None:
    for request in SERVED:
        for refusal in Refusal:
            assert response_code(request, refusal) != 0


def test_r18_an_unknown_outcome_is_never_called_success() -> None:
    assert unknown_outcome().code != 0


@pytest.mark.parametrize("refusal", list(QuorumRefusal))
def test_what_the_quorum_refuses_is_no_success_and_a_redirect_if_another_leads(
    call: Caller, refusal: QuorumRefusal
) -> None:
    call.refusal = refusal
    answer = call(C.CONTROLLER_GET_REPLICA_INFO, brokerName="bg")
    elsewhere = refusal in (QuorumRefusal.NOT_LEADER, QuorumRefusal.NOT_READY, QuorumRefusal.TRANSFERRING)
    assert answer.code == (ResponseCode.CONTROLLER_NOT_LEADER if elsewhere else ResponseCode.SYSTEM_ERROR)


def test_a_lost_leadership_is_an_unknown_outcome(call: Caller) -> None:
    call.lost = True
    answer = call(C.UPDATE_CONTROLLER_CONFIG, b"transferMs=777\n")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "unknown" in answer.remark


# ---- releases ------------------------------------------------------------------------------------------------------


def releasing(broker: int, *, life: int = 1, exited: bool = True, **more: object) -> dict[str, object]:
    return {
        "clusterName": "c", "brokerName": "bg", "brokerId": broker, "storeId": f"store{broker}",
        "incarnation": f"store{broker}.{life}", "exited": exited, "confirmEpoch": 1, "confirmOffset": 70, **more,
    }  # fmt: skip


def test_h14_27001_frees_the_lease_at_once_and_may_be_said_again(desk: Desk, call: Caller) -> None:
    for _ in range(2):
        answer = call(C.LEASE_RELEASE, **releasing(1))
        assert answer.code == 0
        assert header(answer, LeaseReleaseResponse) == LeaseReleaseResponse(master_epoch=1)
        assert call.steps == [Decide]
    assert desk.group.master is None
    assert desk.group.sync.committed == point(1, 70)
    assert len(desk.wait(50, 2, 3)) == 1
    assert header(call(C.LEASE_RELEASE, **releasing(1)), LeaseReleaseResponse) == LeaseReleaseResponse(master_epoch=2)


def test_h14_27001_of_another_incarnation_is_refused_and_learns_nothing(desk: Desk, call: Caller) -> None:
    for wrong in ({"incarnation": "guess"}, {"storeId": "other"}, {"brokerId": 9}, {"brokerName": "none"}):
        answer = call(C.LEASE_RELEASE, **releasing(1, **wrong))
        assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        assert "store1" not in f"{answer.remark}{answer.header}{answer.body!r}"
    assert desk.group.master is not None


def test_27002_of_two_promotions_after_one_table_records_the_first_and_tells_the_other_of_it(call: Caller) -> None:
    order = {"clusterName": "c", "brokerName": "static", "after": 1}
    recorded = RolesPromoteResponse(number=2, broker_id=2, table="b2")
    for _ in range(2):
        answer = call(C.ROLES_PROMOTE, **order, brokerId=2, table="b2")
        assert (answer.code, header(answer, RolesPromoteResponse)) == (0, recorded)
        assert call.steps == [Decide]
    answer = call(C.ROLES_PROMOTE, **order, brokerId=3, table="b3")
    assert answer.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert header(answer, RolesPromoteResponse) == recorded
    assert "broker 2 leads by table 2" in (answer.remark or "")


def test_27002_that_follows_no_table_is_refused(call: Caller) -> None:
    order = {"clusterName": "c", "brokerName": "static", "brokerId": 2, "table": "b2"}
    for after in (0, -1, 1 << 20):
        assert call(C.ROLES_PROMOTE, **order, after=after).code == ResponseCode.CONTROLLER_INVALID_REQUEST
    large = {**order, "table": "b" * 20_000}
    assert call(C.ROLES_PROMOTE, **large, after=1).code == ResponseCode.CONTROLLER_INVALID_REQUEST


def test_27001_of_a_broker_that_resigns_lets_it_go_on_as_a_follower(desk: Desk, call: Caller) -> None:
    assert call(C.LEASE_RELEASE, **releasing(1, exited=False)).code == 0
    found = header(call(C.BROKER_HEARTBEAT, **beating(desk, 1)), LeaseAnswer)
    assert isinstance(found, LeaseAnswer)
    assert (found.master_broker_id, found.lease_ms) == (None, None)
