"""What a leader gets of a client's request."""

import pytest

from logherd.net.intake import exact_size
from logherd.service.forwarding.errand import Caller, Errand, at_home, outgoing
from logherd.service.forwarding.handling import HOLD_MS
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import ForwardedHeader
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd.wire.send_frame import SendFrame
from unit.service.client_fakes import FakeSession

NOW = 10_000
PULL_EXT = {"sysFlag": "7", "suspendTimeoutMillis": "15000", "commitOffset": "42", "trace": "kept"}


def errand_of(frame: Frame) -> Errand:
    return Errand(1, Caller(FakeSession(id=77, remote_ip="10.0.0.9", remote_port=4711)), frame, now_ms=NOW)


def sent(frame: Frame, *, delayed: bool = False, now_ms: int = NOW) -> Frame:
    errand = errand_of(frame)
    errand.delayed = delayed
    return outgoing(errand, epoch=9, deadline_ms=123_456, now_ms=now_ms)


def test_h12_it_carries_epoch_deadline_and_whose_it_is_beside_its_own_fields() -> None:
    frame = sent(Frame(10, 5, ext={"topic": "t"}, body=b"body", language="GO", version=317))
    marks = decode_header(ForwardedHeader, frame.ext)
    assert marks == ForwardedHeader(session=77, client_ip="10.0.0.9", client_port=4711, epoch=9, deadline_ms=123_456)
    assert frame.ext["topic"] == "t"
    assert (frame.body, frame.language, frame.version) == (b"body", "GO", 317)


def test_h12_what_a_client_says_in_fields_between_brokers_counts_for_nothing() -> None:
    strange = ForwardedHeader(session=1, client_ip="10.9.9.9", client_port=1, epoch=99, deadline_ms=1 << 50)
    marks = decode_header(ForwardedHeader, sent(Frame(10, 5, ext=encode_header(strange))).ext)
    assert marks == ForwardedHeader(session=77, client_ip="10.0.0.9", client_port=4711, epoch=9, deadline_ms=123_456)


def test_the_clients_own_frame_is_left_as_it_was() -> None:
    frame = Frame(11, 5, ext=dict(PULL_EXT))
    sent(frame, delayed=True)
    assert frame.ext == PULL_EXT


def test_a_send_that_was_decoded_at_once_goes_with_all_its_fields() -> None:
    header = SendMessageHeaderV2(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queues=4, queue_id=2, sys_flag=0,
        born_timestamp=3, flag=0, properties="a\x01b\x02", batch=False,
    )  # fmt: skip
    reader = FrameReader(typed_sends=True)
    (typed,) = reader.feed(encode_frame(Frame(310, 5, ext=encode_header(header), body=b"body")))
    assert type(typed) is SendFrame
    (arrived,) = FrameReader(typed_sends=True).feed(encode_frame(sent(typed)))
    assert decode_header(SendMessageHeaderV2, arrived.ext) == header
    assert arrived.body == b"body"


def test_a_oneway_request_goes_as_one_that_is_answered_so_that_a_refusal_is_heard() -> None:
    assert sent(Frame(10, 5, flag=Flag.ONEWAY)).flag == 0


def test_h11_a_oneway_commit_stays_oneway() -> None:
    assert sent(Frame(15, 5, flag=Flag.ONEWAY)).flag == Flag.ONEWAY


def test_what_came_with_a_binary_header_goes_with_one_of_any_length() -> None:
    assert sent(Frame(10, 5, serialize=Serialize.BINARY)).serialize is Serialize.JSON


def test_h11_a_delayed_pull_commits_nothing_and_waits_only_for_the_rest_of_its_time() -> None:
    frame = sent(Frame(11, 5, ext=dict(PULL_EXT)), delayed=True, now_ms=NOW + 5_000)
    assert frame.ext["sysFlag"] == "6"
    assert frame.ext["suspendTimeoutMillis"] == "10000"
    assert frame.ext["trace"] == "kept"


def test_a_prompt_pull_goes_as_it_came() -> None:
    assert PULL_EXT.items() <= sent(Frame(11, 5, ext=dict(PULL_EXT))).ext.items()


def test_a_delayed_pull_that_wants_to_wait_less_does_not_wait_longer() -> None:
    frame = sent(Frame(11, 5, ext={**PULL_EXT, "suspendTimeoutMillis": "100"}), delayed=True)
    assert frame.ext["suspendTimeoutMillis"] == "100"
    late = sent(Frame(11, 5, ext=dict(PULL_EXT)), delayed=True, now_ms=NOW + 15_001)
    assert late.ext["suspendTimeoutMillis"] == "0"


@pytest.mark.parametrize(
    ("flags", "suspend_ms", "held_ms"), [("2", "30000", 30_000), ("2", "9" * 20, 30_000), ("5", "30000", HOLD_MS)]
)
def test_a_pull_is_held_as_long_as_it_may_wait_and_its_answer_is_waited_for_beyond_that(
    flags: str, suspend_ms: str, held_ms: int
) -> None:
    errand = errand_of(Frame(11, 5, ext={"sysFlag": flags, "suspendTimeoutMillis": suspend_ms}))
    assert errand.deadline_ms - NOW == held_ms
    assert held_ms + 5_000 <= errand.answer_ms <= held_ms + 30_000


def test_the_answer_to_a_change_is_waited_for_until_no_client_does() -> None:
    assert errand_of(Frame(10, 5)).answer_ms >= 10 * HOLD_MS


def test_h11_a_delayed_pull_that_is_carried_out_here_commits_nothing_either() -> None:
    errand = errand_of(Frame(11, 5, ext=dict(PULL_EXT)))
    errand.delayed = True
    frame = at_home(errand, now_ms=NOW + 14_000)
    assert frame is errand.frame
    assert (frame.ext["sysFlag"], frame.ext["suspendTimeoutMillis"]) == ("6", "1000")


def test_a_prompt_pull_that_is_carried_out_here_commits_what_rides_on_it() -> None:
    assert at_home(errand_of(Frame(11, 5, ext=dict(PULL_EXT))), now_ms=NOW).ext == PULL_EXT


def test_only_pulls_are_made_others_by_a_delay() -> None:
    """The flag that has a pull commit says of a message that its body is compressed."""
    ext = {"topic": "t", "sysFlag": "1"}
    errand = errand_of(Frame(10, 5, ext=dict(ext), body=b"compressed"))
    errand.delayed = True
    assert at_home(errand, now_ms=NOW + 1_000).ext == ext
    there = outgoing(errand, epoch=9, deadline_ms=123_456, now_ms=NOW + 1_000)
    assert (there.ext["sysFlag"], "suspendTimeoutMillis" in there.ext) == ("1", False)


@pytest.mark.parametrize("field", ["sysFlag", "suspendTimeoutMillis"])
def test_a_delayed_pull_with_nonsense_in_it_is_left_for_the_leader_to_refuse(field: str) -> None:
    frame = sent(Frame(RequestCode.LITE_PULL_MESSAGE, 5, ext={**PULL_EXT, field: "what"}), delayed=True)
    assert frame.ext[field] == "what"


def test_a_delayed_pull_with_flags_of_thousands_of_digits_is_left_for_the_leader_to_refuse() -> None:
    """Without the offset's bit they have one digit more, and more than Python writes."""
    ext = {**PULL_EXT, "sysFlag": "-" + "9" * 4300}
    errand = errand_of(Frame(RequestCode.PULL_MESSAGE, 5, ext=dict(ext)))
    errand.delayed = True
    assert at_home(errand, now_ms=NOW).ext == ext
    assert sent(Frame(RequestCode.PULL_MESSAGE, 5, ext=dict(ext)), delayed=True).ext["sysFlag"] == ext["sysFlag"]


@pytest.mark.parametrize(
    "ext",
    [
        {**PULL_EXT, "subscription": "x" * 30_000},
        {f"k{number}": "" for number in range(120)},
        {**PULL_EXT, **{f"f{number}": "v" * 60 for number in range(16)}},
    ],
    ids=["long", "many", "a little larger than ordinary"],
)
def test_a_large_header_counts_as_what_it_takes_here_and_at_the_leader(ext: dict[str, str]) -> None:
    frame = Frame(11, 5, ext=ext, body=b"body")
    size, there = errand_of(frame).size, exact_size(sent(frame))
    assert exact_size(frame) < there <= size < 2 * there


def typed_send(properties: str) -> SendFrame:
    header = SendMessageHeaderV2(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queues=4, queue_id=2, sys_flag=0,
        born_timestamp=1_700_000_000_000, flag=0, properties=properties, reconsume_times=0, unit_mode=False,
        batch=False,
    )  # fmt: skip
    (frame,) = FrameReader(typed_sends=True).feed(encode_frame(Frame(310, 5, ext=encode_header(header), body=b"body")))
    assert type(frame) is SendFrame
    return frame


@pytest.mark.parametrize("length", [950, 1_700])
def test_a_large_header_that_was_decoded_at_once_counts_as_what_it_takes_at_the_leader(length: int) -> None:
    frame = typed_send("x" * length)
    size, there = errand_of(frame).size, exact_size(sent(frame))
    assert there <= size < 2 * there


def test_an_ordinary_header_that_was_decoded_at_once_counts_for_1_kib() -> None:
    assert errand_of(typed_send("x" * 500)).size == 1024 + 4


def test_an_ordinary_header_counts_for_1_kib() -> None:
    assert errand_of(Frame(11, 5, ext=dict(PULL_EXT), body=b"body")).size == 1024 + 4
