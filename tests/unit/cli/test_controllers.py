"""`logherd quorum` and `logherd groups`: a living controller is found, its leader followed, errors are sentences."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from logherd.cli import controllers
from unit.cli.broker_fake import serving_broker
from unit.cli.controllers_fake import Quorum
from unit.cli.terminal import Terminal


def only(quorum: Quorum) -> tuple[str, dict[str, Any]]:
    """The one order that was carried out, without its request id."""
    ((order, body),) = quorum.orders
    assert len(body["requestId"]) == 32
    return order, {name: value for name, value in body.items() if name != "requestId"}


def test_status_is_the_leaders_whichever_controller_is_named(terminal: Terminal, quorum: Quorum) -> None:
    for admin in quorum.admins.values():
        assert terminal.run("quorum", "status", "--admin", admin) == 0
        assert terminal.lines()[2] == ["c-1", "c-1.0", "yes", "yes", "100", "20", "3"]
        assert terminal.lines()[3] == ["c-2", "c-2.0", "yes", "no", "100", "20", "-"]
        assert terminal.printed.endswith("c-1 leads in term 5\n")


def test_a_dead_controller_is_passed_over(terminal: Terminal, quorum: Quorum, nowhere: str) -> None:
    assert terminal.run("quorum", "status", "--admin", nowhere, "--admin", quorum.admins["c-0"]) == 0


def test_addresses_come_from_the_environment_too(
    terminal: Terminal, quorum: Quorum, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGHERD_ADMIN", f"{nowhere} {quorum.admins['c-2']}")
    assert terminal.run("quorum", "status") == 0


def test_status_without_a_leader_is_told_and_fails(terminal: Terminal, quorum: Quorum) -> None:
    quorum.leader = None
    assert terminal.run("quorum", "status", "--admin", quorum.admins["c-0"]) == 1
    assert terminal.lines()[1] == ["c-0", "c-0.0", "yes", "yes", "-", "-", "3"]
    assert terminal.printed.endswith("nobody leads in term 5\n")


def test_json_has_the_fields_of_the_admin_port(terminal: Terminal, quorum: Quorum) -> None:
    admin = quorum.admins["c-0"]
    assert terminal.run("quorum", "status", "--admin", admin, "-o", "json") == 0
    document = json.loads(terminal.printed)
    assert document["leader"] == {"node": "c-1", "address": "h:9878", "admin": quorum.admins["c-1"]}
    assert document["members"][2]["lagBytes"] == 20
    assert terminal.run("groups", "list", "--admin", admin, "-o", "json") == 0
    assert [each["inSync"] for each in json.loads(terminal.printed)] == [[1, 2]] * 3
    assert terminal.run("groups", "show", "orders", "--admin", admin, "-o", "json") == 0
    assert json.loads(terminal.printed)["rules"] == {"replicas": 3, "minInSync": 2, "preferred": None}


def test_all_pages_of_groups_are_listed(terminal: Terminal, quorum: Quorum) -> None:
    assert terminal.run("groups", "list", "--admin", quorum.admins["c-0"]) == 0
    assert [line[:2] for line in terminal.lines()[1:]] == [["C/bills", "1"], ["C/orders", "7"], ["D/bills", "2"]]
    assert terminal.lines()[1][2:7] == ["broker", "1", "1,2", "4", "3"]
    quorum.epochs.clear()
    assert terminal.run("groups", "list", "--admin", quorum.admins["c-0"]) == 0
    assert terminal.printed == "no groups\n"


def test_a_group_is_shown_with_roles_and_reason(terminal: Terminal, quorum: Quorum) -> None:
    assert terminal.run("groups", "show", "C/orders", "--admin", quorum.admins["c-2"]) == 0
    rows = [" ".join(line) for line in terminal.lines()]
    assert rows[1:5] == [
        "1 leader b1:10911 yes 7:10 40", "2 in sync b2:10911 yes 7:20 40", "3 exited b3:10911 no 7:30 -",
        "4 learner b4:10911 yes 7:40 40",
    ]  # fmt: skip
    assert rows[5:] == [
        "C/orders: epoch 7, leader broker 1, in sync 1,2 of 3, at least 2", "Broker 3 has exited.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("bills", "logherd: say which group bills is meant: C/bills, D/bills\n"),
        ("none", "logherd: there is no group none\n"),
        ("C/none", "logherd: there is no group C/none\n"),
    ],
)
def test_a_name_that_means_no_single_group_is_told(terminal: Terminal, quorum: Quorum, group: str, said: str) -> None:
    assert terminal.run("groups", "show", group, "--admin", quorum.admins["c-0"]) == 1
    assert terminal.said == said


def test_without_a_quorum_one_may_look_at_what_is_known(terminal: Terminal, quorum: Quorum) -> None:
    quorum.leader = None
    admin = quorum.admins["c-0"]
    assert terminal.run("groups", "list", "--admin", admin) == 1
    assert terminal.said == "logherd: the quorum does not confirm what is known here\n"
    assert terminal.run("groups", "list", "--admin", admin, "--stale") == 0
    assert len(terminal.lines()) == 4
    assert terminal.run("groups", "show", "orders", "--admin", admin, "--stale") == 0


@pytest.mark.parametrize(
    ("arguments", "order", "body"),
    [
        (["elect", "C/orders", "--epoch", "6"], "elect", {"expectedEpoch": 6}),
        (
            ["elect", "orders", "--broker", "1", "--unclean", "--yes", "--epoch", "6"],
            "elect",
            {"brokerId": 1, "unclean": True, "expectedEpoch": 6},
        ),
        (["promote", "orders", "4"], "promote", {"brokerId": 4, "expectedEpoch": 7}),
        (["demote", "orders", "2"], "demote", {"brokerId": 2, "expectedEpoch": 7}),
        (["forget", "orders", "3", "4"], "forget", {"brokerIds": [3, 4], "expectedEpoch": 7}),
        (["forget", "orders", "3", "--living"], "forget", {"brokerIds": [3], "living": True, "expectedEpoch": 7}),
        (["forget", "orders", "--all"], "forget", {"brokerIds": [], "whole": True, "expectedEpoch": 7}),
    ],
)
def test_an_order_about_a_group_reaches_the_leader(
    terminal: Terminal, quorum: Quorum, token: Path, arguments: list[str], order: str, body: dict[str, Any]
) -> None:
    code = terminal.run("groups", *arguments, "--admin", quorum.admins["c-0"], "--token-file", str(token))
    assert (code, terminal.said) == (0, "")
    assert only(quorum) == (f"{order} C/orders", body)
    assert "C/orders: epoch 7, leader broker 1" in terminal.printed


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ([], {"expectedEpoch": 7}),
        (["--broker", "2"], {"brokerId": 2, "expectedEpoch": 7}),
        (["--broker", "1"], {"brokerId": 1, "expectedEpoch": 7}),
        (["--broker", "2", "--epoch", "6"], {"brokerId": 2, "expectedEpoch": 6}),
    ],
)
def test_an_election_after_which_another_one_leads_or_nobody_new_is_no_success(
    terminal: Terminal, quorum: Quorum, token: Path, arguments: list[str], body: dict[str, Any]
) -> None:
    """Broker 1 leads in epoch 7, as before. Of a hand-over that nobody took nothing else is told."""
    command = ["groups", "elect", "orders", *arguments, "--admin", quorum.admins["c-0"], "--token-file", str(token)]
    assert (terminal.run(*command), terminal.said) == (1, "")
    assert only(quorum) == ("elect C/orders", body)
    assert "C/orders: epoch 7, leader broker 1" in terminal.printed


@pytest.mark.parametrize(
    ("arguments", "order", "body"),
    [
        (["transfer"], "transfer", {}),
        (["transfer", "c-1"], "transfer", {"node": "c-1"}),
        (
            ["members", "--voter", "c-0", "--voter", "c-1.0", "--learner", "c-2"],
            "members",
            {"voters": ["c-0", "c-1.0"], "learners": ["c-2"]},
        ),
    ],
)
def test_an_order_about_the_quorum_reaches_the_leader(
    terminal: Terminal, quorum: Quorum, token: Path, arguments: list[str], order: str, body: dict[str, Any]
) -> None:
    code = terminal.run("quorum", *arguments, "--admin", quorum.admins["c-0"], "--token-file", str(token))
    assert (code, terminal.said, only(quorum)) == (0, "", (order, body))
    assert terminal.printed.endswith("c-1 leads in term 5\n")


def test_a_transfer_ends_when_the_next_one_leads(terminal: Terminal, quorum: Quorum, token: Path) -> None:
    quorum.heir = "c-2"
    assert terminal.run("quorum", "transfer", "--admin", quorum.admins["c-0"], "--token-file", str(token)) == 0
    assert terminal.printed == "c-2 leads in term 5\n"


def test_a_transfer_after_which_another_one_leads_or_nobody_is_no_success(
    terminal: Terminal, quorum: Quorum, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ["quorum", "transfer", "--admin", quorum.admins["c-0"], "--token-file", str(token)]
    quorum.heir = "c-2"
    assert terminal.run(*order, "c-0") == 1
    assert terminal.printed == "c-2 leads in term 5\n"
    monkeypatch.setattr(controllers, "_PATIENCE_SECONDS", 0.3)
    quorum.questions, quorum.heir = -1_000, "c-1"
    assert terminal.run(*order) == 1
    assert terminal.printed == "nobody leads in term 5\n"


def test_an_order_without_the_secret_changes_nothing(terminal: Terminal, quorum: Quorum, tmp_path: Path) -> None:
    admin = quorum.admins["c-1"]
    assert terminal.run("quorum", "transfer", "--admin", admin) == 1
    assert terminal.said.endswith("with what adminTokenFile holds; name it with --token-file\n")
    wrong = tmp_path / "wrong"
    wrong.write_text("another")
    assert terminal.run("quorum", "transfer", "--admin", admin, "--token-file", str(wrong)) == 1
    assert terminal.said == "logherd: the token is not the one in adminTokenFile\n"
    assert terminal.run("quorum", "transfer", "--admin", admin, "--token-file", str(tmp_path / "none")) == 1
    assert "none: the token cannot be read: " in terminal.said
    assert quorum.orders == []


@pytest.mark.parametrize("text", ["first half\nsecond half\n", "a\x00b", "\n", ""])
def test_a_file_that_holds_no_token_is_told_at_once_and_not_shown(
    terminal: Terminal, quorum: Quorum, tmp_path: Path, text: str
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(text)
    assert terminal.run("quorum", "transfer", "--admin", quorum.admins["c-0"], "--token-file", str(wrong)) == 1
    assert terminal.said == f"logherd: {wrong}: holds no token; one line of printable ASCII is right\n"
    assert not quorum.orders


def test_what_the_leader_refuses_is_told_once(terminal: Terminal, quorum: Quorum, token: Path) -> None:
    quorum.refusal = (409, {"error": "the epoch of C/orders is 8, and expectedEpoch is 7", "reason": "FENCED_EPOCH"})
    admin = quorum.admins["c-0"]
    assert terminal.run("groups", "elect", "orders", "--admin", admin, "--token-file", str(token)) == 1
    assert terminal.said == "logherd: the epoch of C/orders is 8, and expectedEpoch is 7\n"


def test_an_order_whose_answer_was_lost_is_recognised(terminal: Terminal, quorum: Quorum, token: Path) -> None:
    quorum.lose_answers = 2
    admin = quorum.admins["c-0"]
    assert terminal.run("groups", "promote", "orders", "4", "--admin", admin, "--token-file", str(token)) == 0
    assert only(quorum)[0] == "promote C/orders"
    assert "nothing changed: it was so already" in terminal.printed


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        ((409, {"error": "it does not lead", "leader": None}), "nothing was done: it does not lead"),
        ((503, {"error": "it is not ready yet", "leader": None}), "nothing was done: it is not ready yet"),
        ((504, {"error": "not in time"}), "the outcome is unknown, look before repeating: not in time"),
    ],
)
def test_patience_ends_with_what_is_known_of_the_outcome(
    terminal: Terminal, quorum: Quorum, token: Path, monkeypatch: pytest.MonkeyPatch,
    refusal: tuple[int, dict[str, Any]], outcome: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(controllers, "_PATIENCE_SECONDS", 0.3)
    quorum.refusal = refusal
    assert terminal.run("quorum", "transfer", "--admin", quorum.admins["c-0"], "--token-file", str(token)) == 1
    assert terminal.said == f"logherd: no leader of the controllers answers, {outcome}\n"


def test_a_leader_whose_address_nobody_knows_is_looked_for_among_the_named(
    terminal: Terminal, quorum: Quorum, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "_PATIENCE_SECONDS", 0.3)
    quorum.told = False
    order = ["quorum", "transfer", "--token-file", str(token), "--admin", quorum.admins["c-0"]]
    assert terminal.run(*order) == 1
    assert "c-1 leads, whose admin address is not known there; name it with --admin" in terminal.said
    assert terminal.run(*order, "--admin", quorum.admins["c-1"]) == 0


@pytest.mark.parametrize("leader", ["c-1", ["c-1"], {"node": "c-1", "admin": "nowhere"}, {"admin": 5}])
def test_a_leader_that_cannot_be_understood_is_none(
    terminal: Terminal, quorum: Quorum, monkeypatch: pytest.MonkeyPatch, leader: object
) -> None:
    monkeypatch.setattr(Quorum, "status", lambda self, node: {"node": node, "leader": leader})
    assert terminal.run("quorum", "status", "--admin", quorum.admins["c-0"]) == 0
    assert terminal.lines()[1][4] == "-"  # only the leader knows how far the others are


def test_a_broker_that_was_taken_for_a_controller_is_told(terminal: Terminal, token: Path) -> None:
    with serving_broker(status={"brokerId": 1, "cluster": "K", "group": "orders"}) as admin:
        said = f"{admin}: this is a broker's admin port, not a controller's\n"
        for command in ("groups list", "groups show orders", "quorum status", "switchover orders"):
            assert terminal.run(*command.split(), "--admin", admin) == 1
            assert terminal.said == f"logherd: no controller answers: {said}"
        assert terminal.run("quorum", "transfer", "--admin", admin, "--token-file", str(token)) == 1
        assert terminal.said == f"logherd: no leader of the controllers answers, nothing was done: {said}"


def test_a_port_that_is_no_admin_port_is_told(terminal: Terminal, token: Path) -> None:
    with serving_broker() as remoting:
        said = f"{remoting}: no answer in HTTP; is this an admin port?\n"
        for command in ("groups list", "quorum status", "switchover orders"):
            assert terminal.run(*command.split(), "--admin", remoting) == 1
            assert terminal.said == f"logherd: no controller answers: {said}"
        assert terminal.run("quorum", "transfer", "--admin", remoting, "--token-file", str(token)) == 1
        assert terminal.said == f"logherd: no leader of the controllers answers, nothing was done: {said}"


def test_no_controller_at_all_is_told_at_once(terminal: Terminal, nowhere: str, token: Path) -> None:
    assert terminal.run("quorum", "status", "--admin", nowhere) == 1
    assert terminal.said == f"logherd: no controller answers: {nowhere}: Connection refused\n"
    assert terminal.run("quorum", "transfer", "--admin", nowhere, "--token-file", str(token)) == 1
    assert "nothing was done" in terminal.said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quorum", "status", "--admin", "here"], "an address is host:port, not 'here'"),
        (["groups", "elect", "g", "--unclean"], "an unclean election is of one broker: name it with --broker"),
        (["groups", "elect", "g", "--unclean", "--broker", "1"], "an unclean election loses messages; say --yes"),
        (["quorum", "members"], "Missing option '--voter'"),
        (["groups", "forget", "g"], "name brokers that will not come back, or say --all"),
        (["groups", "forget", "g", "1", "--all"], "name brokers that will not come back, or say --all"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(terminal: Terminal, arguments: list[str], said: str) -> None:
    assert terminal.run(*arguments) == 2
    assert said in " ".join(terminal.said.replace("│", " ").split())


def test_a_terminal_gets_a_table_that_fits(terminal: Terminal, quorum: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal.run("groups", "list", "--admin", quorum.admins["c-0"]) == 0
    assert "Broker 3" in terminal.printed
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.printed)
    assert max(map(len, plain.splitlines())) <= 60


def test_another_version_of_the_documents_is_told(
    terminal: Terminal, quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quorum, "quorum", lambda self, node: {"term": "five"})
    assert terminal.run("quorum", "status", "--admin", quorum.admins["c-0"]) == 1
    assert terminal.said.startswith("logherd: a controller of another version answers in another form: ")
