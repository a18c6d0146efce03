"""`logherd topic` against a broker that has topics."""

from unit.cli.terminal import Terminal
from unit.client.fake_broker import FakeBroker


def test_a_topic_is_made_smaller_only_if_that_is_said(terminal: Terminal, broker: FakeBroker) -> None:
    broker.topics["T"] = 8
    assert terminal.run("topic", "create", "T", "--queues", "4", "-n", broker.address) == 1
    assert terminal.said == (
        "logherd: topic T has 8 queues, and 4 were asked for: clients would see no more what is in the others; say "
        "--shrink if that is meant\n"
    )
    assert broker.topics["T"] == 8
    assert terminal.run("topic", "create", "T", "--queues", "4", "--shrink", "-n", broker.address) == 0
    assert broker.topics["T"] == 4


def test_a_topic_is_made_larger_or_again_as_it_is_without_a_word(terminal: Terminal, broker: FakeBroker) -> None:
    for queues in (4, 4, 6):
        assert terminal.run("topic", "create", "T", "--queues", str(queues), "-n", broker.address) == 0
        assert broker.topics["T"] == queues


def test_what_is_not_named_of_a_topic_that_is_there_stays_as_it_is(terminal: Terminal, broker: FakeBroker) -> None:
    broker.topics["T"], broker.rules["T"] = 12, (4, True)
    assert terminal.run("topic", "create", "T", "-n", broker.address) == 0
    assert terminal.printed == "topic T has 12 queues on each broker group\n"
    assert (broker.topics["T"], broker.rules["T"]) == (12, (4, True))
    assert terminal.run("topic", "create", "T", "--queues", "16", "-n", broker.address) == 0
    assert (broker.topics["T"], broker.rules["T"]) == (16, (4, True))
    assert terminal.run("topic", "create", "T", "--queues", "2", "--shrink", "-n", broker.address) == 0
    assert (broker.topics["T"], broker.rules["T"]) == (2, (4, True))


def test_a_new_topic_has_eight_queues_that_are_read_and_written(terminal: Terminal, broker: FakeBroker) -> None:
    assert terminal.run("topic", "create", "T", "-n", broker.address) == 0
    assert terminal.printed == "topic T has 8 queues on each broker group\n"
    assert (broker.topics["T"], broker.rules["T"]) == (8, (6, False))
