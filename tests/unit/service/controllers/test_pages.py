"""What the admin port shows: this controller, the quorum, the groups, and when it asks the quorum first."""

from dataclasses import replace
from typing import Any

import pytest

from logherd.controller.commands import Clean, Register, Tune
from logherd.controller.values import BrokerId, GroupKey
from logherd.service.controllers.standing import Leadership, Progress
from logherd.service.controllers.steps import Catch, QuorumRefusal
from unit.controller.desk import KEY, Desk, point
from unit.service.controllers.caller import IDENTITIES, HttpCaller, standing

GROUP = "/groups/c/bg"


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


@pytest.fixture
def http(desk: Desk) -> HttpCaller:
    return HttpCaller(desk)


# ---- this controller -----------------------------------------------------------------------------------------------


def test_status_says_who_this_is_and_who_leads(http: HttpCaller) -> None:
    http.leads = False
    status, page = http.get("/status")
    peers = page.pop("peers")
    assert (status, page) == (200, {
        "cluster": "ctl", "node": "n0", "identity": IDENTITIES["n0"], "version": "1.2", "pid": 7, "role": "follower",
        "term": 4, "leader": {"node": "n1", "address": "h1:9878", "admin": "h1:8088"}, "ready": True,
        "whyNotReady": None, "applied": 800, "committed": 850, "end": 1_000, "groups": 1,
    })  # fmt: skip
    assert [each["node"] for each in peers] == ["n1", "n2", "n3"]
    assert peers[0] == {
        "node": "n1", "identity": IDENTITIES["n1"], "address": "h1:9878", "admin": "h1:8088", "connected": True,
        "heardMs": 30, "refused": None,
    }  # fmt: skip
    assert http.steps == []


def test_quorum_says_how_far_each_member_is_at_the_leader_only(http: HttpCaller) -> None:
    _, page = http.get("/quorum")
    assert (page["leader"]["node"], page["term"]) == ("n0", 4)
    assert page["members"][1] == {
        "node": "n1", "identity": IDENTITIES["n1"], "voter": True, "connected": True, "match": 900, "lagBytes": 100,
        "heardMs": 30,
    }  # fmt: skip
    http.leads = False
    _, page = http.get("/quorum")
    assert {(each["match"], each["lagBytes"]) for each in page["members"]} == {(None, None)}


def test_quorum_names_at_the_leader_who_is_heard_and_has_no_vote_so_that_it_can_get_one(http: HttpCaller) -> None:
    _, page = http.get("/quorum")
    assert [(each["node"], each["voter"]) for each in page["members"]] == [
        ("n0", True), ("n1", True), ("n2", True), ("n3", False),
    ]  # fmt: skip
    assert page["members"][3]["connected"]
    http.standing = replace(standing(), peers=tuple(replace(each, connected=False) for each in standing().peers))
    _, page = http.get("/quorum")
    assert [each["node"] for each in page["members"]] == ["n0", "n1", "n2"]


def test_quorum_at_a_follower_names_its_members_only(http: HttpCaller) -> None:
    http.leads = False
    _, page = http.get("/quorum")
    assert [each["node"] for each in page["members"]] == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("progress", "faults"),
    [
        ({}, 0),
        ({"flush_ms": 999}, 0),
        ({"flush_ms": 1_000}, 1),
        ({"failure": "no space"}, 1),
        ({"failure": "no space", "flush_ms": 5_000}, 2),
    ],
)
def test_health_is_about_this_process_alone(http: HttpCaller, progress: dict[str, Any], faults: int) -> None:
    alone = Leadership(role="candidate", term=9, leader=None, serving=False, heard_ms=None)
    http.standing = standing(None, leadership=alone, progress=Progress(applied=0, committed=0, end=0, **progress))
    status, page = http.get("/health")
    assert (status, page["healthy"], len(page["faults"])) == (503 if faults else 200, not faults, faults)


@pytest.mark.parametrize(
    ("leader", "serving", "heard_ms", "ready"),
    [
        ("n0", True, 0, True),
        ("n0", False, 0, False),
        ("n1", False, 999, True),
        ("n1", False, 1_000, False),
        ("n1", False, None, False),
        (None, False, None, False),
    ],
)
def test_ready_is_who_serves_or_hears_its_leader(
    http: HttpCaller, leader: str | None, serving: bool, heard_ms: int | None, ready: bool
) -> None:
    now = Leadership(role="any", term=4, leader=leader, serving=serving, heard_ms=heard_ms)
    http.standing = standing(leader, leadership=now)
    status, page = http.get("/ready")
    assert (status, page["ready"], page["whyNot"] is None) == (200 if ready else 503, ready, ready)
    assert http.get("/status")[1]["ready"] is ready


def test_a_controller_whose_log_failed_is_not_ready(http: HttpCaller) -> None:
    http.standing = standing(progress=Progress(applied=0, committed=0, end=0, failure="no space"))
    assert http.get("/ready")[0] == 503


# ---- groups --------------------------------------------------------------------------------------------------------


def test_a_group_as_the_leader_knows_it(desk: Desk, http: HttpCaller) -> None:
    desk.beat(2, end=point(1, 500))
    desk.now += 20
    desk.beat(1, end=point(1, 900), committed=point(1, 450))
    status, page = http.get(GROUP)
    brokers = page.pop("brokers")
    assert http.steps == [Catch]
    assert (status, page) == (200, {
        "position": 800, "confirmed": True, "live": True, "cluster": "c", "name": "bg", "epoch": 1, "version": 1,
        "founded": True, "leader": {"brokerId": 1, "address": "b1:10911", "registration": 1, "serving": True,
                   "renewedFrom": "10.0.0.1"},
        "inSync": [1, 2, 3], "eligible": [], "learners": [], "committed": {"epoch": 1, "position": 450},
        "rules": {"replicas": 3, "minInSync": 2, "preferred": None}, "transfer": None, "why": "Nothing is pending.",
    })  # fmt: skip
    assert brokers[1] == {
        "brokerId": 2, "address": "b2:10911", "storeId": "store2", "registration": 2, "alive": True, "learner": False,
        "exited": False, "end": {"epoch": 1, "position": 500}, "heardMs": 20,
    }  # fmt: skip


def test_h14_no_page_shows_an_incarnation(desk: Desk, http: HttpCaller) -> None:
    desk.release(1)
    for path in (GROUP, f"{GROUP}?stale=true", "/groups", "/status", "/quorum", "/config"):
        assert "store1.1" not in str(http.get(path))


def test_a_group_elsewhere_is_confirmed_too_and_says_what_is_not_known_there(http: HttpCaller) -> None:
    http.leads = False
    _, page = http.get(GROUP)
    assert (page["confirmed"], page["live"], page["leader"]["serving"]) == (True, False, None)
    assert {(each["alive"], each["heardMs"]) for each in page["brokers"]} == {(None, None)}
    assert "leading controller" in page["why"]


def test_a_stale_read_asks_nobody_and_says_so(http: HttpCaller) -> None:
    http.refusal = QuorumRefusal.NOT_LEADER
    assert http.get(f"{GROUP}?stale=true")[1]["confirmed"] is False
    assert http.get("/groups?stale=true")[1]["confirmed"] is False
    assert http.get("/config?stale=true")[1]["confirmed"] is False
    status, page = http.get(GROUP)
    assert (status, page["reason"]) == (503, "NOT_CONFIRMED")
    assert "stale=true" in page["error"]


def test_bad_queries_are_named(http: HttpCaller) -> None:
    status, page = http.get(f"{GROUP}?stale=maybe")
    assert (status, page["field"], page["value"], page["expected"]) == (400, "stale", "maybe", "true or false")
    for wrong in ("0", "1001", "x", "9" * 5_000, "-1", "１"):
        status, page = http.get(f"/groups?limit={wrong}")
        assert (status, page["field"], page["expected"]) == (400, "limit", "1 to 1000")
        assert len(page["error"]) < 200


def test_an_unknown_group_is_not_found(http: HttpCaller) -> None:
    status, page = http.get("/groups/c/none")
    assert (status, page["reason"], page["name"]) == (404, "UNKNOWN_GROUP", "none")


def test_groups_come_in_pages_in_order(desk: Desk, http: HttpCaller) -> None:
    for cluster, name in (("b", "z"), ("d", "a"), ("c", "a")):
        desk.submit(
            Register(group=GroupKey(cluster, name), broker_id=BrokerId(1), store_id="s", incarnation="i", address="a:1")
        )
    seen, after = [], ""
    while after is not None:
        _, page = http.get(f"/groups?limit=3&after={after}")
        seen += [(each["cluster"], each["name"]) for each in page["groups"]]
        after = page["after"]
    assert seen == [("b", "z"), ("c", "a"), ("c", "bg"), ("d", "a")]
    assert len(http.get("/groups?limit=1")[1]["groups"]) == 1
    found = http.get("/groups")[1]["groups"][2]
    assert (found["leader"]["brokerId"], found["inSync"], found["brokers"], found["alive"]) == (1, [1, 2, 3], 3, 3)
    assert found["minInSync"] == 2


def test_pages_of_groups_end_where_a_name_holds_a_slash(desk: Desk, http: HttpCaller) -> None:
    for cluster, name in (("a/b", "z"), ("a", "c"), ("a/b", "a"), ("a", "b/y")):
        desk.submit(
            Register(group=GroupKey(cluster, name), broker_id=BrokerId(1), store_id="s", incarnation="i", address="a:1")
        )
    seen, after = [], ""
    for _ in range(5):
        _, page = http.get(f"/groups?limit=1&after={after}")
        seen += [(each["cluster"], each["name"]) for each in page["groups"]]
        after = page["after"]
    assert sorted(seen) == [("a", "b/y"), ("a", "c"), ("a/b", "a"), ("a/b", "z"), ("c", "bg")]
    assert after is None


def test_config_shows_what_is_set_and_what_may_be(desk: Desk, http: HttpCaller) -> None:
    desk.submit(Tune(values={"gatherMs": 70}))
    _, page = http.get("/config")
    assert page["values"]["gatherMs"] == {"value": 70, "minimum": 0, "maximum": 60_000, "set": True}
    assert page["values"]["transferMs"]["set"] is False
    assert page["process"] == {"nodeName": "n0"}


# ---- other calls ---------------------------------------------------------------------------------------------------


def test_an_unknown_page_is_not_found_and_the_known_ones_are_named(http: HttpCaller) -> None:
    for path in ("/", "", "/groups/c", "/groups//bg", "/groups/c/bg/elect/now", "/metrics", "/" * 500):
        status, page = http.get(path)
        assert (status, page["reason"]) == (404, "UNKNOWN_PAGE")
        assert "/groups/{cluster}/{name}/elect" in page["pages"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/status", ["GET"]),
        ("GET", "/quorum/transfer", ["POST"]),
        ("DELETE", "/config", ["GET", "POST"]),
        ("PUT", GROUP, ["GET"]),
    ],
)
def test_another_method_is_refused_with_those_that_are_right(
    http: HttpCaller, method: str, path: str, allowed: list[str]
) -> None:
    status, page = http.call(method, path)
    assert (status, page["allowed"]) == (405, allowed)


def test_a_body_that_is_no_object_is_named(http: HttpCaller) -> None:
    for body in (b"[]", b"1", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":1e999}'):
        status, page = http.call("POST", f"{GROUP}/elect", body)
        assert (status, page["field"]) == (400, "body" if body[:4] != b'{"a"' else page["field"])
        assert len(str(page)) < 1_000


def test_head_is_answered_as_get_and_paths_may_be_escaped(http: HttpCaller) -> None:
    assert http.call("HEAD", "/status") == http.get("/status")
    assert http.get("/groups/%63/b%67")[0] == 200


# ---- why -----------------------------------------------------------------------------------------------------------


def why(http: HttpCaller) -> str:
    sentence: str = http.get(GROUP)[1]["why"]
    return sentence


def test_why_of_a_new_group(http: HttpCaller) -> None:
    http.desk = desk = Desk()
    desk.register(1)
    assert why(http) == (
        "The group is new: of 3 configured brokers 0 report; the first election waits for all of them."
    )
    desk.beat(1)
    assert "of 3 configured brokers 1 report" in why(http)
    desk.register(2, end=point(1, 5))
    assert "may run for" in why(http)


def test_why_a_silent_master_still_leads(desk: Desk, http: HttpCaller) -> None:
    desk.wait(1_600, 2, 3)
    assert why(http) == "Broker 1 leads and does not report; its lease may run for 1463 ms more."


def test_why_nobody_leads_while_a_lease_may_run(desk: Desk, http: HttpCaller) -> None:
    desk.register(1, life=2)
    sentence = why(http)
    assert sentence.startswith("The lease of broker 1 may run for ")
    assert http.get(GROUP)[1]["leader"] is None


def test_why_an_election_is_about_to_come_or_waits(desk: Desk, http: HttpCaller) -> None:
    desk.wait(1_600, 2)
    desk.release(1)
    assert why(http) == ("Broker 2 is about to be elected unless broker 3, with perhaps a longer log, reports first.")


def test_why_nothing_is_decided_while_the_disk_of_the_controller_is_full(desk: Desk, http: HttpCaller) -> None:
    http.standing = standing(progress=replace(standing().progress, disk_full=True))
    assert why(http) == "Nothing is pending."
    desk.wait(1_600, 2)
    desk.release(1)
    sentence = (
        "Nobody can be elected: the disk of the controller that decides is at its reserve, or the system grants it "
        "no descriptor; its log says which."
    )
    assert why(http) == http.get("/groups")[1]["groups"][0]["why"] == sentence
    http.standing = None
    assert why(http) == "Broker 2 is about to be elected unless broker 3, with perhaps a longer log, reports first."


def test_why_nobody_can_be_elected(desk: Desk, http: HttpCaller) -> None:
    desk.now += 60_000
    desk.release(3)
    desk.office.hear(desk.report(1), desk.now)
    desk.beat(2, space=False, barrier=False)
    sentence = why(http)
    assert sentence == (
        "Nobody can be elected without loss: broker 1 let its lease run out, and may begin again when it has resigned "
        "or restarted; broker 2: its disk is full, or it has no descriptor left; broker 3 has exited."
    )


def test_why_a_master_does_not_serve(desk: Desk, http: HttpCaller) -> None:
    desk.release(1)
    desk.wait(50, 2, 3)
    assert "has asked for no lease yet" in why(http)
    desk.beat(2, healthy=False)
    assert "its store is sick" in why(http)


def test_what_is_pending_in_a_group_that_is_led(desk: Desk, http: HttpCaller) -> None:
    desk.alter(1, 1)
    assert why(http).startswith("Writes wait: broker 1 in sync, of at least 2")
    desk.alter(1, 1, 2)
    assert why(http) == "Not in sync, and no learner: broker 3."
    desk.beat(3, space=False)
    assert why(http) == "Not in sync, and no learner: broker 3; the disk of broker 3 is at its reserve."
    desk.beat(3)
    assert why(http) == "Not in sync, and no learner: broker 3."
    http.post(f"{GROUP}/demote", brokerId=3, expectedEpoch=1)
    assert why(http) == "Nothing is pending."
    http.post(f"{GROUP}/rules", replicas=3, minInSync=2, preferred=2)
    assert why(http) == "Broker 2 is preferred and does not lead."
    http.post(f"{GROUP}/elect", brokerId=2, expectedEpoch=1)
    assert why(http).startswith("Leadership is being handed to broker 2")


def test_every_group_state_has_a_sentence(desk: Desk, http: HttpCaller) -> None:
    assert why(http)
    http.leads = False
    desk.release(1)
    assert why(http).startswith("Nobody is elected")
    desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch))
    assert why(http) == "All brokers were forgotten; the next one that registers begins after epoch 1."
