"""RocketMQ's property names over our settings."""

from pathlib import Path

import pytest

from logherd.settings.errors import SettingsError
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.settings.properties import change_options, describe_options


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    path = tmp_path / "broker.yaml"
    path.write_text("brokerGroup: orders\ndataDir: data\nnameService: {mode: external, addresses: ['a:1', 'b:2']}\n")
    return load_broker_options(path)


def test_values_are_shown_as_rocketmq_writes_them(options: BrokerOptions) -> None:
    shown = describe_options(options)
    assert list(shown) == sorted(shown)
    assert shown["brokerName"] == "orders"
    assert shown["flushDiskType"] == "SYNC_FLUSH"
    assert shown["deleteWhen"] == "04"
    assert shown["fileReservedTime"] == "72"
    assert shown["mappedFileSizeConsumeQueue"] == "6000000"
    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["diskMaxUsedSpaceRatio"] == "90"
    assert shown["namesrvAddr"] == "a:1;b:2"


def test_a_change_touches_only_what_it_names(options: BrokerOptions) -> None:
    changed = change_options(options, {"fileReservedTime": "5", "autoCreateTopicEnable": "false"})
    assert changed.store.retention.age_ms == 5 * 3_600_000
    assert changed.topics.auto_create is False
    back = change_options(changed, {"fileReservedTime": "72", "autoCreateTopicEnable": "true"})
    assert back == options


def test_every_changeable_property_reads_what_it_shows(options: BrokerOptions) -> None:
    changeable = refused = 0
    for name, text in describe_options(options).items():
        try:
            same = change_options(options, {name: text})
        except SettingsError as error:
            refused += 1
            assert any(reason in str(error) for reason in ("needs a restart", "belongs to another key"))  # noqa: PT017
        else:
            assert same == options
            changeable += 1
    assert (changeable, refused) == (6, 13)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rocketmqHome", "/", "rocketmqHome: unknown property; known here: autoCreateSubscriptionGroup,"),
        ("listenPort", "1", "listenPort: belongs to another key of the configuration file"),
        ("maxMessageSize", "1", "maxMessageSize: needs a restart with another configuration file"),
        ("deleteWhen", "24", "store.retention.delete_hour: 24 is not right: input should be less than or equal to 23"),
        ("deleteWhen", "noon", "deleteWhen: 'noon' is not right"),
        ("autoCreateTopicEnable", "yes", "autoCreateTopicEnable: 'yes' is not right: write true or false"),
        ("defaultTopicQueueNums", "0", "topics.default_queues: 0 is not right"),
    ],
)
def test_a_wrong_change_is_refused_whole(options: BrokerOptions, name: str, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        change_options(options, {"autoCreateSubscriptionGroup": "false", name: text})
    assert expected in str(caught.value)
