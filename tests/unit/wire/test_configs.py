"""Configurations mean the same on the wire and in the model, and print as Java prints them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.configs import GroupConfigBody, TopicConfigBody
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.clients import HeartbeatResponse
from logherd.wire.headers.send import SendMessageHeader, SendMessageHeaderV2, SendMessageResponse
from unit.wire.struct_strategies import texts

COUNT = st.integers(0, 2**31 - 1)
QUEUES = st.integers(0, 65_536)
ATTRIBUTES = st.dictionaries(texts(), texts(), max_size=3)
TOPICS = st.builds(TopicConfig, texts(), QUEUES, QUEUES, COUNT, COUNT, st.booleans(), ATTRIBUTES)
GROUPS = st.builds(
    GroupConfig, texts(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), COUNT, COUNT, COUNT, COUNT,
    st.booleans(), COUNT, COUNT, ATTRIBUTES,
)  # fmt: skip


@given(TOPICS)
def test_a_topic_comes_back(topic: TopicConfig) -> None:
    assert decode_body(TopicConfigBody, encode_body(TopicConfigBody.from_model(topic))).to_model() == topic


@given(GROUPS)
def test_a_group_comes_back(group: GroupConfig) -> None:
    assert decode_body(GroupConfigBody, encode_body(GroupConfigBody.from_model(group))).to_model() == group


def test_a_group_has_the_defaults_of_java() -> None:
    assert json.loads(encode_body(GroupConfigBody.from_model(GroupConfig("G")))) == {
        "groupName": "G", "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
        "consumeMessageOrderly": False, "retryQueueNums": 1, "retryMaxTimes": 16,
        "groupRetryPolicy": {"type": "CUSTOMIZED"}, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True, "groupSysFlag": 0, "consumeTimeoutMinute": 15, "attributes": {},
    }  # fmt: skip


def test_both_spellings_of_a_send_header_have_the_same_attributes() -> None:
    long = {"producerGroup": "G", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "-1",
            "sysFlag": "0", "bornTimestamp": "5", "flag": "0", "batch": "true", "bname": "b"}  # fmt: skip
    short = dict(zip("abcdefghmn", long.values(), strict=True))
    first, second = decode_header(SendMessageHeader, long), decode_header(SendMessageHeaderV2, short)
    assert isinstance(second, SendMessageHeader)
    for name in SendMessageHeader.__struct_fields__:
        assert getattr(first, name) == getattr(second, name)
    assert (encode_header(first), encode_header(second)) == (long, short)


def test_answers_carry_what_java_reads_without_a_null_check() -> None:
    answer = encode_header(SendMessageResponse(message_id="M", queue_id=0, queue_offset=0))
    assert answer == {
        "msgId": "M",
        "queueId": "0",
        "queueOffset": "0",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert encode_header(HeartbeatResponse()) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
