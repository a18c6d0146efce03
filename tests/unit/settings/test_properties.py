"""RocketMQ's property names over our settings."""

from pathlib import Path

import pytest

from logherd.settings.errors import SettingsError
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.settings.properties import describe_options, property_names

MINIMAL = "brokerGroup: orders\ndataDir: data\nnameService: {mode: external, addresses: ['a:1', 'b:2']}\n"


def load(tmp_path: Path, properties: dict[str, str] | None = None) -> BrokerOptions:
    path = tmp_path / "broker.yaml"
    path.write_text(MINIMAL + "".join(f"properties: {{{n}: '{v}'}}\n" for n, v in (properties or {}).items()))
    return load_broker_options(path)


def test_values_are_shown_as_rocketmq_writes_them(tmp_path: Path) -> None:
    shown = describe_options(load(tmp_path))
    assert list(shown) == sorted(shown)
    assert shown["brokerName"] == "orders"
    assert shown["flushDiskType"] == "SYNC_FLUSH"
    assert shown["fileReservedTime"] == "72"
    assert shown["mappedFileSizeConsumeQueue"] == "6000000"
    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["diskMaxUsedSpaceRatio"] == "90"
    assert shown["namesrvAddr"] == "a:1;b:2"


@pytest.mark.parametrize("name", property_names())
def test_a_property_reads_what_it_shows(tmp_path: Path, name: str) -> None:
    plain = load(tmp_path)
    assert load(tmp_path, {name: describe_options(plain)[name]}) == plain


def test_a_property_changes_only_what_it_names(tmp_path: Path) -> None:
    changed = load(tmp_path, {"fileReservedTime": "5"})
    assert changed.store.retention.age_ms == 5 * 3_600_000
    differing = {
        name for name, value in describe_options(changed).items() if describe_options(load(tmp_path))[name] != value
    }
    assert differing == {"fileReservedTime"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rocketmqHome", "/", "properties: rocketmqHome: unknown property; known here: autoCreateSubscriptionGroup,"),
        ("listenPort", "1", "properties: listenPort: belongs to the key listen.port; known here:"),
        (
            "fileReservedTime",
            "soon",
            "properties: fileReservedTime: 'soon' is not right: write a whole number from 1 to",
        ),
        ("fileReservedTime", "0", "fileReservedTime: '0' is not right: write a whole number from 1 to"),
        ("fileReservedTime", "9" * 30, "is not right: write a whole number from 1 to"),
        (
            "diskMaxUsedSpaceRatio",
            "49",
            "diskMaxUsedSpaceRatio: '49' is not right: write a whole number from 50 to 100",
        ),
        ("diskMaxUsedSpaceRatio", "101", "diskMaxUsedSpaceRatio: '101' is not right: write a whole number from 50 to"),
        ("mappedFileSizeConsumeQueue", "20", "'20' is not right: write a whole number from 20000 to 200000000"),
        ("maxIndexNum", "many", "properties: maxIndexNum: 'many' is not right: write a whole number"),
        ("autoCreateTopicEnable", "yes", "properties: autoCreateTopicEnable: 'yes' is not right: write true or false"),
        ("mappedFileSizeConsumeQueue", "20001", "write a multiple of 20"),
        (
            "maxMessageSize",
            "1",
            "properties.maxMessageSize: 1 is not right: write 1024 or more",
        ),
        ("defaultTopicQueueNums", "0", "properties.defaultTopicQueueNums: 0 is not right"),
    ],
)
def test_a_wrong_property_is_refused(tmp_path: Path, name: str, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {name: text})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fileReservedTime", "1"), ("fileReservedTime", "277777777777"), ("diskMaxUsedSpaceRatio", "50"),
        ("diskMaxUsedSpaceRatio", "100"), ("mappedFileSizeConsumeQueue", "20000"),
        ("mappedFileSizeConsumeQueue", "200000000"),
    ],
)  # fmt: skip
def test_the_bounds_of_a_property_in_its_own_unit_are_those_of_the_setting(
    tmp_path: Path, name: str, text: str
) -> None:
    assert describe_options(load(tmp_path, {name: text}))[name] == text
