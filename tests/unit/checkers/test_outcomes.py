"""What a client of the controllers may believe of each answer, held against what the controllers' own desk answers."""

import pytest

from checkers.history import Outcome
from logherd.controller.verdicts import Refusal
from logherd.service.controllers.codes import response_code
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from system.controller_client import outcome_of
from system.fake_brokers import ask_claim, ask_next, ask_register

NEXT, CLAIM, REGISTER = ask_next("g"), ask_claim("g", 1, "code"), ask_register("g", 1, "incarnation")


def answer(code: int) -> Frame:
    return Frame(code, 1)


@pytest.mark.parametrize("refusal", Refusal)
@pytest.mark.parametrize("code", [RequestCode.CONTROLLER_REGISTER_BROKER, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET])
def test_a_refusal_by_a_rule_has_changed_nothing(refusal: Refusal, code: RequestCode) -> None:
    assert outcome_of(REGISTER, answer(response_code(code, refusal))) is Outcome.FAILED


def test_a_redirect_has_changed_nothing() -> None:
    assert outcome_of(NEXT, answer(ResponseCode.CONTROLLER_NOT_LEADER)) is Outcome.FAILED


def test_a_refused_claim_is_an_answer() -> None:
    refused = answer(response_code(RequestCode.CONTROLLER_APPLY_BROKER_ID, Refusal.ID_TAKEN))
    assert outcome_of(CLAIM, refused) is Outcome.OK
    assert CLAIM.read(refused) == {"granted": False}
    assert outcome_of(NEXT, refused) is Outcome.FAILED


def test_success_is_success() -> None:
    assert outcome_of(NEXT, answer(ResponseCode.SUCCESS)) is Outcome.OK
    assert CLAIM.read(answer(ResponseCode.SUCCESS)) == {"granted": True}


@pytest.mark.parametrize("frame", [None, answer(ResponseCode.SYSTEM_ERROR), answer(2), answer(2015), answer(4711)])
def test_silence_errors_and_unknown_codes_leave_the_outcome_open(frame: Frame | None) -> None:
    assert outcome_of(NEXT, frame) is Outcome.UNKNOWN
