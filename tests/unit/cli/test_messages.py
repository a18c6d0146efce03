"""`logherd receive` does not pass over what it cannot read, `logherd send` tells nothing as stored that may not be, and
what is made or deleted is told to programs, too."""

import json

import pytest

from logherd.model.record import SysFlag
from logherd.wire.compression import compress_body
from unit.cli.terminal import Terminal
from unit.client.fake_broker import BROKER, FakeBroker


@pytest.fixture
def torn(broker: FakeBroker) -> FakeBroker:
    """One queue whose message cannot be unpacked, beside one that is whole."""
    broker.topics["T"] = 2
    broker.store("T", 0, b"no zlib", sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)
    broker.store("T", 1, b"whole")
    return broker


def test_a_queue_that_cannot_be_read_is_told_and_is_no_success(torn: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("receive", "T", "-n", torn.address, "--wait", "0.3") == 1
    assert terminal.printed == "1:0 whole\n"
    (said,) = [line for line in terminal.said.splitlines() if line.startswith("logherd: ")]
    assert said.startswith("logherd: not read to its end: queue 0 of broker ")
    assert "offset 0: message 0 at byte 0: the body of 7 bytes cannot be decompressed" in said


def test_as_many_as_were_asked_for_are_a_success(torn: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("receive", "T", "-n", torn.address, "--count", "1") == 0
    assert terminal.printed == "1:0 whole\n"


def test_fewer_than_were_asked_for_are_none(torn: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("receive", "T", "-n", torn.address, "--count", "2", "--wait", "0.3") == 1
    assert "logherd: 1 of 2 messages came, and none more for 0.3 s\n" in terminal.said
    assert "not read to its end: queue 0" in terminal.said


@pytest.mark.parametrize("code", [10, 11, 12])
def test_what_was_not_flushed_or_copied_in_time_is_not_told_as_stored(
    broker: FakeBroker, terminal: Terminal, code: int
) -> None:
    """RocketMQ says so of what it may yet lose; LogHerd never does."""
    broker.topics["T"] = 1
    broker.faults = [0, code]
    assert terminal.run("send", "T", "first", "second", "third", "-n", broker.address) == 1
    (line,) = terminal.printed.splitlines()
    assert line.startswith("stored in T at ")
    assert f"not acknowledged in 1 attempt, it may have been stored: {BROKER} answered {code} (" in terminal.said
    assert len(broker.sends) == 2


def test_a_topic_that_was_made_or_deleted_is_told_to_programs_too(broker: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("topic", "create", "T", "--queues", "3", "-n", broker.address, "-o", "json") == 0
    assert json.loads(terminal.printed) == {"topic": "T", "queues": 3}
    assert terminal.run("topic", "delete", "T", "-n", broker.address, "-o", "json") == 0
    assert json.loads(terminal.printed) == {"topic": "T", "deleted": True}


def test_a_topic_that_is_not_there_is_not_told_as_deleted(broker: FakeBroker, terminal: Terminal) -> None:
    broker.topics["T"] = 1
    assert terminal.run("topic", "delete", "Tt", "-n", broker.address) == 1
    assert terminal.printed == ""
    assert terminal.said == "logherd: there is no topic Tt (with --if-exists that is no failure)\n"
    assert terminal.run("topic", "delete", "Tt", "--if-exists", "-n", broker.address) == 0
    assert terminal.printed == "there is no topic Tt\n"
    assert terminal.run("topic", "delete", "Tt", "--if-exists", "-n", broker.address, "-o", "json") == 0
    assert json.loads(terminal.printed) == {"topic": "Tt", "deleted": False}
    assert terminal.run("topic", "delete", "T", "--if-exists", "-n", broker.address) == 0
    assert terminal.printed == "topic T is deleted\n"


def test_a_body_that_grows_beyond_what_is_taken_names_the_option_that_takes_more(
    broker: FakeBroker, terminal: Terminal
) -> None:
    plain = b"a line\n" * (1 << 20)
    packed, bits = compress_body(plain)
    broker.topics["T"] = 1
    broker.store("T", 0, packed, sys_flag=SysFlag.COMPRESSED | bits)
    assert terminal.run("receive", "T", "-n", broker.address, "--wait", "0.3") == 1
    assert "decompresses to more than 4194304 bytes (body_bytes_max)\n" in terminal.said
    more = ("--body-bytes-max", str(len(plain)))
    assert terminal.run("receive", "T", "-n", broker.address, "--count", "1", *more) == 0
    assert terminal.printed == f"0:0 {plain.decode()}\n"
