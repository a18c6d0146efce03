"""`logherd bench` reports what a load did, and its code says whether that was what was asked for."""

import json
from dataclasses import replace

import pytest
from annotated_types import Le

from logherd.cli.bench import REQUEST_BYTES_MAX, TOPIC
from logherd.client import pull_load, send_load
from logherd.net.session import NetSession
from logherd.settings.models import StoreSettings
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from unit.cli.terminal import Terminal
from unit.client.fake_broker import FakeBroker

SHORT = ("--seconds", "0.3", "--queues", "2", "--connections", "2")
UNCOUNTED = ("--seconds", "0.3", "--connections", "2")
NARROW = ("--window", "8")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a warm-up."""
    send, pull = send_load.run_send_load, pull_load.run_pull_load
    monkeypatch.setattr(send_load, "run_send_load", lambda load: send(replace(load, warmup_seconds=0)))
    monkeypatch.setattr(pull_load, "run_pull_load", lambda load: pull(replace(load, warmup_seconds=0)))


def test_a_load_that_was_stored_and_read_is_a_success(broker: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("bench", "send", "-n", broker.address, *SHORT, *NARROW) == 0
    assert terminal.said == ""
    assert terminal.run("bench", "pull", "-n", broker.address, *SHORT) == 0
    assert terminal.said == ""


@pytest.mark.parametrize("command", [("send", *NARROW), ("pull",)])
def test_a_topic_that_is_there_is_loaded_and_not_changed(
    broker: FakeBroker, terminal: Terminal, command: tuple[str, ...]
) -> None:
    """What is not said is all of it, and of a larger one as many queues can be loaded as are named."""
    broker.topics[TOPIC], broker.rules[TOPIC] = 4, (6, True)
    broker.store(TOPIC, 0, b"x")
    for options in (("--queues", "2"), ()):
        before = len(broker.sends)
        assert terminal.run("bench", *command, "-n", broker.address, *UNCOUNTED, *options) == 0
        if command[0] == "send":
            assert {each.queue_id for each in broker.sends[before:]} == set(range(2 if options else 4))
        assert (broker.topics[TOPIC], broker.rules[TOPIC]) == (4, (6, True))


def test_more_queues_than_a_topic_has_are_not_made_for_a_load(broker: FakeBroker, terminal: Terminal) -> None:
    broker.topics[TOPIC] = 4
    assert terminal.run("bench", "pull", "-n", broker.address, *UNCOUNTED, "--queues", "6") == 1
    assert terminal.said == (
        f"logherd: topic {TOPIC} has 4 queues on broker-a, and 6 are to be loaded; make it larger with "
        f"`logherd topic create {TOPIC} --queues 6`\n"
    )
    assert broker.topics[TOPIC] == 4


def test_a_new_topic_gets_as_many_queues_as_are_to_be_loaded(broker: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("bench", "send", "-n", broker.address, *UNCOUNTED, *NARROW) == 0
    assert broker.topics[TOPIC] == 8
    del broker.topics[TOPIC]
    assert terminal.run("bench", "send", "-n", broker.address, *SHORT, *NARROW) == 0
    assert broker.topics[TOPIC] == 2


def test_a_load_of_which_every_send_is_refused_is_none(broker: FakeBroker, terminal: Terminal) -> None:
    broker.faults = [14] * 20_000
    assert terminal.run("bench", "send", "-n", broker.address, *SHORT, *NARROW, "-o", "json") == 1
    refused = json.loads(terminal.printed)["refused"]["14"]
    assert terminal.said == f"logherd: no message was stored; requests refused: {refused} (refused by the test)\n"


def test_a_load_of_which_some_are_not_answered_is_none(broker: FakeBroker, terminal: Terminal) -> None:
    broker.faults = [0] * 8 + ["cut"]
    assert terminal.run("bench", "send", "-n", broker.address, *SHORT, *NARROW) == 1
    assert "lost " in terminal.printed
    assert terminal.said.startswith("logherd: requests without an answer: ")


def test_a_load_that_finds_nothing_to_read_is_none(broker: FakeBroker, terminal: Terminal) -> None:
    assert terminal.run("bench", "pull", "-n", broker.address, *SHORT) == 1
    assert terminal.printed.startswith("0 messages")
    assert terminal.said == "logherd: no message was read\n"


def test_a_pull_that_is_refused_is_told_with_its_reason(broker: FakeBroker, terminal: Terminal) -> None:
    def refuse(_: NetSession, frame: Frame) -> Frame:
        return Frame(ResponseCode.NO_PERMISSION, frame.opaque, flag=Flag.RESPONSE, remark="not you")

    broker._answers[RequestCode.PULL_MESSAGE] = refuse
    assert terminal.run("bench", "pull", "-n", broker.address, *SHORT, "-o", "json") == 1
    told = json.loads(terminal.printed)
    assert (told["refused"], told["refusal"]) == ({"16": 2}, "not you")
    assert terminal.said == "logherd: no message was read; requests refused: 2 (not you)\n"


def test_requests_may_have_as_many_bytes_as_any_broker_can_be_set_to_take() -> None:
    metadata = StoreSettings.model_fields["message_bytes_max"].metadata
    assert [each.le for each in metadata if isinstance(each, Le)] == [REQUEST_BYTES_MAX]
