"""What a person sees of a group that nobody serves: the reason, in the text, in the document, below the live table."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from logherd_operator.local.addresses import Ports
from logherd_operator.local.keeping import Turn
from logherd_operator.local.look import Look, Page
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.status import document_of, serves, table_of, to_text
from logherd_operator.local.watching import LiveTable
from logherd_operator.observed.observed import Observed
from logherd_operator.plan.outcome import Plan
from unit.operator_plan.looks import group, look, with_broker

FULL = "the disk of /data/[b]/broker-2 has 8.5 MiB free, and messages need 25.0 MiB"
WHY = f"Nobody can be elected. Broker 2 takes no messages: {FULL}."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def headless() -> Observed:
    seen = look(group=group(leader=None, serving=False, why="Nobody can be elected."))
    slots = [
        replace(slot, report=replace(slot.report, refuses=FULL))
        if slot.broker_id == 2 and slot.report is not None else slot
        for slot in seen.brokers
    ]  # fmt: skip
    return replace(seen, brokers=tuple(slots))


@pytest.fixture
def seen(tmp_path: Path) -> Look:
    ports = Ports(name_service=20_000, broker=21_000, admin=21_002)
    places = tuple(
        PlaceState(component="broker", ordinal=ordinal, revision="", guardian=Process(1, 0)) for ordinal in range(3)
    )
    state = GroupState(group="herd", host="127.0.0.1", ports=ports, file=str(tmp_path), places=places)
    return Look(state, headless(), tuple(Page(None, None) for _ in places))


def test_the_reason_is_in_the_document_and_in_the_text(seen: Look) -> None:
    document = document_of(seen, None)
    assert document["why"] == WHY
    assert [each["why"] for each in document["brokers"]] == ["", f"it takes no messages: {FULL}", ""]
    text = to_text(document).splitlines()
    assert f"why          {WHY}" in text
    assert text[-1] == f"broker 2: it takes no messages: {FULL}"
    assert document_of(replace(seen, observed=look()), None)["why"] is None


def test_a_group_whose_leader_refuses_messages_does_not_serve(seen: Look) -> None:
    """Scripts wait for `logherd status`, and then send."""
    leads = Page(None, {"role": "leader", "brokerId": 1, "address": "127.0.0.1:21000", "pid": 7, "epoch": 7})
    well = replace(seen, observed=look(), pages=(leads, *seen.pages[1:]))
    assert serves(document_of(well, None))
    slot = well.observed.brokers[0]
    assert slot.report is not None
    full = with_broker(well.observed, replace(slot, report=replace(slot.report, refuses=FULL)))
    few = look(group=group(in_sync=(1,), why="2 replicas have to be in sync"))
    for refusing in (full, few):
        assert not serves(document_of(replace(well, observed=refusing), None))
    assert not serves(document_of(seen, None))


def test_a_controller_that_takes_no_part_is_not_ready_and_says_why(seen: Look) -> None:
    """As one that joined before its quorum was recovered without it; its role is a follower's."""
    rebuilt = "refused by us: the quorum was rebuilt 0 times here and 1 times there"
    told = {
        "role": "follower", "term": 0, "ready": False, "whyNotReady": "no leader of the quorum is known",
        "peers": [{"node": "c0", "refused": rebuilt}, {"node": "c2", "refused": None}],
    }  # fmt: skip
    places = tuple(PlaceState(component="controller", ordinal=ordinal, revision="") for ordinal in range(2))
    leads = Page(None, {"role": "leader", "term": 3, "ready": True, "whyNotReady": None, "peers": []})
    document = document_of(Look(replace(seen.state, places=places), headless(), (leads, Page(None, told))), None)
    assert [each["why"] for each in document["controllers"]] == ["", f"no leader of the quorum is known; c0: {rebuilt}"]
    assert [row[4] for row in table_of(document)] == ["ready", "yes", "no"]


def test_lag_and_what_is_pending_are_told_as_the_leader_knows_them(seen: Look) -> None:
    pending = {"members": [1, 2], "why": "broker 3 does not keep up or asks to leave", "ageMs": 12}
    followers = [
        {"brokerId": 2, "connected": True, "inSync": True, "flushed": 4_800, "lagBytes": 200, "lagMs": 40},
        {"brokerId": 3, "connected": False, "inSync": True, "flushed": 1_000, "lagBytes": 4_000, "lagMs": 61_234},
    ]
    status = {"role": "leader", "brokerId": 1, "address": "127.0.0.1:21000", "pid": 7, "epoch": 7, "endPosition": 5_000}
    replication = {"mode": "controller", "followers": followers, "pending": pending}
    leads = Page(None, {**status, "replication": replication})
    led = replace(seen, observed=look(), pages=(leads, *seen.pages[1:]))
    document = document_of(led, None)
    assert [(each["lagBytes"], each["lagMs"]) for each in document["brokers"]] == [(0, 0), (200, 40), (4_000, 61_234)]
    assert document["pending"] == (
        "in-sync set 1, 2 proposed 12 ms ago: broker 3 does not keep up or asks to leave"
    )  # fmt: skip
    text = to_text(document).splitlines()
    assert f"pending      {document['pending']}" in text
    assert [row[-2:] for row in table_of(document)] == [
        ("lag bytes", "lag s"), ("0", "0.0"), ("200", "0.0"), ("4000", "61.2"),
    ]  # fmt: skip


def test_how_much_of_a_copy_is_done_is_told_as_the_leader_knows_it(seen: Look) -> None:
    followers = [{"brokerId": 2, "copying": None}, {"brokerId": 3, "copying": 0.4399}]
    leads = Page(None, {"role": "leader", "brokerId": 1, "epoch": 7, "replication": {"followers": followers}})
    document = document_of(replace(seen, observed=look(), pages=(leads, *seen.pages[1:])), None)
    assert [each["copying"] for each in document["brokers"]] == [None, None, 0.4399]
    assert "broker 3: copies the log: 43 % is there" in to_text(document).splitlines()


def test_who_is_not_led_has_no_known_lag(seen: Look) -> None:
    document = document_of(seen, None)
    assert {(each["lagBytes"], each["lagMs"]) for each in document["brokers"]} == {(None, None)}
    assert document["pending"] is None
    follower = Page(None, {"role": "follower", "brokerId": 2, "replication": {"followers": [], "pending": None}})
    alone = Page(None, {"role": "leader", "brokerId": 1, "epoch": 7, "replication": None})
    led = document_of(replace(seen, observed=look(), pages=(alone, follower, seen.pages[2])), None)
    assert [(each["lagBytes"], each["lagMs"]) for each in led["brokers"]] == [(0, 0), (None, None), (None, None)]


@pytest.mark.parametrize(
    "said",
    [
        [], {}, {"followers": {}, "pending": []}, {"followers": [1, {}], "pending": {}},
        {"followers": [{"brokerId": 2, "lagBytes": "200", "lagMs": [4]}], "pending": {"members": 2}},
    ],
)  # fmt: skip
def test_a_leader_of_another_version_leaves_the_lag_unknown(seen: Look, said: object) -> None:
    leads = Page(None, {"role": "leader", "brokerId": 1, "epoch": 7, "replication": said})
    document = document_of(replace(seen, observed=look(), pages=(leads, *seen.pages[1:])), None)
    assert [(each["lagBytes"], each["lagMs"]) for each in document["brokers"]] == [(0, 0), (None, None), (None, None)]
    assert document["pending"] is None


def test_the_reason_stands_below_the_table_of_a_terminal(seen: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "xterm")
    table = LiveTable()
    table.show(Turn(seen, Plan(), 1.0))
    table.close()
    shown = " ".join(terminal.getvalue().split())
    assert WHY in shown
    assert f"broker 2: it takes no messages: {FULL}" in shown


@pytest.mark.parametrize(
    "odd",
    [
        {"replication": ["raft"]}, {"replication": {"mode": "controller"}}, {"epoch": "late"}, {"epoch": []},
        {"replication": {"inSync": {"members": "all"}}}, {"replication": {"inSync": None}},
    ],
)  # fmt: skip
def test_a_leader_of_another_version_ends_nobody_who_looks(seen: Look, odd: dict[str, object]) -> None:
    """The table of a keeper in the foreground least of all."""
    leads = {
        "role": "leader", "brokerId": 1, "epoch": 3, "endPosition": 9, "committedPosition": 9, "pid": 1,
    }  # fmt: skip
    nobody = replace(seen.observed, group=None)
    pages = (Page(Process(1, 0), {**leads, **odd}), *seen.pages[1:])
    document = document_of(replace(seen, observed=nobody, pages=pages), None)
    assert document["inSync"] == []
    assert (document["leader"] is None) == ("epoch" in odd)
    assert to_text(document)
