"""`logherd switchover`: who is to lead, what stands against it, and that it ends when the next one serves."""

import json
from pathlib import Path
from typing import Any

import pytest

from logherd.cli import controllers, own_leaders
from logherd.cli import switchover as command
from unit.cli.broker_fake import serving_broker
from unit.cli.controllers_fake import Quorum
from unit.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_LOOK_SECONDS", 0.001)


class Hand:
    """Asks for a switchover with the secret."""

    def __init__(self, terminal: Terminal, quorum: Quorum, token: Path) -> None:
        self.terminal = terminal
        self.quorum = quorum
        self._token = token

    def over(self, *arguments: str) -> int:
        admin = self.quorum.admins["c-0"]
        return self.terminal.run("switchover", *arguments, "--admin", admin, "--token-file", str(self._token))


@pytest.fixture
def hand(terminal: Terminal, quorum: Quorum, token: Path) -> Hand:
    quorum.elects = True
    return Hand(terminal, quorum, token)


def test_it_ends_when_the_next_leader_serves(hand: Hand) -> None:
    hand.quorum.reluctant = 3
    assert hand.over("orders", "--to", "2") == 0
    assert hand.terminal.printed.startswith("broker 2 leads C/orders in epoch 8, after ")
    assert hand.terminal.said.splitlines() == [
        "C/orders: broker 1 hands over to broker 2 after epoch 7", "  Broker 3 has exited.",
    ]  # fmt: skip
    ((order, body),) = hand.quorum.orders
    assert (order, body["brokerId"], body["expectedEpoch"]) == ("elect C/orders", 2, 7)


def test_the_best_one_in_sync_is_chosen(hand: Hand) -> None:
    assert hand.over("C/bills", "-o", "json") == 0
    document = json.loads(hand.terminal.printed)
    assert document.pop("seconds") >= 0
    assert document == {"cluster": "C", "group": "bills", "leader": 2, "epoch": 2}


def test_who_leads_already_need_not_be_asked(hand: Hand) -> None:
    assert hand.over("orders", "--to", "1") == 0
    assert hand.terminal.printed == "broker 1 leads C/orders already, in epoch 7\n"
    assert hand.over("orders", "--to", "1", "--epoch", "7") == 0
    assert hand.quorum.orders == []


def test_who_leads_already_in_another_epoch_is_not_what_was_ordered(hand: Hand) -> None:
    """Somebody else may have led in between: whoever thought of this does not know the group as it is."""
    assert hand.over("orders", "--to", "1", "--epoch", "6") == 1
    assert hand.terminal.printed == ""
    said = "broker 1 leads C/orders already, but in epoch 7, not 6; an earlier try may have done it"
    assert hand.terminal.said == f"logherd: {said}\n"
    assert hand.quorum.orders == []


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("9", "C/orders has no broker 9; it has 1,2,3,4"),
        ("3", "broker 3 of C/orders is not in sync; in sync are 1,2"),
        ("4", "broker 4 of C/orders is a learner and never leads; in sync are 1,2"),
    ],
)
def test_who_cannot_lead_is_refused_before_anything_is_asked_for(hand: Hand, to: str, said: str) -> None:
    assert hand.over("orders", "--to", to) == 1
    assert hand.terminal.said == f"logherd: {said}\n"
    assert hand.quorum.orders == []


def test_without_a_leader_there_is_nobody_to_hand_over(hand: Hand) -> None:
    hand.quorum.masters["C/orders"] = 0
    assert hand.over("orders", "--to", "2") == 1
    assert hand.terminal.said == "logherd: C/orders has no leader that could hand over: Broker 3 has exited.\n"


def test_what_the_controllers_refuse_is_told(hand: Hand) -> None:
    hand.quorum.refusal = (409, {"error": "the epoch of C/orders is 8, and expectedEpoch is 6"})
    assert hand.over("orders", "--to", "2", "--epoch", "6") == 1
    assert hand.terminal.said == "logherd: the epoch of C/orders is 8, and expectedEpoch is 6\n", "nobody hands over"


def test_a_hand_over_that_is_given_up_is_told(hand: Hand) -> None:
    hand.quorum.elects = False
    assert hand.over("orders", "--to", "2") == 1
    assert "the hand-over was given up, broker 1 leads C/orders as before" in hand.terminal.said


def test_another_leader_than_the_wanted_one_is_told(hand: Hand) -> None:
    hand.quorum.usurper = 3
    assert hand.over("orders", "--to", "2") == 1
    assert "broker 3 leads C/orders now, not 2" in hand.terminal.said


def test_patience_ends_with_what_is_known(hand: Hand) -> None:
    hand.quorum.reluctant = 1_000_000
    assert hand.over("orders", "--to", "2", "--wait", "1") == 1
    assert "broker 2 does not serve C/orders yet; it may still" in hand.terminal.said


def test_it_needs_the_secret(terminal: Terminal, quorum: Quorum) -> None:
    assert terminal.run("switchover", "orders", "--to", "2", "--admin", quorum.admins["c-1"]) == 1
    assert terminal.said.endswith("name it with --token-file\n")
    assert quorum.orders == []


def test_without_an_address_silence_is_told_of_the_default_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    monkeypatch.delenv("LOGHERD_ADMIN", raising=False)
    monkeypatch.setattr(controllers, "_DEFAULT_ADMIN", nowhere)
    assert terminal.run("switchover", "orders") == 1
    said = f"{nowhere}: Connection refused; say where one is: --admin"
    assert terminal.said == f"logherd: no controller answers: {said}\n"


def test_brokers_that_were_named_are_not_taken_for_all_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may lead already, as where the former leader alone was named."""
    monkeypatch.setattr(own_leaders, "_serving", lambda _admins: {})
    said = r"none of a:1, b:1 leads after epoch 4 within 0 s; look at all brokers before repeating"
    with pytest.raises(controllers.ControllersError, match=said):
        own_leaders.await_service(["a:1", "b:1"], 4, 0)


@pytest.mark.parametrize("missing", ["brokerId", "epoch", "group", "replication.epoch"])
def test_a_page_of_another_version_is_one_sentence(missing: str, tmp_path: Path, terminal: Terminal) -> None:
    page: dict[str, Any] = {
        "cluster": "C", "group": "orders", "brokerId": 1, "epoch": 4,
        "replication": {"mode": "raft", "epoch": 4, "serving": True},
    }  # fmt: skip
    whose, _, key = missing.rpartition(".")
    del (page[whose] if whose else page)[key]
    secret = tmp_path / "token"
    secret.write_text("s")
    with serving_broker(status=page) as admin:
        for command in (("switchover", "orders"), ("replica", "hand-over")):
            code = terminal.run(*command, "--to", "2", "--admin", admin, "--token-file", str(secret))
            assert code == 1
            if command[0] != "switchover" or missing != "group":  # without its group it is of no group
                assert "logherd: a broker of another version answers in another form: " in terminal.said
                assert f"`{key}`" in terminal.said


@pytest.mark.parametrize("said", [["raft"], "raft", 1])
def test_what_is_no_replication_is_of_no_group_that_leads_itself(said: object) -> None:
    with serving_broker(status={"group": "orders", "replication": said}) as admin:
        assert own_leaders.brokers_of([admin], "orders") == {}
        with pytest.raises(controllers.ControllersError, match="leads and serves"):
            own_leaders.leader_of([admin])
