"""RocketMQ's config files: taken over as Java writes them, written as Java reads them."""

import json

import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata import Metadata
from logherd.service.metadata.rocketmq import CONFIG_FILES, Adopted, AdoptionError, adopt_config, export_config
from unit.service.fixed_clock import FixedClock
from unit.service.memory_log import MemoryLog

# As a RocketMQ 5 broker writes them: pretty-printed, numbers as bare keys.
TOPICS = b"""{
	"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1795237997295},
	"topicConfigTable":{
		"orders":{"attributes":{"+message.type":"FIFO"},"order":true,"perm":6,"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG","topicName":"orders","topicSysFlag":1,"writeQueueNums":8},
		"TBW102":{"attributes":{},"order":false,"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",
			"topicName":"TBW102","topicSysFlag":0,"writeQueueNums":8}
	}
}"""
GROUPS = b"""{
	"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795237997295},
	"forbiddenTable":{},
	"subscriptionGroupTable":{
		"billing":{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,
			"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"billing",
			"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,
			"retryMaxTimes":5,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1}
	}
}"""
OFFSETS = b"""{
	"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795237997295},
	"groupTopicMap":{"billing":["orders","%RETRY%billing"]},
	"offsetTable":{
		"orders@billing":{0:12,1:7
		},
		"%RETRY%billing@billing":{0:1}
	}
}"""
FILES = dict(zip(CONFIG_FILES, (TOPICS, GROUPS, OFFSETS), strict=True))


def opened(log: MemoryLog) -> Metadata:
    return Metadata.open(log, FixedClock())


def test_a_brokers_files_are_taken_over_and_survive_a_restart() -> None:
    log = MemoryLog()
    metadata = opened(log)
    assert adopt_config(metadata, FILES) == Adopted(2, 1, 3)
    log.commit()
    for state in (metadata, opened(log)):
        orders = state.topics.get("orders")
        assert orders is not None
        assert (orders.read_queues, orders.write_queues, orders.order, orders.system_flag) == (4, 8, True, 1)
        assert state.groups.get("billing") == GroupConfig(
            "billing", consume_enabled=False, retry_queues=2, retries_max=5
        )
        assert state.offsets.queues("billing", "orders") == {0: 12, 1: 7}
        assert state.offsets.get("billing", "%RETRY%billing", 0) == 1


def test_offsets_that_are_taken_over_take_the_place_of_resets_that_nobody_was_told_of() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.offsets.reset("billing", "orders", {0: 3})
    adopt_config(metadata, FILES)
    log.commit()
    for state in (metadata, opened(log)):
        assert state.offsets.get("billing", "orders", 0) == 12
        assert state.offsets.pending_reset("billing", "orders", 0) is None


def test_a_broker_with_very_many_offsets_is_taken_over() -> None:
    """Java writes queue numbers as bare keys whatever the number of queues."""
    queues = ",".join(f"{number}:{number + 5}" for number in range(8))
    table = ",".join(f'"orders{number}@billing":{{{queues}}}' for number in range(2_500))
    metadata = opened(MemoryLog())
    adopted = adopt_config(metadata, {"consumerOffset.json": f'{{"offsetTable":{{{table}}}}}'.encode()})
    assert adopted == Adopted(0, 0, 20_000)
    assert metadata.offsets.get("billing", "orders2499", 7) == 12


def test_missing_files_count_as_empty() -> None:
    metadata = opened(MemoryLog())
    assert adopt_config(metadata, {}) == Adopted(0, 0, 0)
    assert metadata.is_new


@pytest.mark.parametrize(
    ("name", "content", "remark"),
    [
        ("topics.json", b"[1]", "topics.json: "), ("subscriptionGroup.json", b'{"subscriptionGroupTable":5}', "subscr"),
        ("consumerOffset.json", b'{"offsetTable":{"orders":{0:1}}}', "the key 'orders' is not topic@group"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_before_anything_is_taken(name: str, content: bytes, remark: str) -> None:
    metadata = opened(MemoryLog())
    with pytest.raises(AdoptionError, match=remark):
        adopt_config(metadata, {**FILES, name: content})
    assert metadata.is_new


def test_what_is_exported_is_strict_json_and_taken_over_unchanged() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("orders", 4, 8, attributes={"message.type": "FIFO"}))
    metadata.groups.put(GroupConfig("billing", retries_max=2))
    metadata.offsets.commit("billing", "orders", 3, 9)
    files = export_config(metadata)
    assert json.loads(files["consumerOffset.json"])["offsetTable"] == {"orders@billing": {"3": 9}}
    other = opened(MemoryLog())
    assert adopt_config(other, files) == Adopted(1, 1, 1)
    assert export_config(other)["consumerOffset.json"] != b""
    assert list(other.topics) == list(metadata.topics)
    assert list(other.groups) == list(metadata.groups)


def test_reading_a_store_for_a_tool_begins_no_epoch() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("orders"))
    log.commit()
    end = log.end_position
    tool = Metadata.read(log, FixedClock())
    assert (tool.epoch, [topic.name for topic in tool.topics], log.end_position) == (1, ["orders"], end)
