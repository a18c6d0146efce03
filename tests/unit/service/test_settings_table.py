"""Settings that operators read and change by name."""

import pytest

from logherd.service.errors import RequestError
from logherd.service.properties_text import TEXT_BYTES_MAX
from logherd.service.settings_table import (
    Setting,
    SettingsError,
    SettingsTable,
    boolean,
    divide_text,
    one_of,
)  # fmt: skip


class Options:
    def __init__(self) -> None:
        self.auto_create = True
        self.message_bytes_max = 4096


def table(options: Options) -> SettingsTable:
    return SettingsTable([
        Setting("brokerName", lambda: "a"),
        Setting(
            "autoCreateTopicEnable", lambda: options.auto_create, boolean(),
            lambda v: setattr(options, "auto_create", v),
        ),
        Setting(
            "maxMessageSize", lambda: options.message_bytes_max, one_of("4096", "8192"),
            lambda v: setattr(options, "message_bytes_max", int(str(v))),
        ),
    ])  # fmt: skip


def test_all_settings_are_listed_by_name_as_java_prints_them() -> None:
    assert list(table(Options()).values().items()) == [
        ("autoCreateTopicEnable", "true"), ("brokerName", "a"), ("maxMessageSize", "4096"),
    ]  # fmt: skip


def test_a_change_takes_effect_at_once_and_raises_the_version() -> None:
    options = Options()
    settings = table(options)
    assert settings.update({"autoCreateTopicEnable": "false", "maxMessageSize": "8192"}) == [
        "autoCreateTopicEnable", "maxMessageSize",
    ]  # fmt: skip
    assert (options.auto_create, options.message_bytes_max) == (False, 8192)
    assert settings.version == 1


def test_sending_back_what_was_read_changes_nothing() -> None:
    settings = table(Options())
    assert settings.update(settings.values()) == []
    assert settings.version == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("maxMesageSize", "1", "no setting is called 'maxMesageSize'; there are autoCreateTopicEnable, brokerName"),
        ("brokerName", "b", "brokerName is a and is fixed"),
        ("maxMessageSize", "1023", "maxMessageSize is '1023'; right is 4096 or 8192"),
        ("autoCreateTopicEnable", "yes", "right is true or false"),
    ],
)
def test_a_wrong_change_is_refused_and_no_other_change_is_made(name: str, value: str, message: str) -> None:
    options = Options()
    with pytest.raises(SettingsError, match=message):
        table(options).update({"autoCreateTopicEnable": "false"} | {name: value})
    assert options.auto_create


def test_a_text_of_settings_is_read_up_to_what_the_loop_may_wait_for() -> None:
    settings = table(Options())
    most = b"#" * (TEXT_BYTES_MAX - 29) + b"\nautoCreateTopicEnable=false\n"
    assert len(most) == TEXT_BYTES_MAX
    assert [(setting.name, value) for setting, value in divide_text(settings, most).own] == [
        ("autoCreateTopicEnable", False)
    ]
    with pytest.raises(RequestError, match="at most 262144 are read"):
        divide_text(settings, b"#" + most)
