"""H9: every request code has a row in the one table, and whatever goes to the leader has one that says how."""

import pytest

from logherd.service.forwarding.handling import HANDLING, HOLD_MS, Kind
from logherd.service.routing import ROUTES, Role, Where
from logherd.wire.codes import RequestCode, request_name


@pytest.mark.parametrize("code", list(RequestCode), ids=request_name)
def test_h9_every_request_code_has_a_row_and_those_that_are_sent_on_have_a_handling(code: RequestCode) -> None:
    route = ROUTES[code]
    assert (code in HANDLING) == (route.where in (Where.FORWARD, Where.BOTH))
    if code in HANDLING:
        assert route.role is Role.BROKER


def test_h9_the_handling_has_no_rows_of_other_codes() -> None:
    assert set(HANDLING) <= set(map(int, RequestCode))


def test_h10_nothing_is_held_longer_than_2500_ms_but_pulls_and_the_question_where_a_group_stands() -> None:
    assert {code for code, row in HANDLING.items() if row.hold_ms > HOLD_MS} == {RequestCode.QUERY_CONSUMER_OFFSET}
    assert HANDLING[RequestCode.QUERY_CONSUMER_OFFSET].hold_ms < 5_000, "its client does not wait longer"
    assert HOLD_MS == 2_500


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
def test_locks_are_held_for_less_than_the_second_that_their_client_waits(code: RequestCode) -> None:
    assert HANDLING[code].hold_ms <= 900


def test_h11_offset_commits_are_the_one_kind_that_is_never_held() -> None:
    assert {code for code, row in HANDLING.items() if row.kind is Kind.COMMIT} == {15}


def test_what_waits_for_somebody_else_holds_up_nothing_after_it() -> None:
    assert {code for code, row in HANDLING.items() if not row.ordered} == {11, 361, 223, 307, 309}


@pytest.mark.parametrize("code", [39, 40, 220, 221, 326])
def test_h12_what_a_broker_asks_of_clients_is_not_taken_from_them(code: int) -> None:
    assert ROUTES[code] == (Where.REFUSE, Role.CLIENT, "")


@pytest.mark.parametrize("code", [25, 26, 28, 315])
def test_h9_one_brokers_configuration_and_state_are_answered_by_the_broker_that_was_asked(code: int) -> None:
    assert ROUTES[code].where is Where.HERE


def test_h10_what_may_change_something_is_never_taken_for_what_changes_nothing() -> None:
    changes = {request_name(code) for code, row in HANDLING.items() if row.kind is Kind.CHANGE}
    assert changes == {
        "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2",
        "INVOKE_BROKER_TO_RESET_OFFSET", "CLONE_GROUP_OFFSET", "UPDATE_AND_CREATE_TOPIC",
        "UPDATE_AND_CREATE_TOPIC_LIST", "DELETE_TOPIC_IN_BROKER", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "DELETE_SUBSCRIPTIONGROUP", "LOCK_BATCH_MQ", "UNLOCK_BATCH_MQ",
        "WRITER_OPEN", "WRITER_CHUNK", "WRITER_COUNT", "WRITER_CLOSE", "HEART_BEAT", "UNREGISTER_CLIENT",
    }  # fmt: skip
