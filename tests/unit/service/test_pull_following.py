"""Pulls that a follower answers itself, and those that it leaves to the leader."""

from errno import EMFILE
from pathlib import Path

import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.clients import registry
from logherd.service.ports import Reply
from logherd.service.pull.following import FollowerPulls
from logherd.service.stats import PullCalls
from logherd.store import StoreDamaged
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import ConsumerData, Heartbeat, Subscription
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from unit.service.client_fakes import FakeSession
from unit.service.rig import Rig, decode_all
from unit.service.test_pull import COMMIT, SUBSCRIPTION, SUSPEND, pull_header, send

ME = 3


class Follower:
    """What a follower would do with the store of a rig. `upto`: what the leader has just vouched for."""

    def __init__(self, directory: Path, *, behind: int = 1 << 30) -> None:
        self.rig = Rig(directory)
        self.rig.metadata.topics.put(TopicConfig("orders", 2, 2))
        self.rig.metadata.groups.put(GroupConfig("billing"))
        send(self.rig, "A", "B", "A", "B")
        self.upto: int | None = 1 << 40
        self.pulls = FollowerPulls(
            self.rig.store, self.rig.metadata, self.rig.pull, readable=lambda: self.upto,
            clock=self.rig.clock, broker_id=ME, behind=behind,
        )  # fmt: skip

    def pull(self, offset: int = 0, **fields: object) -> tuple[Reply, Frame | None] | None:
        ext = {key: str(value) for key, value in pull_header(offset, **fields).items()}
        return self.pulls.answer(Frame(RequestCode.PULL_MESSAGE, 7, ext=ext))

    def beat(self, session: FakeSession, tags: str, *, version: int = 5, client: str = "c") -> None:
        body = heartbeat_of(tags, version=version, client=client)
        self.pulls.note(session, Frame(RequestCode.HEART_BEAT, 1, body=body))


def heartbeat_of(tags: str, *, version: int = 5, client: str = "c") -> bytes:
    subscription = Subscription(topic="orders", expression=tags, tags=tags.split("||"), version=version)
    consumer = ConsumerData(group="billing", subscriptions=[subscription])
    return encode_body(Heartbeat(client_id=client, consumers=[consumer]))


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def test_a_heartbeat_with_more_than_any_client_has_is_left_to_the_leader(follower: Follower) -> None:
    consumers = [ConsumerData(group=f"g{number}") for number in range(1_001)]
    body = encode_body(Heartbeat(client_id="c", consumers=consumers))
    follower.pulls.note(FakeSession(1), Frame(RequestCode.HEART_BEAT, 1, body=body))
    assert list(follower.pulls._registry.consumer_groups()) == []


def test_committed_messages_are_answered_here(follower: Follower) -> None:
    answered = follower.pull(1)
    assert answered is not None
    reply, commit = answered
    assert isinstance(reply.header, dict)
    assert (reply.code, reply.header["nextBeginOffset"], reply.header["maxOffset"]) == (0, "4", "4")
    assert reply.remark == "FOUND"
    assert len(decode_all(list(reply.body))) == 3  # type: ignore[arg-type]
    assert commit is None
    assert follower.pulls.served == 1


def test_what_is_answered_here_counts_as_it_does_at_the_leader(follower: Follower) -> None:
    stats = follower.rig.stats
    answered = follower.pull(1)
    assert answered is not None
    assert follower.pull(0, subscription="nobody's", expressionType="TAG") is not None
    assert follower.pull(4) is None, "the leader answers and counts it"
    size = sum(map(len, answered[0].body))
    assert (stats.get_totals().now, stats.get_bytes, stats.pulls) == (3, size, PullCalls(found=1, missed=1))


def test_what_is_appended_and_not_committed_is_not_seen(follower: Follower) -> None:
    queue = follower.rig.store.queue("orders", 0)
    follower.rig.store.append(queue, b"later", b"", born_timestamp=0, born_host=b"\0" * 8, store_timestamp=0)
    answered = follower.pull(0)
    assert answered is not None
    assert len(decode_all(list(answered[0].body))) == 4  # type: ignore[arg-type]
    assert follower.pull(4) is None


def test_without_the_leaders_word_everything_goes_to_the_leader(follower: Follower) -> None:
    follower.upto = None
    assert follower.pull(0) is None


@pytest.mark.parametrize("subscription", ["*", "A", "nobody's"])
def test_what_the_leader_does_not_show_yet_is_not_shown_here(follower: Follower, subscription: str) -> None:
    """It is committed, and a part of what the leader shows at once later: who went back to it would be sent back."""
    unit = follower.rig.store.unit(follower.rig.store.queue("orders", 0), 2)
    assert unit is not None
    follower.upto = unit[0]
    assert follower.pull(0, subscription=subscription) is None
    answered = follower.pull(0, subscription=subscription, maxMsgNums=2)
    if subscription != "*":
        assert answered is None, "what was passed over is not shown there either"
        return
    assert answered is not None
    header = answered[0].header
    assert isinstance(header, dict)
    assert (header["nextBeginOffset"], header["minOffset"], header["maxOffset"]) == ("2", "0", "2")


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": 4},
        {"offset": 99},
        {"offset": -1},
        {"queueId": 1},
        {"queueId": 7},
        {"topic": "unknown"},
        {"consumerGroup": "unknown"},
        {"subscription": "||"},
        {"subscription": "a > 1", "expressionType": "SQL92"},
        {"sysFlag": SUSPEND},
        {"offset": 4, "sysFlag": SUSPEND | SUBSCRIPTION},
        {"queueOffset": "x"},
    ],
    ids=str,
)
def test_whatever_is_no_answer_with_messages_is_the_leaders_to_say(
    follower: Follower, fields: dict[str, object]
) -> None:
    assert follower.pull(**fields) is None  # type: ignore[arg-type]
    assert follower.rig.store.find_queue("orders", 1) is None, "nothing is made for who asks"


def test_a_group_that_may_not_consume_and_a_reset_are_the_leaders_to_tell(follower: Follower) -> None:
    rig = follower.rig
    rig.metadata.groups.put(GroupConfig("billing", consume_enabled=False))
    assert follower.pull(0) is None
    rig.metadata.groups.put(GroupConfig("billing"))
    assert follower.pull(0) is not None
    rig.metadata.offsets.reset("billing", "orders", {0: 2})
    assert follower.pull(0) is None


@pytest.mark.parametrize("topic", [TopicConfig("orders", 1, 2), TopicConfig("orders", 2, 2, permission=2)])
def test_what_a_topic_does_not_let_be_read_is_the_leaders_to_refuse(follower: Follower, topic: TopicConfig) -> None:
    send(follower.rig, queue=1)
    assert follower.pull(0, queueId=1) is not None
    follower.rig.metadata.topics.put(topic)
    assert follower.pull(0, queueId=1) is None


def test_a_broker_that_must_not_be_read_from_reads_nothing(follower: Follower) -> None:
    follower.rig.pull.permission = 2
    assert follower.pull(0) is None


def test_tags_come_from_the_heartbeats_of_who_is_connected_here(follower: Follower) -> None:
    session = FakeSession(id=5)
    assert follower.pull(0, sysFlag=0) is None
    follower.beat(session, "B")
    answered = follower.pull(0, sysFlag=0)
    assert answered is not None
    assert len(decode_all(list(answered[0].body))) == 2  # type: ignore[arg-type]
    follower.beat(session, "C", version=6)
    none = follower.pull(0, sysFlag=0, subVersion=6)
    assert none is not None
    assert (none[0].code, none[0].remark) == (20, "NO_MATCHED_MESSAGE")
    assert follower.pull(0, sysFlag=0, subVersion=7) is None, "a newer subscription than was heard of"
    follower.pulls.closed(5)
    assert follower.pull(0, sysFlag=0) is None


def test_who_begins_to_follow_hears_again_who_is_connected(follower: Follower) -> None:
    session = FakeSession(id=5)
    follower.beat(session, "B")
    follower.pulls.begin([])
    assert follower.pull(0, sysFlag=0) is None
    frame = Frame(RequestCode.HEART_BEAT, 1, body=heartbeat_of("B"))
    follower.pulls.begin([(session, frame)])
    assert follower.pull(0, sysFlag=0) is not None


def test_a_group_whose_last_member_has_said_good_bye_is_forgotten(follower: Follower) -> None:
    session = FakeSession(id=5)
    follower.beat(session, "B")
    for ext in ({}, {"clientID": "c", "producerGroup": "billing"}):
        follower.pulls.note(session, Frame(RequestCode.UNREGISTER_CLIENT, 2, ext=ext))
        assert follower.pull(0, sysFlag=0) is not None
    left = Frame(RequestCode.UNREGISTER_CLIENT, 2, ext={"clientID": "c", "consumerGroup": "billing"})
    follower.pulls.note(session, left)
    assert follower.pull(0, sysFlag=0) is None


def test_a_heartbeat_that_leaves_subscriptions_out_keeps_them(follower: Follower) -> None:
    session = FakeSession(id=5)
    follower.beat(session, "B")
    short = Heartbeat(client_id="c", consumers=[ConsumerData(group="billing")], without_subscriptions=True)
    follower.pulls.note(session, Frame(RequestCode.HEART_BEAT, 2, body=encode_body(short)))
    answered = follower.pull(0, sysFlag=0)
    assert answered is not None
    assert len(decode_all(list(answered[0].body))) == 2  # type: ignore[arg-type]


def test_an_offset_that_rides_on_a_pull_goes_to_the_leader(follower: Follower) -> None:
    answered = follower.pull(2, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=2)
    assert answered is not None
    commit = answered[1]
    assert commit is not None
    assert commit.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert commit.flag & Flag.ONEWAY
    assert commit.ext == {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "2"}
    assert follower.rig.metadata.offsets.get("billing", "orders", 0) is None
    none = follower.pull(2, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=-1)
    assert none is not None
    assert none[1] is None


def test_who_is_far_behind_stays_here_and_who_is_not_goes_back(tmp_path: Path) -> None:
    follower = Follower(tmp_path, behind=1 << 62)
    queue = follower.rig.store.queue("orders", 0)
    edge = follower.rig.store.unit(queue, 2)
    assert edge is not None
    follower.pulls._behind = follower.rig.store.committed_position - edge[0]
    far, near = follower.pull(2), follower.pull(3)
    assert far is not None
    assert near is not None
    assert far[0].header["suggestWhichBrokerId"] == str(ME)  # type: ignore[index]
    assert near[0].header["suggestWhichBrokerId"] == "0"  # type: ignore[index]


def test_a_leader_names_a_follower_to_who_is_far_behind(tmp_path: Path) -> None:
    rig = Follower(tmp_path).rig
    rig.pull.elsewhere = lambda queue, offset: 2 if offset < 2 else 0
    assert rig.ask(11, pull_header(0)).ext["suggestWhichBrokerId"] == "2"
    assert rig.ask(11, pull_header(2)).ext["suggestWhichBrokerId"] == "0"


def test_damage_that_a_pull_meets_is_told_and_the_leader_answers(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = StoreDamaged("commitlog/0", 7, "the record checksum differs", ".")
    met: list[StoreDamaged] = []
    follower.pulls.on_damage = met.append

    def damaged(*_: object) -> None:
        raise error

    monkeypatch.setattr(follower.rig.pull, "read", damaged)
    assert follower.pull(0) is None
    assert met == [error]


def test_a_file_that_cannot_be_opened_leaves_the_pull_to_the_leader(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(EMFILE, "too many open files")

    met: list[StoreDamaged] = []
    follower.pulls.on_damage = met.append
    monkeypatch.setattr(follower.rig.pull, "read", refused)
    assert follower.pull(0) is None
    assert (follower.pulls.served, met) == (0, [])


def test_clients_that_fell_silent_on_a_connection_that_lives_are_forgotten(follower: Follower) -> None:
    session = FakeSession(1)
    for number in range(1_000):
        follower.beat(session, "A", client=f"c{number}")
        follower.rig.clock.monotonic += 1_000
    group = follower.pulls._registry.consumer_group("billing")
    assert group is not None
    assert len(group.members) < 150
    assert follower.pull(0) is not None


def test_one_connection_names_no_end_of_clients(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PLACES_MAX", 10)
    session = FakeSession(1)
    for number in range(20):
        follower.beat(session, "A", client=f"c{number}")
    group = follower.pulls._registry.consumer_group("billing")
    assert group is not None
    assert len(group.members) == 10
    assert follower.pull(0) is not None


def test_a_client_that_speaks_now_and_then_stays(follower: Follower) -> None:
    for number in range(10):
        follower.beat(FakeSession(1), "B")
        follower.rig.clock.monotonic += 30_000
        follower.beat(FakeSession(2), "B", client=f"c{number}")
        group = follower.pulls._registry.consumer_group("billing")
        assert group is not None
        assert "c" in group.members
