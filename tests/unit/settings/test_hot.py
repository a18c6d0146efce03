"""Settings that a running process takes: which they are, and how a change is checked."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logherd.settings.aside import change_aside
from logherd.settings.checked import check_change
from logherd.settings.errors import SettingsError
from logherd.settings.hot import HOT, digest_of, hot_properties, hot_values, value_at
from logherd.settings.load import load_broker_options, load_controller_options
from logherd.settings.options import BrokerOptions


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({"brokerGroup": "a", "dataDir": "data", "store": {"messageSizeMax": "1MiB"}}))
    return load_broker_options(path)


def changed(options: BrokerOptions, wanted: dict[str, Any]) -> dict[str, tuple[str, str]]:
    document = json.loads(msgspec.json.encode(options))
    after = msgspec.convert(check_change("broker", document, wanted), BrokerOptions, str_keys=True)
    old, new = hot_values("broker", options), hot_values("broker", after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def test_every_hot_setting_is_one_of_the_options(tmp_path: Path, options: BrokerOptions) -> None:
    path = tmp_path / "controller.json"
    member = {"name": "c0", "peer": "h:1", "address": "h:2"}
    path.write_text(json.dumps({"nodeName": "c0", "controllers": [member], "dataDir": "data"}))
    for hot in HOT["broker"].values():
        value_at(options, hot.path)
    for hot in HOT["controller"].values():
        value_at(load_controller_options(path), hot.path)


def test_what_is_told_can_be_sent_back_and_changes_nothing(options: BrokerOptions) -> None:
    told = hot_values("broker", options)
    assert changed(options, {name: told[name] for name in HOT["broker"]}) == {}
    assert changed(options, {name: told[name] for name in hot_properties()}) == {}


@pytest.mark.parametrize(
    ("key", "wanted", "told"),
    [("limits.idleTime", "11574074074d", "999999999993600000ms"), ("store.retention.size", "909494TiB", None)],
)
def test_whatever_is_in_force_is_no_hindrance_to_the_next_change(
    options: BrokerOptions, key: str, wanted: str, told: str | None
) -> None:
    document = json.loads(msgspec.json.encode(options))
    after = msgspec.convert(check_change("broker", document, {key: wanted}), BrokerOptions, str_keys=True)
    assert told in (None, hot_values("broker", after)[key])
    assert changed(after, {"log.level": "error"}) == {"log.level": ("info", "error")}
    with pytest.raises(SettingsError, match="write less"):
        changed(options, {key: f"9{wanted}"})


def test_a_value_is_written_as_in_the_file_or_as_rocketmq_writes_it(options: BrokerOptions) -> None:
    age = {"store.retention.age": ("259200000ms", "172800000ms"), "fileReservedTime": ("72", "48")}
    assert changed(options, {"store.retention.age": "48h"}) == age
    assert changed(options, {"fileReservedTime": 48}) == age
    assert changed(options, {"store.retention.size": "2MiB"}) == {"store.retention.size": ("none", "2097152")}
    members = {"replication.raft.members": ("", "1,2,3")}
    assert changed(options, {"replication.raft.members": "1, 2,3"}) == members
    assert changed(options, {"autoCreateTopicEnable": False}) == {
        "topics.autoCreate": ("true", "false"), "autoCreateTopicEnable": ("true", "false"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"flush": "async"}, "flush: cannot be changed while this process runs; what can: autoCreateSubscriptionGroup"),
        ({"store.segmentSize": "1MiB"}, "store.segmentSize: cannot be changed while this process runs"),
        ({"maxMessageSize": "1"}, "maxMessageSize: cannot be changed while this process runs"),
        ({"store.retention.age": "48x"}, "store.retention.age: '48x' is not right: write a whole number and one of ms"),
        ({"store.retention.age": "1ms"}, "store.retention.age: 1 is not right: write "),
        ({"fileReservedTime": "x"}, "fileReservedTime: 'x' is not right"),
        ({"log.level": "loud"}, "log.level: 'loud' is not right: write debug, info"),
        ({"store.reservedPercent": True}, "store.reservedPercent: true is not right: write a whole number"),
        ({"store.reservedPercent": 51, "log.level": "debug"}, "store.reservedPercent: 51 is not right"),
        (
            {"fileReservedTime": 1, "store.retention.age": "1h"},
            "store.retention.age: is the same setting as another one that is given",
        ),
    ],
)
def test_a_wrong_change_is_refused_by_name_value_and_what_is_right(
    options: BrokerOptions, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        changed(options, wanted)
    assert str(raised.value).startswith(words)


def test_a_change_is_checked_in_a_process_of_its_own(options: BrokerOptions) -> None:
    after = change_aside("broker", options, {"log.level": "debug"}, seconds=60)
    assert (after.log.level, after.store) == ("debug", options.store)
    with pytest.raises(SettingsError, match=r"log\.level: 'loud' is not right"):
        change_aside("broker", options, {"log.level": "loud"}, seconds=60)


def test_a_digest_names_the_values(options: BrokerOptions) -> None:
    values = hot_values("broker", options)
    assert digest_of(values) == digest_of(dict(reversed(values.items())))
    assert digest_of(values) != digest_of({**values, "log.level": "debug"})
