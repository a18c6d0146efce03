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
