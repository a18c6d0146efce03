"""Actions of the admin port: what they do, that each may be repeated, and how each is refused."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.controller.commands import Clean, Tune
from logherd.controller.reports import Granted
from logherd.controller.values import BrokerId
from logherd.model.names import Epoch
from logherd.raft.inputs import RecoverQuorum
from logherd.replication.messages import ReplicaId
from logherd.service.controllers.documents import Document
from logherd.service.controllers.pages import ACTIONS, VIEWS, ask
from logherd.service.controllers.standing import Peer, Progress
from logherd.service.controllers.steps import AwaitMaster, Confirm, Decide, HandOver, QuorumRefusal, Rebuild, Resettle
from unit.controller.desk import KEY, Desk, point
from unit.service.controllers.caller import IDENTITIES, HttpCaller, standing

GROUP = "/groups/c/bg"
ELECT = f"{GROUP}/elect"


def survivor(node: str, position: int = 0) -> dict[str, object]:
    return {"identity": IDENTITIES[node], "epoch": 0, "position": position}


GOOD: dict[str, dict[str, object]] = {
    "/groups/{cluster}/{name}/elect": {"brokerId": 2, "expectedEpoch": 1},
    "/groups/{cluster}/{name}/promote": {"brokerId": 2, "expectedEpoch": 1},
    "/groups/{cluster}/{name}/demote": {"brokerId": 2, "expectedEpoch": 1},
    "/groups/{cluster}/{name}/forget": {"brokerIds": [2], "expectedEpoch": 1},
    "/groups/{cluster}/{name}/rules": {"replicas": 5, "minInSync": 2},
    "/groups/{cluster}/{name}/endpoint": {"epoch": 1},
    "/config": {"values": {"gatherMs": 1}},
    "/quorum/transfer": {"node": "n1"},
    "/quorum/members": {"voters": ["n0", "n1", "n3"]},
    "/quorum/recover": {"reset": 1, "term": 5, "survivors": [survivor("n0"), survivor("n1")]},
}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


@pytest.fixture
def http(desk: Desk) -> HttpCaller:
    return HttpCaller(desk)


def hand_over(desk: Desk) -> None:
    """The master lets go, as it is asked to, and another is elected."""
    desk.release(1, exited=False)
    desk.wait(50, 2, 3)


def hand_over_to_two(desk: Desk) -> None:
    """The same, when broker 3 is gone."""
    desk.release(1, exited=False)
    desk.wait(2_000, 2)


# ---- elections -----------------------------------------------------------------------------------------------------


def test_elect_transfers_the_leadership_and_answers_when_it_is_done(desk: Desk, http: HttpCaller) -> None:
    http.while_waiting = lambda: hand_over(desk)
    status, page = http.post(ELECT, brokerId=3, expectedEpoch=1, requestId="op-7")
    assert http.steps == [Confirm, Decide, AwaitMaster]
    assert (status, page["changed"], page["requestId"]) == (200, True, "op-7")
    assert (page["group"]["leader"]["brokerId"], page["group"]["epoch"], page["group"]["inSync"]) == (3, 2, [1, 2, 3])


@pytest.mark.parametrize("request_id", ["op-7", ""])
def test_a_repeated_elect_hears_that_it_was_done(desk: Desk, http: HttpCaller, request_id: str) -> None:
    http.while_waiting = lambda: hand_over(desk)
    order = {"brokerId": 3, "expectedEpoch": 1, "requestId": request_id}
    assert http.post(ELECT, **order)[0] == 200
    log = len(desk.log)
    status, page = http.post(ELECT, **order)
    assert (status, page["changed"], page["group"]["leader"]["brokerId"]) == (200, False, 3)
    assert len(desk.log) == log


def test_a_repeated_elect_waits_for_the_transfer_that_is_under_way(desk: Desk, http: HttpCaller) -> None:
    order = {"brokerId": 3, "expectedEpoch": 1, "requestId": "op-7"}
    status, page = http.post(ELECT, **order)
    assert (status, page["group"]["transfer"]) == (202, {"target": 3, "requestId": "op-7"})
    http.while_waiting = lambda: hand_over(desk)
    assert http.post(ELECT, **order)[0] == 200
    assert desk.group.epoch == 2


def test_a_request_id_that_stands_for_another_broker_is_refused(desk: Desk, http: HttpCaller) -> None:
    http.while_waiting = lambda: hand_over(desk)
    assert http.post(ELECT, brokerId=3, expectedEpoch=1, requestId="op-7")[0] == 200
    status, page = http.post(ELECT, brokerId=2, expectedEpoch=2, requestId="op-7")
    assert (status, page["reason"]) == (409, "REQUEST_REUSED")
    assert desk.group.transfer is None


def test_a_second_transfer_while_one_runs_is_refused(http: HttpCaller) -> None:
    http.post(ELECT, brokerId=3, expectedEpoch=1)
    status, page = http.post(ELECT, brokerId=2, expectedEpoch=1)
    assert (status, page["reason"]) == (409, "RUNNING")
    assert page["error"] == "another change is running: a transfer to broker 3 is running"
    assert http.steps == [Confirm, Decide]


def test_a_transfer_that_ends_without_anybody_who_leads_is_not_done(desk: Desk, http: HttpCaller) -> None:
    http.while_waiting = lambda: desk.register(2, life=2, seen=7)
    status, page = http.post(ELECT, brokerId=3, expectedEpoch=1)
    assert (status, page["group"]["epoch"], page["group"]["leader"]) == (202, 7, None)


def test_a_transfer_in_which_another_one_is_elected_is_refused_as_its_repetition_would_be(
    desk: Desk, http: HttpCaller
) -> None:
    def another() -> None:
        desk.release(3)
        hand_over_to_two(desk)

    http.while_waiting = another
    order = {"brokerId": 3, "expectedEpoch": 1, "requestId": "op-7"}
    first, again = http.post(ELECT, **order), http.post(ELECT, **order)
    assert desk.group.master is not None
    assert desk.group.master.broker_id == 2
    assert first[1]["error"] == "broker 2 was elected in epoch 2, and not broker 3"
    assert {**first[1], "error": ""} == {**again[1], "error": ""}
    assert (first[0], again[0], first[1]["reason"], first[1]["epoch"]) == (409, 409, "FENCED_EPOCH", 2)


def test_elect_of_nobody_in_particular_takes_the_longest_log_that_does_not_lead(desk: Desk, http: HttpCaller) -> None:
    desk.beat(2, end=point(1, 10))
    desk.beat(3, end=point(1, 20))
    http.while_waiting = lambda: hand_over(desk)
    order = {"expectedEpoch": 1, "requestId": "op-8"}
    assert http.post(ELECT, **order)[1]["group"]["leader"]["brokerId"] == 3
    assert http.post(ELECT, **order)[1]["changed"] is False


def test_elect_of_nobody_in_particular_when_there_is_nobody(desk: Desk, http: HttpCaller) -> None:
    desk.alter(1, 1)
    status, page = http.post(ELECT, expectedEpoch=1)
    assert (status, page["reason"], page["error"]) == (409, "NOBODY", "nobody can be elected without loss")


def test_elect_of_who_leads_changes_nothing(http: HttpCaller) -> None:
    status, page = http.post(ELECT, brokerId=1, expectedEpoch=1)
    assert (status, page["changed"]) == (200, False)


def test_another_epoch_is_a_conflict_that_names_both(http: HttpCaller) -> None:
    for action, order in (("elect", {"brokerId": 2}), ("demote", {"brokerId": 2}), ("forget", {"brokerIds": [2]})):
        status, page = http.post(f"{GROUP}/{action}", **order, expectedEpoch=9)
        assert (status, page["expectedEpoch"], page["epoch"]) == (409, 9, 1)
        assert "9" in page["error"]


def test_elect_without_a_lease_is_at_once_and_refused_while_one_may_run(desk: Desk, http: HttpCaller) -> None:
    desk.register(1, life=2)
    status, page = http.post(ELECT, brokerId=2, expectedEpoch=1)
    assert (status, page["reason"]) == (409, "LEASE_RUNS")
    desk.now += desk.terms.waiter_ms
    desk.beat(2)
    assert http.post(ELECT, brokerId=2, expectedEpoch=1)[0] == 200
    assert http.steps == [Confirm, Decide]


def test_unclean_is_of_a_named_broker_and_only_when_nothing_else_helps(desk: Desk, http: HttpCaller) -> None:
    desk.alter(1, 1, 2)
    status, page = http.post(ELECT, expectedEpoch=1, unclean=True)
    assert (status, page["field"]) == (400, "brokerId")
    desk.now += desk.terms.waiter_ms
    desk.beat(3)
    assert http.post(ELECT, brokerId=3, expectedEpoch=1)[1]["reason"] == "NOT_IN_SYNC"
    order = {"brokerId": 3, "expectedEpoch": 1, "unclean": True, "requestId": "loss"}
    assert http.post(ELECT, **order)[1]["group"]["leader"]["brokerId"] == 3
    assert http.post(ELECT, **order)[1]["changed"] is False
    assert desk.group.sync.members == (3,)


@pytest.mark.parametrize("target", [{"brokerId": 1}, {}])
def test_elect_where_a_longer_log_is_waited_for_says_of_whom_and_what_helps(target: dict[str, object]) -> None:
    desk = Desk(now=60_000)
    for broker in (1, 2, 3, 4):
        desk.register(broker, end=point(7, 900 if broker == 4 else 100), seen=7)
    desk.now += desk.terms.waiter_ms
    desk.beat(1, 2, 3, end=point(7, 100))
    status, page = HttpCaller(desk).post(ELECT, **target, expectedEpoch=7)
    assert (status, page["reason"]) == (409, "NOT_IN_SYNC")
    assert page["error"] == (
        "the broker is not in sync: The group is new here. The first election waits for broker 4, with a longer log "
        "than broker 1 has, the best that could lead: to report, to be promoted if it is a learner, or to be forgotten."
    )


def test_elect_while_the_disk_of_the_controller_is_full_says_that_nobody_can_be_elected(
    desk: Desk, http: HttpCaller
) -> None:
    desk.alter(1, 1, 2)
    desk.wait(1_600, 2, 3)
    desk.release(1)
    http.standing = standing(progress=replace(standing().progress, disk_full=True))
    status, page = http.post(ELECT, brokerId=3, expectedEpoch=1)
    assert (status, page["reason"]) == (409, "NOT_IN_SYNC")
    assert page["error"].startswith("the broker is not in sync: Nobody can be elected: the disk of the controller"), (
        page
    )


def test_elect_of_who_does_not_keep_up_with_a_leader_says_no_more_than_that(desk: Desk, http: HttpCaller) -> None:
    desk.alter(1, 1, 2)
    status, page = http.post(ELECT, brokerId=3, expectedEpoch=1)
    assert (status, page["reason"], page["error"]) == (409, "NOT_IN_SYNC", "the broker is not in sync")


# ---- membership and rules ------------------------------------------------------------------------------------------


def test_demote_and_promote_may_be_repeated(desk: Desk, http: HttpCaller) -> None:
    for action, learners in (("demote", [3]), ("promote", [])):
        order = {"brokerId": 3, "expectedEpoch": 1}
        first, again = (http.post(f"{GROUP}/{action}", **order)[1] for _ in range(2))
        assert (first["changed"], again["changed"], again["group"]["learners"]) == (True, False, learners)
    assert desk.group.sync.members == (1, 2)


def test_demote_of_the_master_or_below_the_minimum_is_refused(desk: Desk, http: HttpCaller) -> None:
    assert http.post(f"{GROUP}/demote", brokerId=1, expectedEpoch=1)[1]["reason"] == "IN_SYNC"
    desk.alter(1, 1, 2)
    assert http.post(f"{GROUP}/demote", brokerId=2, expectedEpoch=1)[1]["reason"] == "BELOW_MINIMUM"


def test_forget_passes_over_who_was_forgotten_before(desk: Desk, http: HttpCaller) -> None:
    http.post(f"{GROUP}/demote", brokerId=3, expectedEpoch=1)
    order = {"brokerIds": [3], "expectedEpoch": 1}
    refused = http.post(f"{GROUP}/forget", **order)[1]
    assert refused["reason"] == "ALIVE"
    assert refused["error"] == "the broker reports: with living (--living) it is forgotten all the same"
    first, again = (http.post(f"{GROUP}/forget", **order, living=True)[1] for _ in range(2))
    assert (first["changed"], again["changed"]) == (True, False)
    assert desk.group.replica(BrokerId(3)) is None


def test_an_unknown_broker_is_not_found(http: HttpCaller) -> None:
    for action in ("elect", "promote", "demote"):
        status, page = http.post(f"{GROUP}/{action}", brokerId=9, expectedEpoch=1)
        assert (status, page["reason"]) == (404, "UNKNOWN_REPLICA")
        assert page["error"] == "no such broker in the group: c/bg has 1, 2, 3"
    assert http.post(f"{GROUP}/forget", brokerIds=[9], expectedEpoch=1)[0] == 404


@pytest.mark.parametrize("action", ["elect", "promote", "demote", "forget", "rules"])
def test_an_unknown_group_is_not_found(http: HttpCaller, action: str) -> None:
    assert http.post(f"/groups/c/none/{action}", **GOOD[f"/groups/{{cluster}}/{{name}}/{action}"])[0] == 404


def test_rules_are_set_whole_and_may_be_repeated(desk: Desk, http: HttpCaller) -> None:
    order = {"replicas": 5, "minInSync": 3, "preferred": 2}
    first, again = (http.post(f"{GROUP}/rules", **order)[1] for _ in range(2))
    assert (first["changed"], again["changed"]) == (True, False)
    assert again["group"]["rules"] == order
    http.post(f"{GROUP}/rules", replicas=5, minInSync=3)
    assert desk.group.rules.preferred is None


# ---- the controllers themselves ------------------------------------------------------------------------------------


def test_config_is_set_whole_or_not_at_all(desk: Desk, http: HttpCaller) -> None:
    status, page = http.post("/config", values={"gatherMs": 70, "transferMs": 1})
    assert (status, page["field"], page["value"], page["expected"]) == (400, "values.transferMs", 1, "500 to 600000")
    assert desk.machine.settings == {}
    assert http.post("/config", values={"leaseMs": 1})[0] == 400
    for _ in range(2):
        status, page = http.post("/config", values={"gatherMs": 70})
        assert (status, page["values"]) == (200, {"gatherMs": 70})


def test_the_quorum_is_handed_to_a_voter_or_to_the_best(http: HttpCaller) -> None:
    assert http.post("/quorum/transfer", node="n1")[1]["changed"] is True
    assert http.post("/quorum/transfer")[0] == 200
    assert [each.target for each in http.done if isinstance(each, HandOver)] == [IDENTITIES["n1"], None]
    assert http.post("/quorum/transfer", node="n0")[1]["changed"] is False
    status, page = http.post("/quorum/transfer", node="n3")
    assert (status, page["field"], page["value"]) == (400, "node", "n3")


def test_members_are_named_by_node_and_mean_who_answers_there(http: HttpCaller) -> None:
    lost = Peer(node="n2", identity="n2.0000000000000000", voter=True)
    peers = [each for each in standing().peers if each.node != "n2"]
    back = Peer(node="n2", identity=IDENTITIES["n2"], connected=True)
    http.standing = standing(peers=(*peers, lost, back))
    assert http.post("/quorum/members", voters=["n0", "n1", "n2"], learners=["n3"])[0] == 200
    (done,) = http.done
    assert isinstance(done, Resettle)
    assert done.voters == tuple(IDENTITIES[name] for name in ("n0", "n1", "n2"))
    assert done.learners == (IDENTITIES["n3"],)


def test_members_that_are_so_already_change_nothing(http: HttpCaller) -> None:
    assert http.post("/quorum/members", voters=["n2", "n1", "n0", "n0"])[1]["changed"] is False
    assert http.done == []


def test_members_on_their_way_to_be_so_are_asked_for_again(http: HttpCaller) -> None:
    http.standing = standing(settled=False)
    http.post("/quorum/members", voters=["n2", "n1", "n0"])
    assert [type(each) for each in http.done] == [Resettle]


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({"voters": ["n9"]}, "voters"),
        ({"voters": []}, "voters"),
        ({"voters": ["n0"], "learners": ["n0"]}, "learners"),
        ({"learners": ["n0"]}, "voters"),
    ],
)
def test_members_that_cannot_be_are_named(http: HttpCaller, order: dict[str, list[str]], field: str) -> None:
    status, page = http.post("/quorum/members", **order)
    assert (status, page["field"]) == (400, field)


def test_a_survivor_rebuilds_the_quorum_whether_it_leads_or_not(http: HttpCaller) -> None:
    http.leads = False
    assert http.post("/quorum/recover", **GOOD["/quorum/recover"])[1]["changed"] is True
    (done,) = http.done
    assert isinstance(done, Rebuild)
    assert done.order == RecoverQuorum(
        0, 1, Epoch(5), tuple((ReplicaId(IDENTITIES[node]), point(0, 0)) for node in ("n0", "n1"))
    )


def test_a_repeated_recovery_hears_that_it_was_done(http: HttpCaller) -> None:
    after = Progress(applied=0, committed=0, end=9, reset=1, last=point(5, 9))
    peers = [replace(each, voter=True if each.node in ("n0", "n1") else None) for each in standing().peers]
    http.standing = standing(progress=after, peers=tuple(peers))
    assert http.post("/quorum/recover", **GOOD["/quorum/recover"])[1]["changed"] is False
    other = {**GOOD["/quorum/recover"], "survivors": [survivor("n0"), survivor("n2")]}
    status, page = http.post("/quorum/recover", **other)
    assert (status, page["field"]) == (400, "reset")
    assert http.done == []


def test_a_recovery_that_reached_one_survivor_only_is_given_again_to_both(http: HttpCaller) -> None:
    again = {**GOOD["/quorum/recover"], "reset": 2, "term": 6}
    assert http.post("/quorum/recover", **again)[1]["changed"] is True, "whoever was not reached"
    http.standing = standing(progress=Progress(applied=0, committed=0, end=0, reset=1, last=point(0, 0)))
    assert http.post("/quorum/recover", **again)[1]["changed"] is True, "whoever was"
    assert [each.order.reset for each in http.done if isinstance(each, Rebuild)] == [2, 2]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"reset": 1_001}, "reset"),
        ({"term": 4}, "term"),
        ({"term": 1 << 62}, "term"),
        ({"survivors": [survivor("n1")]}, "survivors"),
        ({"survivors": [survivor("n0", position=7)]}, "survivors"),
        ({"survivors": [survivor("n0"), {**survivor("n1"), "identity": "n1"}]}, "survivors"),
        ({"survivors": [survivor("n0"), {**survivor("n1"), "identity": f"n9.{'b' * 16}"}]}, "survivors"),
    ],
)
def test_a_recovery_that_does_not_fit_this_survivor_is_named(
    http: HttpCaller, wrong: dict[str, object], field: str
) -> None:
    status, page = http.post("/quorum/recover", **{**GOOD["/quorum/recover"], **wrong})
    assert (status, page["field"]) == (400, field)
    assert http.done == []


# ---- what all have in common ---------------------------------------------------------------------------------------


def path_of(template: str) -> str:
    return template.replace("{cluster}", "c").replace("{name}", "bg")


def test_every_action_is_among_these() -> None:
    assert set(GOOD) == set(ACTIONS)


@pytest.mark.parametrize("template", sorted({*ACTIONS} - {"/quorum/recover"}))
def test_another_controller_says_who_leads(http: HttpCaller, template: str) -> None:
    http.leads = False
    status, page = http.post(path_of(template), **GOOD[template])
    assert (status, page["reason"]) == (409, "NOT_LEADER")
    assert page["leader"] == {"node": "n1", "address": "h1:9878", "admin": "h1:8088"}


def test_a_leader_that_is_not_ready_sends_nobody_to_itself(http: HttpCaller) -> None:
    http.leads = False
    http.standing = standing()
    assert http.post("/config", values={"gatherMs": 1})[1]["reason"] == "NOT_READY"
    http.standing = standing(None)
    status, page = http.post("/config", values={"gatherMs": 1})
    assert (status, page["leader"]) == (409, None)


def test_whoever_keeps_the_leaders_address_says_to_which_epoch_it_leads(desk: Desk, http: HttpCaller) -> None:
    log = len(desk.log)
    assert http.post(f"{GROUP}/endpoint", epoch=1)[0] == 200
    assert (http.steps, len(desk.log)) == ([Confirm], log)
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert answer.endpoint


def test_where_the_leaders_address_leads_is_believed_from_when_it_was_said(desk: Desk, http: HttpCaller) -> None:
    asked = ask("POST", f"{GROUP}/endpoint", b'{"epoch": 1}', http.place, desk.now)
    assert isinstance(asked.step, Confirm)
    desk.now += desk.terms.lease_ms  # this controller is paused until the quorum confirms it
    page = asked.step.then(desk.now)
    assert isinstance(page, Document)
    assert page.status == 200
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert not answer.endpoint


def test_the_leaders_address_in_another_epoch_is_refused(desk: Desk, http: HttpCaller) -> None:
    status, page = http.post(f"{GROUP}/endpoint", epoch=7)
    assert (status, page["reason"], page["expectedEpoch"], page["epoch"]) == (409, "FENCED_EPOCH", 7, 1)
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert not answer.endpoint


@pytest.mark.parametrize("template", sorted(ACTIONS))
def test_a_lost_leadership_is_an_unknown_outcome(http: HttpCaller, template: str) -> None:
    http.lost = True
    status, page = http.post(path_of(template), **GOOD[template])
    assert (status, page["reason"]) == (504, "UNKNOWN_OUTCOME")


@pytest.mark.parametrize("refusal", list(QuorumRefusal))
def test_what_the_quorum_refuses_is_no_success(desk: Desk, http: HttpCaller, refusal: QuorumRefusal) -> None:
    http.refusal = refusal
    status, page = http.post("/config", values={"gatherMs": 1})
    assert status >= 400
    assert page["reason"]
    assert desk.machine.settings == {}


@pytest.mark.parametrize("template", sorted(ACTIONS))
@pytest.mark.parametrize("wrong", ["x", None, -1, 1.5, [], {"a": 1}, 1 << 70, "9" * 10_000])
def test_each_field_that_is_wrong_is_named(http: HttpCaller, template: str, wrong: object) -> None:
    for field, good in GOOD[template].items():
        if wrong is None and (field == "node" or "elect" in template):
            continue  # whoever is best
        nested = {"gatherMs": wrong} if isinstance(good, dict) else [wrong] if isinstance(good, list) else wrong
        for value in {"plain": wrong, "nested": nested}.values():
            if value == "x" and field == "node":
                continue
            status, page = http.post(path_of(template), **{**GOOD[template], field: value})
            assert status == 400, (field, value)
            assert page["field"].startswith(field)
            assert page["expected"] in page["error"]
            assert len(page["error"]) < 400


@pytest.mark.parametrize("template", sorted(ACTIONS))
def test_missing_and_unknown_fields_are_named(http: HttpCaller, template: str) -> None:
    for field in GOOD[template]:
        if (template, field) not in (("/quorum/transfer", "node"), ("/groups/{cluster}/{name}/elect", "brokerId")):
            rest = {name: value for name, value in GOOD[template].items() if name != field}
            status, page = http.post(path_of(template), **rest)
            assert (status, page["field"], page["value"]) == (400, field, None)
    status, page = http.post(path_of(template), **GOOD[template], colour="red")
    assert (status, page["field"], page["value"]) == (400, "colour", "red")
    assert "requestId" in page["expected"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("brokerId", "2", "an integer or null"),
        ("brokerId", 0, "an integer >= 1"),
        ("expectedEpoch", 1.5, "an integer"),
        ("unclean", "yes", "true or false"),
        ("requestId", 7, "text"),
    ],
)
def test_what_would_be_right_is_said_in_words(http: HttpCaller, field: str, value: object, expected: str) -> None:
    page = http.post(ELECT, **{"expectedEpoch": 1, field: value})[1]
    assert (page["field"], page["value"], page["expected"]) == (field, value, expected)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for order in GOOD.values() for name in order} | {"requestId", "learners", "unclean", "living"})


@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
    path=st.sampled_from([path_of(template) for template in (*ACTIONS, *VIEWS)]) | st.text(max_size=40),
    query=st.text(max_size=20),
    body=st.dictionaries(st.sampled_from(FIELDS), ANYTHING).map(msgspec.json.encode) | st.binary(max_size=60),
)
def test_no_content_of_a_call_is_an_error_of_ours(method: str, path: str, query: str, body: bytes) -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    status, page = HttpCaller(desk).call(method, f"{path}?{query}", body)
    assert 200 <= status < 600
    assert status < 400 or (page["error"] and page["reason"])


def test_a_refused_field_is_told_in_one_sentence(http: HttpCaller) -> None:
    assert http.post("/config", values={"transferMs": 1})[1]["error"] == (
        "values.transferMs is 1, and should be 500 to 600000"
    )
    assert http.post(ELECT)[1]["error"] == "expectedEpoch should be a value: the field is missing"


def test_an_empty_body_is_an_order_without_fields(http: HttpCaller) -> None:
    assert isinstance(ask("POST", "/quorum/transfer", b"", http.place, 0).step, HandOver)


def test_all_of_the_replicas_may_have_to_be_in_sync(desk: Desk, http: HttpCaller) -> None:
    assert http.post(f"{GROUP}/rules", replicas=3, minInSync=3)[0] == 200
    assert desk.group.rules.min_in_sync == 3


def test_rules_that_contradict_each_other_are_named(http: HttpCaller) -> None:
    status, page = http.post(f"{GROUP}/rules", replicas=2, minInSync=3)
    assert (status, page["field"], page["value"]) == (400, "minInSync", 3)


@pytest.mark.parametrize("value", [500, 600_000])
def test_config_takes_the_ends_of_each_range(desk: Desk, http: HttpCaller, value: int) -> None:
    assert http.post("/config", values={"transferMs": value})[0] == 200
    assert desk.machine.settings == {"transferMs": value}


def test_of_a_group_that_was_forgotten_nothing_can_be_ordered(desk: Desk, http: HttpCaller) -> None:
    desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch))
    status, page = http.post(f"{GROUP}/rules", replicas=5, minInSync=2)
    assert (status, page["reason"], desk.group.rules.replicas) == (404, "UNKNOWN_GROUP", 3)


def test_another_settings_change_does_not_matter(desk: Desk, http: HttpCaller) -> None:
    desk.submit(Tune(values={"bootstrapMs": 5}))
    assert http.post("/config", values={"gatherMs": 1})[1]["values"] == {"bootstrapMs": 5, "gatherMs": 1}


def test_the_group_key_is_taken_from_the_path(desk: Desk, http: HttpCaller) -> None:
    page = http.post(f"{GROUP}/rules", replicas=3, minInSync=1)[1]
    assert (page["group"]["cluster"], page["group"]["name"]) == (KEY.cluster, KEY.name)
