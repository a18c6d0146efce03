"""`logherd replica`: what brokers of groups that lead themselves say, also when some of them are away."""

import json

import pytest

from logherd.service.replica_orders import RolesPage, VotesPage
from unit.cli.broker_fake import serving_broker
from unit.cli.terminal import Terminal

VOTES = VotesPage(
    broker_id=2, identity="2.s2", reset=0, epoch=7, leader=None, voters=("1.s1", "2.s2", "3.s3"), last_epoch=7,
    last_position=500,
)  # fmt: skip
ROLES = RolesPage(broker_id=2, table=1, leader=1, synchronous=(2,), copies=2, eligible=True)


@pytest.mark.parametrize(("command", "page"), [("votes", VOTES), ("roles", ROLES)])
def test_who_is_left_is_shown_and_who_is_away_is_told(
    terminal: Terminal, nowhere: str, command: str, page: object
) -> None:
    away = ("--admin", nowhere)
    with serving_broker(status={}, **{command: page}) as admin:
        assert terminal.run("replica", command, "--admin", admin, "-o", "json") == 0
        assert [each["brokerId"] for each in json.loads(terminal.printed)] == [2]
        assert terminal.run("replica", command, *away, "--admin", admin) == 1
        assert terminal.lines()[1][0] == "2"
        assert terminal.said == f"logherd: {nowhere}: no answer: Connection refused\n"
        assert terminal.run("replica", "roles" if command == "votes" else "votes", "--admin", admin) == 1
        assert terminal.said.endswith("in the mode that the command is of, and does not heal now\n")
    assert terminal.run("replica", command, *away) == 1
    assert (terminal.printed, terminal.said) == ("", f"logherd: {nowhere}: no answer: Connection refused\n")
