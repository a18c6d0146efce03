"""`logherd status`: groups as controllers and their leaders know them, brokers by themselves, and what runs here."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from logherd.cli import status as command
from logherd.service.replica_view import (
    FollowerView,
    InSyncView,
    LeaderView,
    PendingView,
    PositionsView,
    ReplicationView,
    RequestsView,
)
from unit.cli.broker_fake import serving_broker
from unit.cli.controllers_fake import Quorum
from unit.cli.terminal import Terminal


def view(epoch: int = 7, *, pending: bool = False, closed: str | None = None) -> ReplicationView:
    return ReplicationView(
        mode="controller", role="leader", serving=True, epoch=epoch, leader=LeaderView(broker_id=1, address="b1:10911"),
        lease_ms=2_500, in_sync=InSyncView(members=[1, 2], version=7, min_in_sync=2),
        positions=PositionsView(end=5_000, flushed=5_000, committed=5_000),
        followers=[
            FollowerView(broker_id=2, connected=True, in_sync=True, flushed=4_800, lag_bytes=200, lag_ms=40),
            FollowerView(broker_id=3, connected=False, in_sync=False, flushed=None, lag_bytes=None, lag_ms=61_234),
        ],
        pending=PendingView(members=[1, 2, 3], why="broker 3 has caught up", age_ms=12) if pending else None,
        closed=closed, requests=RequestsView(forwarded=0, held=0),
    )  # fmt: skip


def page(broker_id: int, role: str, replication: ReplicationView | None, **more: Any) -> dict[str, Any]:
    """A broker's own status page."""
    return {
        "group": "orders", "cluster": "C", "epoch": 7, "brokerId": broker_id, "role": role,
        "address": f"b{broker_id}:10911", "pid": 1, "ready": True, "endPosition": 5_000, "committedPosition": 5_000,
        "nameServer": "", "startedAt": 0, "connections": 0, "replication": to_builtins(replication), **more,
    }  # fmt: skip


def test_a_group_is_shown_with_the_lag_that_its_leader_knows(terminal: Terminal, quorum: Quorum) -> None:
    with serving_broker(view(pending=True)) as address:
        quorum.addresses[1] = address
        assert terminal.run("status", "orders", "--controllers", ",".join(quorum.admins.values())) == 0
    assert terminal.lines()[:5] == [
        ["group", "broker", "role", "address", "alive", "end", "lag", "bytes", "lag", "s"],
        ["C/orders", "1", "leader", "b1:10911", "yes", "10", "0", "0.0"],
        ["C/orders", "2", "in", "sync", "b2:10911", "yes", "20", "200", "0.0"],
        ["C/orders", "3", "exited", "b3:10911", "no", "30", "-", "61.2"],
        ["C/orders", "4", "learner", "b4:10911", "yes", "40", "0", "-"],
    ]
    assert terminal.printed.splitlines()[5:] == [
        f"C/orders serves: epoch 7, leader broker 1 at {address}, in sync 1,2, at least 2",
        "  pending: in-sync set 1, 2, 3 proposed 12 ms ago: broker 3 has caught up",
        "  Broker 3 has exited.",
    ]


def test_how_much_of_a_copy_is_done_is_said_whoever_is_asked(terminal: Terminal, quorum: Quorum) -> None:
    seen = view()
    copying = replace(seen, followers=[seen.followers[0], replace(seen.followers[1], connected=True, copying=0.4399)])
    with serving_broker(copying) as client, serving_broker(status=page(1, "leader", copying)) as admin:
        quorum.addresses[1] = client
        for asked in (["orders", "--controllers", ",".join(quorum.admins.values())], ["--admin", admin]):
            terminal.run("status", *asked)
            assert "  broker 3 copies the log: 43 % is there" in terminal.printed.splitlines()
            terminal.run("status", *asked, "-o", "json")
            (group,) = json.loads(terminal.printed)["groups"]
            assert [each["copying"] for each in group["brokers"][:3]] == [None, None, 0.4399]


def test_all_groups_are_shown_as_one_document(terminal: Terminal, quorum: Quorum, nowhere: str) -> None:
    quorum.addresses[1] = nowhere
    assert terminal.run("status", "--admin", quorum.admins["c-0"], "-o", "json") == 0
    groups = json.loads(terminal.printed)["groups"]
    assert [(each["name"], each["epoch"], each["serves"]) for each in groups] == [
        ("bills", 1, True), ("orders", 7, True), ("bills", 2, True),
    ]  # fmt: skip
    assert groups[0]["brokers"][1] == {
        "brokerId": 2, "role": "in sync", "address": "b2:10911", "alive": True, "end": 20, "lagBytes": 0, "lagMs": None,
        "copying": None,
    }  # fmt: skip


def test_of_a_log_that_may_still_be_cut_no_lag_is_counted_by_heartbeats(
    terminal: Terminal, quorum: Quorum, nowhere: str
) -> None:
    quorum.addresses[1], quorum.older = nowhere, 2
    terminal.run("status", "orders", "--admin", quorum.admins["c-1"], "-o", "json")
    (group,) = json.loads(terminal.printed)["groups"]
    assert [each["lagBytes"] for each in group["brokers"]] == [0, None, 0, 0]


def test_a_leader_of_another_epoch_is_not_believed(terminal: Terminal, quorum: Quorum) -> None:
    with serving_broker(view(epoch=6)) as address:
        quorum.addresses[1] = address
        assert terminal.run("status", "orders", "--admin", quorum.admins["c-1"]) == 0
    assert terminal.lines()[2][-2:] == ["0", "-"]


@pytest.mark.parametrize("what", ["nobody leads", "writes are closed"])
def test_a_group_that_does_not_serve_is_told_and_fails(terminal: Terminal, quorum: Quorum, what: str) -> None:
    with serving_broker(view(closed="the disk's reserve is touched")) as address:
        quorum.addresses[1] = address
        if what == "nobody leads":
            quorum.masters["C/orders"] = 0
        assert terminal.run("status", "C/orders", "--admin", quorum.admins["c-1"]) == 1
    assert "C/orders does not serve: epoch 7" in terminal.printed
    assert ("no leader" if what == "nobody leads" else "No writes are taken: the disk's reserve") in terminal.printed


def test_a_hand_over_that_is_under_way_is_told(terminal: Terminal, quorum: Quorum, nowhere: str) -> None:
    quorum.addresses[1] = nowhere
    quorum.elected["C/orders"], quorum.reluctant = 2, 9
    assert terminal.run("status", "orders", "--admin", quorum.admins["c-1"]) == 0
    assert "  pending: leadership goes to broker 2\n" in terminal.printed


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"pending": True}, "A change of the in-sync set is pending."),
        ({"closed": "the disk's reserve is touched"}, "No writes are taken: the disk's reserve is touched."),
        ({}, "Nothing is pending."),
    ],
)
def test_what_only_the_leader_knows_is_not_told_beside_its_contrary(
    terminal: Terminal, quorum: Quorum, more: dict[str, Any], why: str
) -> None:
    quorum.why = "Nothing is pending."
    with serving_broker(view(**more)) as address:
        quorum.addresses[1] = address
        terminal.run("status", "orders", "--admin", quorum.admins["c-1"])
    assert terminal.printed.splitlines()[-1] == f"  {why}"


def test_of_many_groups_the_list_is_shown(terminal: Terminal, quorum: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_GROUPS_MAX", 2)
    assert terminal.run("status", "--admin", quorum.admins["c-1"]) == 0
    assert [line[:3] for line in terminal.lines()[1:4]] == [
        ["C/bills", "1", "1"], ["C/orders", "7", "1"], ["D/bills", "2", "1"],
    ]  # fmt: skip
    assert terminal.printed.endswith("name a group to see its brokers\n")
    quorum.masters["D/bills"] = 0
    assert terminal.run("status", "--admin", quorum.admins["c-1"]) == 1


def test_the_document_of_many_groups_has_the_keys_of_that_of_a_few(
    terminal: Terminal, quorum: Quorum, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum.addresses[1] = nowhere
    quorum.masters["D/bills"] = 0

    def told() -> dict[str, Any]:
        assert terminal.run("status", "--admin", quorum.admins["c-1"], "-o", "json") == 1
        document: dict[str, Any] = json.loads(terminal.printed)
        return document

    few = told()
    monkeypatch.setattr(command, "_GROUPS_MAX", 2)
    many = told()
    assert many["unanswered"] == few["unanswered"] == []
    for one, other in zip(many["groups"], few["groups"], strict=True):
        assert one == {**other, "brokers": None, "pending": None}
    assert [each["serves"] for each in many["groups"]] == [True, True, False]


def test_of_many_groups_one_whose_writes_wait_for_others_fails(
    terminal: Terminal, quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum.min_in_sync = 3
    assert terminal.run("status", "--admin", quorum.admins["c-1"]) == 1
    monkeypatch.setattr(command, "_GROUPS_MAX", 2)
    assert terminal.run("status", "--admin", quorum.admins["c-1"]) == 1


def test_brokers_speak_for_themselves(terminal: Terminal) -> None:
    with (
        serving_broker(status=page(1, "leader", view())) as first,
        serving_broker(status=page(2, "follower", None, endPosition=4_900)) as second,
    ):
        assert terminal.run("status", "--admin", second, "--admin", first) == 0
        assert terminal.lines()[1:4] == [
            ["C/orders", "1", "leader", "b1:10911", "yes", "5000", "0", "0.0"],
            ["C/orders", "2", "follower", "b2:10911", "yes", "4900", "200", "0.0"],
            ["C/orders", "3", "behind", "-", "no", "-", "-", "61.2"],
        ]
        assert "C/orders serves: epoch 7, leader broker 1 at b1:10911, in sync 1,2, at least 2" in terminal.printed
        assert terminal.run("status", "--admin", second) == 1
        assert "No leader is among the brokers that were asked." in terminal.printed


def test_a_broker_that_was_named_and_does_not_answer_is_told(terminal: Terminal, nowhere: str) -> None:
    """It may be all that there is of a group; nobody else would tell of it."""
    with serving_broker(status=page(1, "leader", None)) as address:
        assert terminal.run("status", "--admin", address, "--admin", nowhere) == 0
        assert terminal.printed.splitlines()[-1] == f"{nowhere} does not answer"
        assert terminal.run("status", "--admin", address, "--admin", nowhere, "-o", "json") == 0
        assert json.loads(terminal.printed)["unanswered"] == [nowhere]
        assert terminal.run("status", "--admin", address, "-o", "json") == 0
        assert json.loads(terminal.printed)["unanswered"] == []


def test_a_broker_that_heals_is_told_with_how_far_it_is(terminal: Terminal) -> None:
    healing = {
        "doing": "waiting", "readBytes": 9, "logBytes": 9, "damagedRanges": 1, "damagedBytes": 60_000,
        "fetchedBytes": 1_000, "position": 4_711, "said": {"1": "not known to be committed here"},
    }  # fmt: skip
    healer = page(3, "healing", None, healing=healing)
    follower = page(2, "follower", view(), damage=["commitlog/0 at byte 7: the record checksum differs"])
    with serving_broker(status=healer) as first, serving_broker(status=follower) as second:
        terminal.run("status", "--admin", first, "--admin", second)
    assert "Broker 3 heals its log: waiting, 1000 of 60000 damaged bytes fetched" in terminal.printed
    assert "(broker 1: not known to be committed here)" in terminal.printed
    assert "Broker 2 has met damage in its store: commitlog/0 at byte 7" in terminal.printed
    assert "in sync 1,2" in terminal.printed
    assert "no broker has that whole" not in terminal.printed


def test_damage_that_no_broker_can_give_is_told_with_the_page_that_says_what_to_do(terminal: Terminal) -> None:
    healing = {
        "doing": "waiting", "damagedBytes": 60_000, "fetchedBytes": 0, "said": {"1": "damaged here, too"},
        "nobodyHas": True,
    }  # fmt: skip
    with serving_broker(status=page(3, "healing", None, healing=healing)) as address:
        terminal.run("status", "--admin", address)
    assert "(broker 1: damaged here, too); no broker has that whole, see docs/stores.md." in terminal.printed


def test_a_disk_that_keeps_nothing_is_told(terminal: Terminal) -> None:
    healing = {"doing": "reading", "damagedBytes": 1, "fetchedBytes": 9, "said": {}, "unkept": "replace the disk"}
    with serving_broker(status=page(3, "healing", None, healing=healing)) as address:
        terminal.run("status", "--admin", address)
    assert "9 of 1 damaged bytes fetched; replace the disk." in terminal.printed


def test_a_broker_that_heals_alone_is_not_in_sync(terminal: Terminal) -> None:
    healing = {"doing": "reading", "damagedBytes": 0, "fetchedBytes": 0, "said": {}}
    with serving_broker(status=page(1, "healing", None, healing=healing)) as address:
        assert terminal.run("status", "--admin", address) == 1
    assert "no leader, in sync none, at least 1" in terminal.printed


def test_a_broker_that_refuses_messages_says_why(terminal: Terminal) -> None:
    full = "the disk of /data has 8.0 MiB free, and messages need 25.0 MiB"
    leader = page(1, "leader", view(closed="the disk's reserve is touched"), refuses=full)
    follower = page(2, "follower", view(), refuses="")
    with serving_broker(status=leader) as first, serving_broker(status=follower) as second:
        assert terminal.run("status", "--admin", first, "--admin", second) == 1
    assert f"Broker 1 takes no messages: {full}." in terminal.printed
    assert "Broker 2 takes" not in terminal.printed


def test_of_two_that_say_they_lead_the_one_of_the_later_epoch_counts(terminal: Terminal) -> None:
    former = page(2, "leader", view(6, closed="its lease has run out"), epoch=6)
    with serving_broker(status=former) as first, serving_broker(status=page(1, "leader", view(7))) as second:
        assert terminal.run("status", "--admin", first, "--admin", second) == 0
    assert "C/orders serves: epoch 7, leader broker 1 at b1:10911" in terminal.printed


@pytest.mark.parametrize("missing", ["cluster", "role", "endPosition", "replication.followers"])
def test_a_broker_of_another_version_is_told(terminal: Terminal, missing: str) -> None:
    document = page(1, "leader", view())
    within = document["replication"] if "." in missing else document
    del within[missing.rpartition(".")[2]]
    with serving_broker(status=document) as address:
        assert terminal.run("status", "--admin", address) == 1
    assert terminal.said.startswith("logherd: a broker of another version answers in another form: ")


def test_a_broker_that_is_alone_serves(terminal: Terminal) -> None:
    with serving_broker(status=page(1, "leader", None)) as address:
        assert terminal.run("status", "--admin", address) == 0
        assert terminal.printed.endswith("  The broker is alone in its group.\n")
        assert terminal.run("status", "orders", "--admin", address) == 0


def test_a_group_that_nobody_knows_is_no_success(terminal: Terminal, quorum: Quorum) -> None:
    with serving_broker(status=page(1, "leader", None)) as address:
        assert terminal.run("status", "other", "--admin", address) == 1
        assert terminal.said == "logherd: none of the brokers that answer is of a group other\n"
    assert terminal.run("status", "other", "--admin", quorum.admins["c-0"]) == 1
    assert terminal.said == "logherd: there is no group other\n"


def test_who_does_not_answer_is_told(terminal: Terminal, nowhere: str) -> None:
    assert terminal.run("status", "--admin", nowhere) == 1
    assert terminal.said.startswith("logherd: no controller answers: ")


def test_without_controllers_it_is_about_this_folder(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGHERD_ADMIN", raising=False)
    assert terminal.run("status") == 1
    assert terminal.said == "logherd status: no group was started from this folder; say where with --data DIR\n"
    assert terminal.run("status", "--data", str(tmp_path / "none")) == 1
    monkeypatch.setattr(command, "LOCAL", "logherd.nothing")
    assert terminal.run("status") == 1
    assert terminal.said == "logherd: nothing is known of this machine; name the controllers with --controllers\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders"], "to look at one of several groups name their controllers"),
        (["orders", "--data", "x"], "--data is for a group on this machine"),
        (["--controllers", "nonsense"], "Invalid value for --controllers: an address is host:port, not 'nonsense'"),
        (["--admin", "nonsense"], "Invalid value for --admin: an address is host:port, not 'nonsense'"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(terminal: Terminal, arguments: list[str], said: str) -> None:
    assert terminal.run("status", *arguments) == 2
    assert said in " ".join(terminal.said.replace("│", " ").split())


def test_a_terminal_gets_a_table_without_wrapping_a_script(terminal: Terminal, quorum: Quorum, nowhere: str) -> None:
    quorum.addresses[1] = nowhere
    assert terminal.run("status", "orders", "--admin", quorum.admins["c-0"]) == 0
    assert "\x1b" not in terminal.printed
