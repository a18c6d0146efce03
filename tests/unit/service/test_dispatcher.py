"""The route table has a row for every code (H9), and the dispatcher answers whatever comes."""

import pytest

from logherd.service.dispatcher import Dispatcher, response_frame
from logherd.service.errors import RequestError
from logherd.service.metadata import MetadataRefusedError
from logherd.service.ports import PARKED, Answer, Reply, Request, Session
from logherd.service.routing import ROUTES, Role, Where, refusal
from logherd.store import StoreDamaged
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.headers.offsets import OffsetResponse, QueueHeader
from unit.service.client_fakes import FakeClock, FakeSession

MIN = RequestCode.GET_MIN_OFFSET


def dispatcher(handler: object = None, role: Role = Role.BROKER, *, raw: bool = False) -> Dispatcher:
    given = {MIN: handler} if handler else {}
    return Dispatcher(role, FakeClock(), typed={} if raw else given, raw=given if raw else {})  # type: ignore[arg-type]


def ask(dispatcher: Dispatcher, code: int = MIN, **options: object) -> Answer | None:
    ext = {"topic": "orders", "queueId": "3"}
    return dispatcher.handle(Frame(code, 7, **{"ext": ext, **options}), FakeSession())  # type: ignore[arg-type]


@pytest.mark.parametrize("code", list(RequestCode))
def test_every_request_code_has_a_row(code: RequestCode) -> None:
    assert code in ROUTES


def test_the_table_has_no_rows_for_codes_that_do_not_exist() -> None:
    assert set(ROUTES) == set(map(int, RequestCode))


@pytest.mark.parametrize("code", list(RequestCode))
def test_every_refusal_names_the_request_and_why(code: RequestCode) -> None:
    answer = ask(dispatcher(role=Role.NAMES if ROUTES[code].role is Role.BROKER else Role.BROKER), code)
    assert isinstance(answer, Reply)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark is not None
    assert answer.remark.startswith(f"{code.value} {code.name} is ")
    assert answer.remark.isascii()


@pytest.mark.parametrize(
    ("code", "feature"),
    [
        (36, "retry by delay level"), (37, "transactions"), (370, "recall of timed messages"), (60, "delayed delivery"),
        (200050, "POP"), (200051, "POP"), (200151, "POP"), (400, "POP"), (513, "static topics"),
        (3001, "access control"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_by_its_name(code: int, feature: str) -> None:
    assert ROUTES[code].where is Where.REFUSE
    assert feature in refusal(code, Role.BROKER)


@pytest.mark.parametrize("code", [1001, 1002, 1003, 1005, 1006, 1009, 1011])
def test_who_asks_a_broker_for_what_controllers_do_hears_whom_to_ask(code: int) -> None:
    assert refusal(code, Role.BROKER).endswith("is a request to a controller, this is a broker")
    assert refusal(code, Role.NAMES).endswith("is a request to a controller, this is the name service")


@pytest.mark.parametrize("code", list(RequestCode))
def test_no_refusal_denies_what_this_version_has(code: RequestCode) -> None:
    assert "not part of this version" not in refusal(code, Role.BROKER)


def test_requests_that_read_or_change_the_log_go_to_the_leader() -> None:
    for code in (10, 310, 320, 11, 361, 14, 15, 17, 29, 30, 31, 32, 38, 41, 200, 207, 208, 215, 222):
        assert ROUTES[code].where is Where.FORWARD
    for code in (25, 26, 28, 315):
        assert ROUTES[code].where is Where.HERE
    for code in (34, 35):
        assert ROUTES[code].where is Where.BOTH


def test_an_unknown_code_is_3_as_rocketmq_says_it() -> None:
    answer = ask(dispatcher(), 9999)
    assert isinstance(answer, Reply)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_missing_handlers_are_named_for_the_role_that_needs_them() -> None:
    names = dispatcher(role=Role.NAMES).missing
    assert RequestCode.GET_ROUTEINFO_BY_TOPIC in names
    assert MIN not in names
    brokers = dispatcher(lambda *_: Reply()).missing
    assert MIN not in brokers
    assert RequestCode.SEND_MESSAGE in brokers
    assert RequestCode.CONSUMER_SEND_MSG_BACK not in brokers


def test_a_typed_handler_gets_its_header_and_the_time() -> None:
    seen: list[Request] = []

    def handler(request: Request, session: Session) -> Answer:
        seen.append(request)
        return Reply()

    ask(dispatcher(handler))
    assert seen[0].header == QueueHeader(topic="orders", queue_id=3)
    assert seen[0].received_ms == FakeClock().monotonic_ms()


def failing(error: Exception) -> object:
    def handler(*_: object) -> Answer:
        raise error

    return handler


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RequestError(17, "no topic"), 17, "no topic"), (BodyError("no JSON"), 29, "no JSON"),
        (MetadataRefusedError("disk full"), 14, "disk full"),
        (OSError(5, "Input/output error"), 1, "the disk of this broker fails: [Errno 5] Input/output error"),
    ],
)  # fmt: skip
def test_what_a_handler_raises_becomes_an_answer(error: Exception, code: int, remark: str, *, raw: bool) -> None:
    answer = ask(dispatcher(failing(error), raw=raw))
    assert isinstance(answer, Reply)
    assert (answer.code, answer.remark) == (code, remark)


@pytest.mark.parametrize("raw", [False, True])
def test_damage_that_a_request_meets_is_answered_and_told(*, raw: bool) -> None:
    error, met = StoreDamaged("commitlog/0", 7, "the record checksum differs", "."), list[StoreDamaged]()
    asked = dispatcher(failing(error), raw=raw)
    asked.on_damage = met.append
    answer = ask(asked)
    assert isinstance(answer, Reply)
    assert (answer.code, answer.remark) == (1, str(error))
    assert met == [error]


@pytest.mark.parametrize("error", [StoreDamaged("commitlog/0", 7, "bad", "."), OSError(5, "Input/output error")])
def test_a_consumer_that_meets_the_same_damage_each_second_fills_no_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    asked = dispatcher(failing(error))
    for _ in range(30):
        ask(asked)
    assert len(caplog.messages) == 10


def test_a_wrong_header_is_29_with_field_value_and_what_is_right() -> None:
    answer = ask(dispatcher(lambda *_: Reply()), ext={"topic": "orders", "queueId": "three"})
    assert isinstance(answer, Reply)
    assert (answer.code, answer.remark) == (29, "field queueId is 'three', expected int")


@pytest.mark.parametrize("error", [RequestError(17, ""), BodyError("")])
def test_a_oneway_request_is_never_answered(error: Exception) -> None:
    assert ask(dispatcher(lambda *_: Reply()), flag=Flag.ONEWAY) is None
    assert ask(dispatcher(failing(error)), flag=Flag.ONEWAY) is None
    assert ask(dispatcher(), 9999, flag=Flag.ONEWAY) is None
    assert ask(dispatcher(lambda *_: Reply()), ext={}, flag=Flag.ONEWAY) is None


def test_a_parked_request_is_not_answered_now() -> None:
    assert ask(dispatcher(lambda *_: PARKED)) is None


@pytest.mark.parametrize(("flag", "kept"), [(0, b"much"), (Flag.ONEWAY, b"")])
def test_who_parks_a_request_keeps_nothing_of_its_body_that_its_connection_does_not_count(
    flag: int, kept: bytes
) -> None:
    parked: list[Request] = []

    def park(request: Request, _session: Session) -> Answer:
        parked.append(request)
        return PARKED

    assert ask(dispatcher(park), flag=flag, body=b"much") is None
    (request,) = parked
    assert (request.body, request.frame.body) == (b"", kept)


def test_a_programming_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(dispatcher(failing(ZeroDivisionError())))


def test_an_answer_echoes_its_request() -> None:
    request = Frame(MIN, 42, serialize=Serialize.BINARY)
    frame = response_frame(request, Reply(22, OffsetResponse(queue_offset=5), remark="why"))
    assert (frame.opaque, frame.code, frame.flag, frame.remark) == (42, 22, Flag.RESPONSE, "why")
    assert frame.ext == {"offset": "5"}
    assert frame.serialize == Serialize.BINARY
    assert response_frame(request, Reply(header={"k": "v"})).ext == {"k": "v"}
    assert response_frame(request, Reply()).ext == {}
