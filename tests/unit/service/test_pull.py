"""Pulls: every row of the sheet's status and error tables, filters, limits, and long polling."""

import tracemalloc
from dataclasses import replace
from errno import EIO, EMFILE
from pathlib import Path
from sys import getrefcount, getsizeof

import pytest

from logherd.kit.javahash import java_hash
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.net.intake import HEADER_SIZE
from logherd.service.clients.registry import Connection, ConsumerProfile, Subscription
from logherd.service.metadata import MetadataOptions, MetadataRefusedError, NotLeading
from logherd.service.ports import PARKED, Reply, ReplyAfter
from logherd.service.pull import PullOptions
from logherd.service.pull.filters import parse_tags
from logherd.store import DerivedOptions, MessageStore, RetentionOptions, StoreDamaged
from logherd.store.queue_files import UnitReader
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Frame
from unit.service.client_fakes import FakeSession
from unit.service.rig import CLUSTER, STORE, Rig, decode_all, frame_of, short_header
from unit.store.helpers import settle

PULL, LITE_PULL = 11, 361
COMMIT, SUSPEND, SUBSCRIPTION, CLASS_FILTER = 1, 2, 4, 8
ENDS = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}


def pull_header(offset: int = 0, **fields: object) -> dict[str, object]:
    return {
        "consumerGroup": "billing", "topic": "orders", "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION, "commitOffset": 0, "suspendTimeoutMillis": 15000, "subVersion": 0,
        "subscription": "*", **fields,
    }  # fmt: skip


def pulled(rig: Rig, offset: int = 0, **fields: object) -> Frame:
    return rig.ask(PULL, pull_header(offset, **fields))


def ends(frame: Frame) -> tuple[int, int, int, int]:
    """(code, next, min, max); all four fields are there, and the suggested broker is the leader."""
    assert set(frame.ext) >= ENDS
    assert frame.ext["suggestWhichBrokerId"] == "0"
    return frame.code, int(frame.ext["nextBeginOffset"]), int(frame.ext["minOffset"]), int(frame.ext["maxOffset"])


def bodies(frame: Frame) -> list[bytes]:
    return [bytes(record.body) for record in decode_all([memoryview(frame.body)])]


def send(rig: Rig, *tags: str, body: bytes = b"x", queue: int = 0) -> None:
    for tag in tags or ("A",):
        answer = rig.request(310, short_header(e=queue, i=f"TAGS\x01{tag}\x02" if tag else ""), body)
        assert isinstance(answer, ReplyAfter)
    rig.end_pass()


def subscribe(rig: Rig, *tags: str, version: int = 5, model: str = "CLUSTERING", kind: str = "TAG") -> None:
    subscription = Subscription("orders", "||".join(tags) or "*", kind, tags, tuple(map(java_hash, tags)), version)
    profile = ConsumerProfile(message_model=model)
    connection = Connection("client", rig.session, "JAVA", 477, 0, 0)
    rig.registry.join_consumer("billing", profile, connection, subscriptions={"orders": subscription})


def parked(rig: Rig, offset: int = 0, *, session: FakeSession | None = None, **fields: object) -> FakeSession:
    """A pull that waits; the answer appears in the session's replies."""
    session = session or FakeSession(id=100 + len(rig.pull.hold))
    header = pull_header(offset, **{"sysFlag": SUBSCRIPTION | SUSPEND, **fields})
    assert rig.request(PULL, header, session=session) is None
    assert session.replies == []
    return session


def told(session: FakeSession) -> Frame:
    [reply] = session.replies
    return frame_of(reply)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    return rig


# ---- statuses


def test_messages_are_found_as_they_were_stored(rig: Rig) -> None:
    for number in range(5):
        send(rig, body=b"%d" % number)
    answer = pulled(rig, 1)
    assert ends(answer) == (0, 5, 0, 5)
    assert answer.remark == "FOUND"
    assert bodies(answer) == [b"1", b"2", b"3", b"4"]


def test_a_pull_by_361_is_the_same(rig: Rig) -> None:
    send(rig)
    assert ends(rig.ask(LITE_PULL, pull_header(sysFlag=SUBSCRIPTION | 16))) == (0, 1, 0, 1)


def test_only_committed_messages_are_found(rig: Rig) -> None:
    rig.request(310, short_header(), b"x")
    answer = rig.request(PULL, pull_header())
    assert isinstance(answer, Reply)
    assert answer.code == 19
    rig.end_pass()
    assert pulled(rig).code == 0


def test_no_match_is_20_behind_what_was_looked_at(rig: Rig) -> None:
    send(rig, "A", "A", "B")
    answer = pulled(rig, 0, subscription="C")
    assert ends(answer) == (20, 3, 0, 3)
    assert answer.remark == "NO_MATCHED_MESSAGE"


def test_the_end_of_the_queue_is_19(rig: Rig) -> None:
    send(rig, "A", "A")
    answer = pulled(rig, 2)
    assert ends(answer) == (19, 2, 0, 2)
    assert answer.remark == "OFFSET_OVERFLOW_ONE"


def test_beyond_the_end_is_21_to_the_end(rig: Rig) -> None:
    send(rig, "A", "A")
    assert ends(pulled(rig, 3)) == (21, 2, 0, 2)


def test_a_queue_without_messages_is_19_at_its_start_and_21_elsewhere(rig: Rig) -> None:
    assert ends(pulled(rig, 0)) == (19, 0, 0, 0)
    for flags in (SUBSCRIPTION, SUBSCRIPTION | SUSPEND):
        assert ends(pulled(rig, 7, sysFlag=flags)) == (21, 0, 0, 0)
    assert pulled(rig, 0).remark == "NO_MESSAGE_IN_QUEUE"


def test_below_the_start_is_21_to_the_start(rig: Rig) -> None:
    send(rig, "A", "A", "A")
    rig.store.queue("orders", 0)._min_offset = 2  # as retention leaves it
    assert ends(pulled(rig, 1)) == (21, 2, 2, 3)


# ---- limits


@pytest.mark.parametrize(("asked", "got"), [(0, 1), (-1, 1), (1, 1), (3, 3), (32, 5), (1_000_000, 5)])
def test_no_more_is_found_than_asked_for(rig: Rig, asked: int, got: int) -> None:
    send(rig, *["A"] * 5)
    assert len(bodies(pulled(rig, 0, maxMsgNums=asked))) == got


def test_a_pull_is_bounded_in_bytes_and_has_at_least_one_message(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pulls=PullOptions(bytes_max=1200))
    rig.metadata.topics.put(TopicConfig("orders"))
    for size in (300, 300, 5000, 10):
        send(rig, body=b"b" * size)
    assert [len(body) for body in bodies(pulled(rig, 0))] == [300, 300]
    assert [len(body) for body in bodies(pulled(rig, 2))] == [5000]


def test_no_more_is_found_than_the_brokers_own_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pulls=PullOptions(messages_max=2))
    rig.metadata.topics.put(TopicConfig("orders"))
    send(rig, *["A"] * 5)
    assert len(bodies(pulled(rig, 0, maxMsgNums=32))) == 2


# ---- filters


@pytest.mark.parametrize(
    ("expression", "found"),
    [("*", 4), ("", 4), (None, 4), ("A", 1), ("A||B", 2), (" A || C ", 2), ("A||", 1), ("a", 0), ("A|B", 0)],
)
def test_tags_in_the_request_filter(rig: Rig, expression: str | None, found: int) -> None:
    send(rig, "A", "B", "C", "")
    answer = pulled(rig, 0, subscription=expression)
    assert len(bodies(answer)) == found
    assert answer.code == (0 if found else 20)
    assert ends(answer)[1] == 4


def test_tags_of_the_heartbeat_filter_when_the_request_has_none(rig: Rig) -> None:
    subscribe(rig, "B")
    send(rig, "A", "B", "C")
    answer = pulled(rig, 0, sysFlag=0, subscription=None, subVersion=5)
    assert bodies(answer) == [b"x"]
    subscribe(rig, version=6)
    assert len(bodies(pulled(rig, 0, sysFlag=0, subscription=None, subVersion=6))) == 3


# ---- errors


def refused(rig: Rig, code: int, remark: str, forbidden: str | None = None, **fields: object) -> None:
    answer = pulled(rig, **fields)
    assert (answer.code, remark in (answer.remark or "")) == (code, True), (answer.code, answer.remark)
    assert answer.ext.get("forbiddenType") == forbidden


def test_what_may_not_be_read_is_16_and_says_which(rig: Rig) -> None:
    rig.metadata.groups.put(GroupConfig("stopped", consume_enabled=False))
    refused(rig, 16, "group stopped may not consume", "2", consumerGroup="stopped")
    rig.metadata.topics.put(TopicConfig("hidden", permission=2))
    refused(rig, 16, "topic hidden has permission 2", "3", topic="hidden")
    rig.metadata.groups.put(GroupConfig("billing", broadcast_enabled=False))
    subscribe(rig, model="BROADCASTING")
    refused(rig, 16, "may not consume by broadcasting", "4", sysFlag=0)
    rig.pull.permission = 2
    refused(rig, 16, "brokerPermission is 2", "1")


def test_a_broadcasting_group_pulls_like_others(rig: Rig) -> None:
    send(rig)
    subscribe(rig, model="BROADCASTING")
    assert pulled(rig, 0, sysFlag=0).code == 0


def test_a_group_that_may_not_broadcast_consumes_in_turn_like_others(rig: Rig) -> None:
    send(rig)
    rig.metadata.groups.put(GroupConfig("billing", broadcast_enabled=False))
    subscribe(rig, model="CLUSTERING")
    assert pulled(rig, 0, sysFlag=0).code == 0


def test_an_unknown_group_is_made_or_26(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "made")
    assert pulled(rig, consumerGroup="fresh", topic="nothing").code == 17
    assert rig.metadata.groups.get("fresh") == GroupConfig("fresh")
    strict = Rig(tmp_path / "strict", pulls=PullOptions(auto_create_groups=False))
    refused(strict, 26, "group fresh does not exist", consumerGroup="fresh")
    for group in ("TOOLS_CONSUMER", "CID_RMQ_SYS_REVIVE_GROUP"):
        refused(strict, 17, "topic 'nothing'", consumerGroup=group, topic="nothing")


def test_a_new_group_reads_while_it_cannot_be_logged(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tool does with which somebody looks at what a full disk holds."""
    send(rig)

    def refuse(error: Exception) -> None:
        raise error

    for error, code in ((NotLeading("no"), 14), (MetadataRefusedError("no room"), 0)):
        with monkeypatch.context() as full:
            full.setattr("logherd.service.metadata.journal.Journal.append", lambda *_, error=error: refuse(error))
            fields = {"consumerGroup": "fresh", "sysFlag": SUBSCRIPTION | COMMIT, "commitOffset": 0}
            assert pulled(rig, **fields).code == code
            assert rig.metadata.groups.get("fresh") is None
            assert rig.metadata.offsets.get("fresh", "orders", 0) is None, "it would never be forgotten"
    assert pulled(rig, consumerGroup="fresh").code == 0
    assert rig.metadata.groups.get("fresh") == GroupConfig("fresh")


@pytest.mark.parametrize("group", ["", "a b", "g" * 249])
def test_a_wrong_group_name_is_29(rig: Rig, group: str) -> None:
    refused(rig, 29, "the group's name", consumerGroup=group)


def test_the_longest_group_can_have_retries_and_dead_letters(rig: Rig) -> None:
    group = "g" * 248
    assert pulled(rig, consumerGroup=group, topic="nothing").code == 17
    for times, topic in ((1, "%RETRY%" + group), (17, "%DLQ%" + group)):
        assert rig.ask(310, short_header("%RETRY%" + group, j=times), b"x").code == 0
        assert len(rig.records(topic)) == 1


def test_a_missing_topic_is_17(rig: Rig) -> None:
    refused(rig, 17, "topic 'nothing' does not exist", topic="nothing")
    refused(rig, 17, "topic 'nothing' does not exist", topic="nothing", sysFlag=0)


def test_the_brokers_own_topic_is_no_topic_to_consumers(rig: Rig) -> None:
    refused(rig, 17, "does not exist", topic="rmq_sys_LOGHERD_METADATA")


@pytest.mark.parametrize("queue", [-1, 4, 2**31 - 1])
def test_a_queue_the_topic_does_not_have_is_29(rig: Rig, queue: int) -> None:
    refused(rig, 29, f"queueId is {queue}, topic orders has read queues 0 to 3", queueId=queue)


@pytest.mark.parametrize(("read", "write"), [(2, 4), (4, 2)])
def test_the_queues_to_read_count_and_not_those_to_write(rig: Rig, read: int, write: int) -> None:
    """They differ while an operator adds queues, or takes some away and lets consumers empty them."""
    rig.metadata.topics.put(TopicConfig("orders", read, write))
    assert pulled(rig, queueId=read - 1).code == 19
    refused(rig, 29, f"has read queues 0 to {read - 1}", queueId=read)


def test_no_long_expression_is_kept() -> None:
    """As many of the longest as are remembered of ordinary ones would take more memory than a broker has."""
    expression = "||".join(f"tag{number}" for number in range(3000))
    references = getrefcount(expression)
    assert parse_tags(expression) == {java_hash(f"tag{number}") for number in range(3000)}
    assert getrefcount(expression) == references


def test_an_expression_without_tags_is_23(rig: Rig) -> None:
    refused(rig, 23, "names no tag", subscription=" || ")


def test_a_group_that_is_not_connected_or_does_not_subscribe_is_24(rig: Rig) -> None:
    refused(rig, 24, "no connected consumer", sysFlag=0)
    rig.metadata.topics.put(TopicConfig("other"))
    subscribe(rig)
    refused(rig, 24, "does not subscribe topic other", sysFlag=0, topic="other")


def test_a_subscription_newer_than_the_heartbeat_is_25(rig: Rig) -> None:
    subscribe(rig, version=5)
    refused(rig, 25, "subVersion is 6", sysFlag=0, subVersion=6)
    assert pulled(rig, sysFlag=0, subVersion=4).code == 19


def test_a_group_that_has_read_before_gets_all_messages_until_a_new_leader_has_heard_everybody(rig: Rig) -> None:
    send(rig, "A", "B")
    assert pulled(rig, sysFlag=0).code == 24, "it never read"
    rig.metadata.offsets.commit("billing", "orders", 1, 7)
    assert len(bodies(pulled(rig, sysFlag=0))) == 2
    subscribe(rig, "A", version=5)
    assert len(bodies(pulled(rig, sysFlag=0, subVersion=6))) == 2
    assert len(bodies(pulled(rig, sysFlag=0, subVersion=5))) == 1
    assert pulled(rig, sysFlag=0, subVersion=6, expressionType="SQL92").code == 25
    rig.clock.advance(60_000)
    assert pulled(rig, sysFlag=0, subVersion=6).code == 25
    rig.pull.lead()
    assert len(bodies(pulled(rig, sysFlag=0, subVersion=6))) == 2


def test_who_waits_in_that_time_gets_what_comes_and_is_not_told_to_look_again(rig: Rig) -> None:
    rig.metadata.offsets.commit("billing", "orders", 0, 0)
    session = parked(rig, sysFlag=SUSPEND)
    send(rig, "A")
    assert len(bodies(told(session))) == 1


def test_sql_is_1_by_name_from_either_side(rig: Rig) -> None:
    refused(rig, 1, "SQL92 is not supported", expressionType="SQL92", subscription="a > 1")
    subscribe(rig, kind="SQL92")
    refused(rig, 1, "SQL92", sysFlag=0)


def test_class_filters_are_1(rig: Rig) -> None:
    refused(rig, 1, "class filters", sysFlag=CLASS_FILTER)


# ---- the offset that rides on a pull, and resets


def test_a_pull_commits_its_offset_when_the_bit_says_so(rig: Rig) -> None:
    send(rig, "A", "A", "A")
    pulled(rig, 3, commitOffset=2)
    assert rig.metadata.offsets.get("billing", "orders", 0) is None
    for offset in (0, 2):
        pulled(rig, 3, commitOffset=offset, sysFlag=SUBSCRIPTION | COMMIT)
        assert rig.metadata.offsets.get("billing", "orders", 0) == offset


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_the_queue_is_not_taken_and_the_pull_is_answered_all_the_same(rig: Rig, offset: int) -> None:
    send(rig, "A", "A", "A")
    rig.metadata.offsets.commit("billing", "orders", 0, 2)
    assert ends(pulled(rig, 1, commitOffset=offset, sysFlag=SUBSCRIPTION | COMMIT)) == (0, 3, 0, 3)
    assert rig.metadata.offsets.get("billing", "orders", 0) == 2


def test_a_pull_over_an_old_connection_of_its_client_takes_no_offset_back(rig: Rig) -> None:
    send(rig, "A", "A", "A")
    old, new = rig.session, FakeSession(id=77)
    subscribe(rig)
    rig.metadata.offsets.commit("billing", "orders", 0, 2)
    rig.session = new
    subscribe(rig)
    late = pull_header(1, commitOffset=1, sysFlag=SUBSCRIPTION | COMMIT)
    assert rig.ask(PULL, late, session=old).code == 0
    assert rig.metadata.offsets.get("billing", "orders", 0) == 2
    rig.ask(PULL, late, session=new)
    assert rig.metadata.offsets.get("billing", "orders", 0) == 1


def test_a_reset_moves_the_next_pull_durably(rig: Rig) -> None:
    send(rig, "A", "A", "A")
    rig.metadata.offsets.reset("billing", "orders", {0: 1})
    answer = rig.request(PULL, pull_header(3))
    assert isinstance(answer, ReplyAfter)
    assert answer.position > rig.store.committed_position
    assert ends(frame_of(answer)) == (21, 1, 0, 3)
    assert frame_of(answer).remark == "OFFSET_RESET"
    rig.end_pass()
    assert ends(pulled(rig, 1)) == (0, 3, 0, 3)
    assert pulled(rig, 3, consumerGroup="others").code == 19


def test_a_reset_leads_a_consumer_past_what_cannot_be_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise StoreDamaged("commitlog/0", 7, "it differs", ".")

    send(rig, "A", "A", "A")
    monkeypatch.setattr(MessageStore, "read", damaged)
    rig.metadata.offsets.reset("billing", "orders", {0: 2})
    assert ends(pulled(rig, 0)) == (21, 2, 0, 3)


# ---- long polling


def test_a_pull_at_the_end_waits_and_is_answered_by_the_next_message(rig: Rig) -> None:
    send(rig)
    session = parked(rig, 1)
    rig.request(310, short_header(), b"new")
    assert session.replies == []
    rig.end_pass()
    assert ends(told(session)) == (0, 2, 0, 2)
    assert bodies(told(session)) == [b"new"]
    assert len(rig.pull.hold) == 0


def test_a_pull_that_wants_no_answer_does_not_wait(rig: Rig) -> None:
    """It counts for nothing on its connection, so that nothing but the places of all others would bound it."""
    header = pull_header(0, sysFlag=SUBSCRIPTION | SUSPEND)
    assert rig.request(PULL, header, oneway=True) is None
    assert len(rig.pull.hold) == 0
    assert rig.request(PULL, header) is None
    assert len(rig.pull.hold) == 1


def test_a_pull_of_an_empty_queue_waits_too(rig: Rig) -> None:
    session = parked(rig, 0)
    send(rig, queue=1)
    assert session.replies == []
    send(rig)
    assert ends(told(session)) == (0, 1, 0, 1)


@pytest.mark.parametrize(
    ("offset", "flags"), [(1, SUBSCRIPTION), (9, SUBSCRIPTION | SUSPEND), (0, SUBSCRIPTION | SUSPEND)]
)
def test_other_pulls_do_not_wait(rig: Rig, offset: int, flags: int) -> None:
    send(rig)
    assert rig.request(PULL, pull_header(offset, sysFlag=flags)) is not None


def test_messages_with_other_tags_do_not_wake(rig: Rig) -> None:
    session = parked(rig, 0, subscription="B")
    send(rig, "A", "A")
    assert session.replies == []
    send(rig, "B")
    assert ends(told(session)) == (0, 3, 0, 3)
    assert len(bodies(told(session))) == 1


def test_what_waits_with_a_long_expression_takes_little_more_room_than_that(rig: Rig) -> None:
    send(rig, "x")
    expression = "||".join(f"t{number}" for number in range(3000))
    session = parked(rig, 1, subscription=expression)
    [waiter] = rig.pull.hold._waiters.values()
    assert getsizeof(waiter.tag_codes) < len(expression)
    send(rig, "y")
    assert session.replies == []
    send(rig, "t2999")
    assert (told(session).code, ends(told(session))[1]) == (0, 3)


@pytest.mark.parametrize("subscription", ["*", "||".join(f"tag{number}" for number in range(40))])
def test_a_pull_that_waits_takes_about_what_its_connection_counts_for_it(rig: Rig, subscription: str) -> None:
    """Many wait at once, and what is counted is what a broker may fill its memory with."""
    fields = {
        **pull_header(0, sysFlag=SUBSCRIPTION | SUSPEND, subscription=subscription), "expressionType": "TAG",
        "bname": "red-a", "maxMsgBytes": 2147483647,
    }  # fmt: skip
    reader, session, count = FrameReader(), FakeSession(id=9), 500
    encoded = [
        encode_frame(Frame(PULL, number, ext={key: str(value) for key, value in fields.items()}))
        for number in range(count + 1)
    ]
    tracemalloc.start()
    try:
        for number, data in enumerate(encoded):
            [frame] = reader.feed(data)
            assert rig.dispatcher.handle(frame, session) is None
            if not number:  # what is remembered once
                before = tracemalloc.get_traced_memory()[0]
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(rig.pull.hold) == count + 1
    assert used / count < 1.5 * HEADER_SIZE
    send(rig, "tag7")
    assert len(session.replies) == count + 1


def test_what_comes_after_a_group_has_subscribed_anew_is_not_passed_over_for_a_pull_that_waits(rig: Rig) -> None:
    send(rig, "x")
    subscribe(rig, "A", version=5)
    session = parked(rig, 1, sysFlag=SUSPEND, subscription=None, subVersion=5)
    send(rig, "B")
    assert session.replies == []
    subscribe(rig, "A", "B", version=6)
    send(rig, "B")
    assert told(session).code == 0
    assert ends(told(session))[1] == 3
    assert len(decode_all([memoryview(told(session).body)])) == 1, "what came before that was not wanted"


def test_a_pull_that_waits_for_a_group_without_members_is_told_to_look_again(rig: Rig) -> None:
    send(rig, "x")
    subscribe(rig, "A")
    session = parked(rig, 1, session=FakeSession(id=9), sysFlag=SUSPEND, subscription=None)
    rig.registry.session_closed(rig.session.id)
    send(rig, "A")
    assert told(session).code == 19
    refused(rig, 24, "no connected consumer", sysFlag=0)


def test_all_who_wait_for_what_their_group_subscribes_share_one_set(rig: Rig) -> None:
    send(rig, "x")
    tags = [f"t{number}" for number in range(3000)]
    subscribe(rig, *tags)
    for _ in range(2):
        parked(rig, 1, sysFlag=SUSPEND, subscription=None)
    assert [waiter.tag_codes for waiter in rig.pull.hold._waiters.values()] == [None, None]
    wanted = {id(rig.pull._wanted(waiter)) for waiter in rig.pull.hold._waiters.values()}
    assert len(wanted) == 1


def test_at_its_deadline_a_pull_is_answered_19(rig: Rig) -> None:
    send(rig)
    session = parked(rig, 1, suspendTimeoutMillis=15000)
    rig.clock.advance(14_999)
    rig.pull.tick()
    assert session.replies == []
    rig.clock.advance(1)
    rig.pull.tick()
    assert ends(told(session)) == (19, 1, 0, 1)


def test_at_its_deadline_a_pull_moves_on_over_what_it_did_not_want(rig: Rig) -> None:
    session = parked(rig, 0, subscription="B")
    send(rig, "A", "A")
    rig.clock.advance(15_000)
    rig.pull.tick()
    assert ends(told(session)) == (20, 2, 0, 2)


def test_a_client_cannot_park_for_ever(rig: Rig) -> None:
    session = parked(rig, 0, suspendTimeoutMillis=2**62)
    for milliseconds in (5_000, 5_000, 49_999):
        rig.clock.advance(milliseconds)
        rig.pull.tick()
        assert session.replies == []
    rig.clock.advance(1)
    rig.pull.tick()
    assert told(session).code == 19


def test_a_wake_that_was_missed_is_made_up_for_by_the_recheck(rig: Rig) -> None:
    session = parked(rig, 0)
    rig.request(310, short_header(), b"x")
    batch = rig.store.take_batch()
    assert batch is not None
    batch.write_and_flush()
    rig.store.flushed(batch)
    rig.store.advance(batch.end)
    rig.clock.advance(4_999)
    rig.pull.tick()
    assert session.replies == []
    rig.clock.advance(1)
    rig.pull.tick()
    assert told(session).code == 0


def test_who_waits_is_sent_on_when_what_came_for_it_is_deleted_already(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, queue = parked(rig, 0), rig.store.queue("orders", 0)
    with monkeypatch.context() as patched:
        patched.setattr(rig.pull, "committed", lambda _: None)
        send(rig, "A", "A")
    queue._min_offset = 1  # as retention leaves it
    rig.pull.committed([queue])
    assert ends(told(session)) == (21, 1, 1, 2)


def test_who_waits_gets_as_many_messages_as_it_asked_for(rig: Rig) -> None:
    session = parked(rig, 0, maxMsgNums=2)
    for _ in range(3):
        rig.request(310, short_header(), b"x")
    rig.end_pass()
    assert ends(told(session)) == (0, 2, 0, 3)


@pytest.mark.parametrize("again", [False, True])
def test_who_waits_for_a_topic_that_is_deleted_is_told_within_seconds(rig: Rig, again: bool) -> None:
    """The new queues of a topic that was made again are other ones: nothing that comes there would wake it."""
    session = parked(rig, 0)
    rig.metadata.topics.delete("orders")
    rig.store.delete_topic("orders")
    if again:
        rig.metadata.topics.put(TopicConfig("orders"))
        send(rig)
    rig.clock.advance(5_000)
    rig.pull.tick()
    assert told(session).code == 19
    assert pulled(rig, 0).code == (0 if again else 17)


@pytest.mark.parametrize("what", ["broker", "group", "topic"])
def test_who_waits_gets_nothing_that_it_may_not_read_any_more(rig: Rig, what: str) -> None:
    session = parked(rig, 0)
    match what:
        case "broker":
            rig.pull.permission = 2
        case "group":
            rig.metadata.groups.put(GroupConfig("billing", consume_enabled=False))
        case _:
            rig.metadata.topics.put(TopicConfig("orders", permission=2))
    send(rig)
    assert ends(told(session)) == (19, 0, 0, 1)
    assert pulled(rig, 0).code == 16


def test_who_waits_for_a_group_that_is_deleted_begins_anew(rig: Rig) -> None:
    session = parked(rig, 0)
    rig.metadata.groups.delete("billing", clean_offsets=True)
    rig.pull.auto_create_groups = False
    send(rig)
    assert ends(told(session)) == (19, 0, 0, 1)
    assert pulled(rig, 0).code == 26


def test_nobody_is_sent_on_by_a_deletion_that_is_not_committed(rig: Rig) -> None:
    """A leader that is replaced before brings the messages back, and its consumers would have passed them over."""
    send(rig, "A", "A", "A")
    session, waits = FakeSession(id=7), parked(rig, 3)
    rig.metadata.topics.delete("orders")
    rig.store.delete_topic("orders")
    end = rig.store.end_position
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    for offset in (1, 3):
        answer = rig.request(PULL, pull_header(offset), session=session)
        assert isinstance(answer, ReplyAfter)
        assert answer.position == end > rig.store.committed_position
    rig.request(310, short_header(), b"new")
    rig.end_pass()
    assert not isinstance(rig.request(PULL, pull_header(1), session=session), ReplyAfter)
    rig.clock.advance(5_000)
    rig.pull.tick()
    assert ends(told(waits))[:2] == (19, 3)


def test_all_who_wait_are_told_to_look_again_by_a_broker_that_leads_no_more(rig: Rig) -> None:
    sessions = [parked(rig, 0), parked(rig, 0, queueId=1)]
    rig.pull.let_go()
    assert [ends(told(session)) for session in sessions] == [(19, 0, 0, 0)] * 2
    assert len(rig.pull.hold) == 0


def test_who_waits_or_would_wait_at_a_broker_that_stops_is_told_to_pull_again(rig: Rig) -> None:
    sessions = [parked(rig), parked(rig)]
    rig.pull.leave()
    assert [told(session).code for session in sessions] == [215, 215]
    assert pulled(rig, sysFlag=SUBSCRIPTION | SUSPEND).code == 215
    send(rig)
    assert len(bodies(pulled(rig, sysFlag=SUBSCRIPTION | SUSPEND))) == 1


def test_who_waits_is_not_left_behind_by_more_messages_than_one_look_passes(rig: Rig) -> None:
    session = parked(rig, 0, subscription="B")
    for tag in "A" * 2000 + "B":
        rig.request(310, short_header(i=f"TAGS\x01{tag}\x02"), b"x")
    rig.end_pass()
    offset, rounds = 0, 0
    answer = told(session)
    while answer.code == 20:
        offset, rounds = int(answer.ext["nextBeginOffset"]), rounds + 1
        answer = pulled(rig, offset, sysFlag=SUBSCRIPTION | SUSPEND, subscription="B")
    assert (ends(answer), rounds) == ((0, 2001, 0, 2001), 2)


@pytest.mark.parametrize("error", [StoreDamaged("commitlog/0", 7, "it differs", "."), OSError(EIO, "no bytes")])
def test_what_cannot_be_read_for_one_who_waits_is_met_by_its_next_pull(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise error

    session = parked(rig, 0)
    rig.request(310, short_header(), b"new")
    monkeypatch.setattr(MessageStore, "read", unreadable)
    rig.end_pass()
    assert ends(told(session)) == (19, 0, 0, 1)
    assert pulled(rig, 0).code == 1


@pytest.mark.parametrize("error", [StoreDamaged("consumequeue/orders/0", 7, "units cannot be read", "."),
                                   OSError(EMFILE, "no descriptor")])  # fmt: skip
@pytest.mark.parametrize("ends_by", ["a message", "the time", "the client"])
def test_where_retention_left_a_queue_no_readable_beginning_who_waits_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, ends_by: str
) -> None:
    """Where a queue begins is looked up in its files. Nobody may be told of what is raised there: it would end the
    broker."""
    log = replace(STORE.log, segment_bytes=1 << 16, record_bytes_max=1 << 13)
    retention, derived = (
        RetentionOptions(age_ms=None, bytes_max=1),
        DerivedOptions(interval_ms=0, index_write_entries=1),
    )
    rig = Rig(tmp_path, store=replace(STORE, log=log, derived=derived, retention=retention))
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    while rig.store.committed_position < 3 << 16:
        send(rig, body=bytes(4000))
    settle(rig.store)
    end = rig.store.queue("orders", 0).max_offset
    session = parked(rig, end)
    assert rig.store.apply_retention(0, rig.store.committed_position)

    def unreadable(*_: object, **__: object) -> bytes:
        raise error

    monkeypatch.setattr(UnitReader, "read_units", unreadable)
    if ends_by == "a message":
        send(rig)
    elif ends_by == "the time":
        rig.clock.advance(15_000)
        rig.pull.tick()
    else:
        rig.pull.session_closed(session)
    code, at, low, _ = ends(told(session))
    assert (code, at, low) == (19, end, 0)


def test_all_who_wait_for_a_queue_are_woken(rig: Rig) -> None:
    sessions = [parked(rig, 0, consumerGroup=f"g{number}") for number in range(5)]
    elsewhere = parked(rig, 0, queueId=1)
    send(rig)
    assert [told(session).code for session in sessions] == [0] * 5
    assert elsewhere.replies == []


def test_the_pulls_of_a_connection_that_is_gone_are_over(rig: Rig) -> None:
    """Each is answered, because it may have come over the connection of another broker, which counts it until then."""
    gone, closed, alive = FakeSession(id=1001), FakeSession(id=1002), FakeSession(id=1003)
    for session in (gone, closed, alive):
        parked(rig, 0, session=session)
        parked(rig, 0, session=session, queueId=1)
    rig.pull.session_closed(gone)
    closed.closed = True
    assert len(rig.pull.hold) == 4
    assert [reply.code for reply in gone.replies] == [19, 19]
    send(rig)
    assert (len(gone.replies), closed.replies, len(alive.replies)) == (2, [], 1)
    rig.pull.session_closed(gone)
    assert len(gone.replies) == 2
    assert len(rig.pull.hold) == 2


def test_a_reset_lets_a_waiting_pull_go_so_that_the_next_is_moved(rig: Rig) -> None:
    send(rig, "A", "A")
    session, other = parked(rig, 2), parked(rig, 2, consumerGroup="others")
    rig.metadata.offsets.reset("billing", "orders", {0: 0})
    rig.pull.committed([rig.store.queue("orders", 0)])
    assert ends(told(session)) == (19, 2, 0, 2)
    assert other.replies == []
    assert ends(pulled(rig, 2)) == (21, 0, 0, 2)


def test_no_more_pulls_wait_than_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pulls=PullOptions(parked_max=2))
    rig.metadata.topics.put(TopicConfig("orders"))
    parked(rig, 0)
    parked(rig, 0)
    refused(rig, 2, "2 pulls are waiting here", sysFlag=SUBSCRIPTION | SUSPEND)


def test_no_more_pulls_of_one_connection_wait_than_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pulls=PullOptions(session_parked_max=2))
    rig.metadata.topics.put(TopicConfig("orders"))
    for number in (1, 2):
        for _ in range(2):
            parked(rig, 0, session=FakeSession(id=number))
    refused(rig, 2, "2 pulls of this connection are waiting here", sysFlag=SUBSCRIPTION | SUSPEND)
    rig.pull.session_closed(FakeSession(id=1))
    parked(rig, 0, session=FakeSession(id=1))


def test_a_pull_commits_its_offset_also_when_it_waits_and_only_then(rig: Rig) -> None:
    send(rig, "A", "A")
    session = parked(rig, 2, sysFlag=SUBSCRIPTION | SUSPEND | COMMIT, commitOffset=1)
    rig.metadata.offsets.commit("billing", "orders", 0, 2)
    send(rig)
    assert told(session).code == 0
    assert rig.metadata.offsets.get("billing", "orders", 0) == 2


def test_the_handler_says_that_it_parked(rig: Rig) -> None:
    frame = Frame(PULL, 1, ext={k: str(v) for k, v in pull_header(0, sysFlag=SUBSCRIPTION | SUSPEND).items()})
    assert rig.pull.handle(frame, rig.session) is PARKED


def test_pulls_are_counted_by_group_and_topic(rig: Rig) -> None:
    send(rig, "A", "A")
    size = len(pulled(rig, 0).body)
    pulled(rig, 2)
    session = parked(rig, 2)
    send(rig, "A")
    size += len(told(session).body)
    parked(rig, 3)
    assert rig.stats.pulls == (2, 1)
    rig.clock.advance(15_000)
    rig.pull.tick()
    assert rig.stats.pulls == (2, 2)
    rig.stats.tick(10_000, rig.clock.wall)
    for kind, total in (("GROUP_GET_NUMS", 3), ("GROUP_GET_SIZE", size)):
        view = rig.stats.view(kind, "orders@billing", cluster=CLUSTER)
        assert view is not None
        assert view.minute.sum == total


def test_snapshots_of_metadata_wake_nobody(tmp_path: Path) -> None:
    rig = Rig(tmp_path, metadata=MetadataOptions(change_bytes=1))
    rig.metadata.topics.put(TopicConfig("orders"))
    session = parked(rig, 0)
    for _ in range(10):
        rig.end_pass()
    assert session.replies == []
    assert rig.metadata.pinned_position > 0


def test_messages_that_would_lie_behind_too_much_that_is_not_read_are_to_be_pulled_again(rig: Rig) -> None:
    send(rig, body=b"x")
    waits = parked(rig, 1)
    rig.session.room = waits.room = False
    refused(rig, 215, "wait behind unread answers; pull again")
    send(rig, body=b"y")
    assert (told(waits).code, told(waits).body) == (215, b"")
    assert rig.stats.pulls == (0, 0)
