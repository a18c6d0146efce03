"""From file to options: defaults, units, and a sentence for every fault."""

import errno
import json
import subprocess
from pathlib import Path

import pytest

from logherd.settings.aside import CheckAside
from logherd.settings.errors import SettingsError, SettingsUncheckedError
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions

MINIMAL = "brokerGroup: orders\ndataDir: data\n"


def write(tmp_path: Path, text: str, name: str = "broker.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def complaint(tmp_path: Path, text: str, *overrides: str, name: str = "broker.yaml") -> str:
    with pytest.raises(SettingsError) as caught:
        load_broker_options(write(tmp_path, text, name), overrides)
    return str(caught.value)


def test_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    options = load_broker_options(write(tmp_path, MINIMAL))
    assert (options.broker_group, options.broker_id, options.flush) == ("orders", 0, "sync")
    assert str(options.listen) == "127.0.0.1:10911"
    assert str(options.name_service.listen) == "127.0.0.1:9876"
    assert options.limits.frame_bytes == 16 << 20
    assert options.store.retention.age_ms == 72 * 3_600_000
    assert options.store.retention.size_bytes is None


def test_units_are_read_as_bytes_and_milliseconds(tmp_path: Path) -> None:
    text = MINIMAL + "store: {segmentSize: 64MiB, retention: {age: 2d, size: 3GiB}}\nlimits: {idleTime: 90s}\n"
    options = load_broker_options(write(tmp_path, text))
    assert options.store.segment_bytes == 64 << 20
    assert options.store.retention.age_ms == 2 * 86_400_000
    assert options.store.retention.size_bytes == 3 << 30
    assert options.limits.idle_ms == 90_000


def test_json_and_yaml_give_equal_options(tmp_path: Path) -> None:
    document = {"brokerGroup": "orders", "dataDir": "data", "topics": {"autoCreate": False}}
    from_json = load_broker_options(write(tmp_path, json.dumps(document), "broker.json"))
    from_yaml = load_broker_options(write(tmp_path, MINIMAL + "topics: {autoCreate: false}\n"))
    assert from_json == from_yaml


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    options = load_broker_options(write(tmp_path, MINIMAL), ["listen=[::1]:0", "store.retention.age=1h"])
    assert (options.listen.host, options.listen.port) == ("::1", 0)
    assert str(options.listen) == "[::1]:0"
    assert options.store.retention.age_ms == 3_600_000


def test_properties_by_their_rocketmq_names_win(tmp_path: Path) -> None:
    text = MINIMAL + "topics: {defaultQueues: 2}\nproperties: {defaultTopicQueueNums: '6', maxMessageSize: '2048'}\n"
    options = load_broker_options(write(tmp_path, text))
    assert (options.topics.default_queues, options.store.message_bytes_max) == (6, 2048)


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        ("colour: red", "colour: unknown key; known here: brokerGroup,"),
        ("adminListenn: 1", "adminListenn: unknown key; did you mean adminListen?"),
        ("store: {segmentsize: 1GiB}", "store.segmentsize: unknown key; did you mean segmentSize?"),
        ("store: {retention: {ages: 1h}}", "store.retention.ages: unknown key; did you mean age?"),
        ("listen: here", "listen: 'here' is not right: write host:port"),
        ("listen: 127.0.0.1:65536", "with a port from 0 to 65535"),
        ("flush: maybe", "flush: 'maybe' is not right: write sync or async"),
        ("store: {segmentSize: 1GB}", "store.segmentSize: '1GB' is not right: write a whole number and one of B, KiB"),
        ("limits: {idleTime: -5s}", "limits.idleTime: '-5s' is not right: write a whole number and one of ms, s"),
        ("store: {reservedPercent: true}", "store.reservedPercent: true is not right: write a whole number"),
        ("store: {queueFileEntries: yes}", "store.queueFileEntries: "),
        ("brokerId: false", "brokerId: false is not right: write a whole number"),
        ("limits: {connections: true}", "limits.connections: true is not right: write a whole number"),
        ("replication: {peers: {true: 'a.example:1'}}", "write a whole number"),
        ("replication: {raft: {members: [true]}}", "replication.raft.members.0: true is not right: write a whole"),
        ("store: {segmentSize: 2MiB}", "store: messageSizeMax and 128 KiB for the rest of a record must fit"),
        ("nameService: {mode: external}", "nameService: mode external needs at least one address"),
        ("listen: 0.0.0.0:10911", "advertised is needed, because clients cannot connect to a wildcard"),
        ("advertised: a.example:0", "advertised needs a real port"),
        ("replication: {leaderAddress: 'a.example:1'}", "replication.leaderAddress is for a replicated group"),
        ("replication: {leaderAddress: 'a.example:0'}", "needs a real port, because others connect to it"),
        ("brokerId: x", "brokerId: 'x' is not right: write a whole number"),
        ("brokerId: 1.5", "brokerId: 1.5 is not right: write a whole number"),
        ("flush:", "flush: null is not right: write sync or async"),
        ("store: [1]", "store: [1] is not right: write keys and values"),
        ("topics: {autoCreate: maybe}", "topics.autoCreate: 'maybe' is not right: write true or false"),
        ("clusterName: 2026-01-01", "clusterName: 2026-01-01 is not right: write a text, in quotes where"),
        ("clusterName: a b", "'a b' is not right: write at most 63 letters, digits, _ and -, a letter or digit first"),
        ("nameService: {addresses: here}", "nameService.addresses: 'here' is not right: write a list"),
        ("replication: {peers: {x: 'a:1'}}", "replication.peers: the key 'x' is not right: write a whole number"),
        ("brokerGroup: again", "line 3, column 1: the key brokerGroup appears twice"),
        ("a: [", "line 4, column 1: a value should stand here, and each bracket have its counterpart"),
        ("a: 2020-13-45", "line 3, column 4: there is no such number, time or truth value; put a text in quotes"),
        ("a: " + "9" * 5000, "line 3, column 4: there is no such number, time or truth value"),
        ("? [a, b]\n: c", "line 3, column 3: a key should be a text, in quotes where it begins with [ or {"),
        ("a: !!bool x", "line 3, column 4: there is no such number, time or truth value"),
        ("a: !!timestamp x", "line 3, column 4: there is no such number, time or truth value"),
        ("a: !!python/object/apply:os.getcwd []", "line 3, column 4: no value has this tag"),
    ],
)
def test_every_fault_names_path_value_and_what_is_right(tmp_path: Path, addition: str, expected: str) -> None:
    assert expected in complaint(tmp_path, MINIMAL + addition + "\n")


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    lines = complaint(tmp_path, "flush: x\nlisten: y\n").splitlines()
    assert lines[0].endswith("broker.yaml: the configuration is wrong")
    assert [line.partition(":")[0] for line in lines[1:]] == ["brokerGroup", "listen", "dataDir", "flush"]


@pytest.mark.parametrize(("text", "more"), [("[1, 2]", ""), ("", ", and holds nothing"), ("just words", "")])
def test_a_document_that_is_no_mapping_is_refused(tmp_path: Path, text: str, more: str) -> None:
    assert complaint(tmp_path, text).splitlines()[0].endswith("broker.yaml: should hold keys and values" + more)


NO_PATHS = [
    (r"a\0b", "'a\\x00b' is not right: a path holds no NUL byte"),
    ("a/" * 2000, "is not right: a path has at most 3840 bytes here, this one has 4000"),
    ("ü" * 128, "is not right: a name between slashes has at most 255 bytes, one of these has 256"),
]


@pytest.mark.parametrize(("path", "expected"), NO_PATHS)
@pytest.mark.parametrize("key", ["dataDir", "adminTokenFile", "guardian.stateFile"])
def test_what_the_system_takes_for_no_path_is_told_with_its_key(
    tmp_path: Path, key: str, path: str, expected: str
) -> None:
    *group, name = key.split(".")
    line = f'{name}: "{path}"'
    lines = {"brokerGroup": "brokerGroup: a", "dataDir": "dataDir: data"}
    lines[name] = f"{group[0]}: {{{line}}}" if group else line
    said = complaint(tmp_path, "\n".join(lines.values()) + "\n").splitlines()[1]
    assert said.startswith(f"{key}: ")
    assert expected in said


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(SettingsError, match="/dev/zero: has more than the 1048576 bytes"):
        load_broker_options(Path("/dev/zero"))


def test_a_few_lines_do_not_stand_for_more_than_memory_holds(tmp_path: Path) -> None:
    repeated = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 10))
    said = complaint(tmp_path, MINIMAL + repeated)
    assert "line 1, column 1: with what its aliases repeat it has more than 1048576 values" in said


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_broker_options(tmp_path / "nowhere.yaml")


def test_a_key_twice_in_json_is_refused(tmp_path: Path) -> None:
    text = '{"brokerGroup": "a", "brokerGroup": "b", "dataDir": "d"}'
    assert "the key brokerGroup appears twice" in complaint(tmp_path, text, name="broker.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": }', ": line 2, column 7: a value should stand here, a text in double quotes"),
        ("{a: 1}", ": line 1, column 2: a key in double quotes should stand here"),
        ('{"a" 1}', ": line 1, column 6: a key should have ':' and its value behind it"),
        (
            '{"a": [1 2]}',
            ": line 1, column 10: there should be ',' between keys or values, and '}' or ']' at their end",
        ),
        ('{"a": "b', ": line 1, column 7: the quotes should be closed"),
        ('{"a": "b\n"}', ": line 1, column 9: a text should be closed in its line"),
        (r'{"a": "\q"}', r": line 1, column 8: in a text write \\ for a backslash"),
        ("{}\n{}", ": line 2, column 1: nothing should stand behind the end of the document"),
        ('{"a": ' + "9" * 5000 + "}", ": is not JSON: a number has too many digits"),
    ],
)
def test_broken_json_is_told_with_its_place_and_what_it_should_be(tmp_path: Path, text: str, expected: str) -> None:
    assert complaint(tmp_path, text, name="broker.json").endswith("broker.json" + expected)


@pytest.mark.parametrize("name", ["broker.yaml", "broker.json"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_file_in_another_encoding_of_unicode_is_read(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / name
    path.write_bytes('{"brokerGroup": "a", "dataDir": "\u00fc"}'.encode(encoding))
    assert load_broker_options(path).broker_group == "a"


@pytest.mark.parametrize("name", ["broker.yaml", "broker.json"])
def test_a_file_in_latin_1_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes('{"brokerGroup": "\u00fc"}'.encode("latin-1"))
    with pytest.raises(SettingsError, match=f"{name}: is not UTF-8 text: invalid start byte at byte 17"):
        load_broker_options(path)


def test_the_check_in_another_process_gives_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    overrides = ["listen=127.0.0.1:0"]
    assert CheckAside("broker", path, overrides).result(BrokerOptions) == load_broker_options(path, overrides)


def test_the_check_in_another_process_says_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "flush: maybe\n")
    with pytest.raises(SettingsError, match="flush: 'maybe' is not right"):
        CheckAside("broker", path).result(BrokerOptions)


def test_a_check_that_is_killed_or_cannot_begin_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, MINIMAL)
    check = CheckAside("broker", path)
    assert check._process is not None
    check._process.kill()
    with pytest.raises(SettingsUncheckedError, match=r"broker.yaml: the process that checks it was ended by signal 9"):
        check.result(BrokerOptions)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(SettingsUncheckedError, match=r"no process to check it in: Resource temporarily unavailable"):
        CheckAside("broker", path).values()
