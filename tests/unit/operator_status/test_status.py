"""What people are shown: every condition by its reasons, and a document that changes only when something does."""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Kept, Lender, Observed
from logherd_operator.observed.slots import Report, Volume
from logherd_operator.plan.outcome import Code
from logherd_operator.plan.pace import Pace
from logherd_operator.plan.planner import plan
from logherd_operator.spec.crd import group_crd
from logherd_operator.spec.group_status import BrokerGroupStatus
from logherd_operator.status.conditions import Look, findings
from logherd_operator.status.document import read_since, status_document
from unit.operator_plan.looks import (
    GIB,
    NOW,
    OLD,
    broker,
    controllers,
    group,
    instance,
    look,
    quorum,
    replica,
    spec_of,
    with_broker,
)  # fmt: skip


def looked(observed: Observed, **spec: Any) -> Look:
    wanted = spec_of(**spec)
    return Look(observed, wanted, plan(observed, wanted, NOW))


def said(observed: Observed, condition: str, **spec: Any) -> tuple[str, str]:
    found = findings(looked(observed, **spec))[condition]
    assert found.message
    return found.status, found.reason


def lost_volume() -> Observed:
    return with_broker(look(), broker(2, volume=Volume(uid="v", lost=True)))


def on_volume(**fields: Any) -> Observed:
    return with_broker(look(), broker(1, volume=Volume(uid="v", **fields)))


def report(**fields: Any) -> Report:
    return Report(**{"broker_id": 1, "role": "leader", "epoch": 7} | fields)


def test_what_is_lost_is_told_before_a_name_that_is_taken() -> None:
    observed = replace(lost_volume(), kept=Kept(taken=("the Service a-bootstrap is there and somebody else's",)))
    assert said(observed, "Degraded") == ("True", "VolumeLost")
    assert said(replace(look(), kept=observed.kept), "Degraded") == ("True", "NameTaken")


def test_why_pods_of_controllers_do_not_run_is_said() -> None:
    away = controllers(ready=False, failing="ErrImagePull: no such image")
    found = findings(looked(look(quorum=None, group=None, controllers=away)))["QuorumHealthy"]
    why = ", ".join(f"controller {n} (ErrImagePull: no such image)" for n in range(3))
    assert found.message == f"nobody leads the controllers; not ready: {why}"
    one = (*controllers()[:2], replace(controllers()[2], instance=instance(2, ready=False, unschedulable="no room")))
    found = findings(looked(look(quorum=quorum(down=(2,)), controllers=one)))["QuorumHealthy"]
    assert found.message == "c2 cannot be reached; not ready: controller 2 (no room)"


def test_controllers_that_are_away_degrade_the_group_that_has_them() -> None:
    """Also one that leads itself and runs on without them; of another group's controllers that group tells."""
    raft: dict[str, Any] = {"replication": {"mode": "Raft"}}
    assert said(look(quorum=None), "Degraded", **raft) == ("True", "MajorityLost")
    assert said(look(quorum=quorum(down=(2,)), group=group(in_sync=(1, 2))), "Degraded") == ("True", "FollowerLagging")
    elsewhere = {"controllers": {"ref": {"name": "orders"}}}
    seen = look(quorum=quorum(down=(2,)), controllers=())
    assert said(seen, "QuorumHealthy", **elsewhere) == ("True", "MinorityLost")
    assert said(seen, "Degraded", **elsewhere) == ("False", "AllWell")


def test_whose_controllers_do_not_answer_is_said() -> None:
    """As of a group that does not exist, or is written in another way."""
    seen = looked(look(quorum=None, group=None, controllers=()), controllers={"ref": {"name": "ordres"}})
    told = [findings(seen)["Available"].message, *(each.message for each in seen.plan.blocked)]
    assert told == ["no controller of the group ordres tells how the group stands"] * 2


def test_a_short_lease_of_the_lender_holds_nothing_up() -> None:
    own = {"controllers": {"ref": {"name": "shared"}}, "failover": {"heartbeatIntervalMs": 700}}
    seen = look(controllers=(), lender=Lender(lease_ms=2000))
    resting = looked(seen, **own)
    assert resting.plan.codes == {Code.LEASE_TOO_SHORT}
    assert document(seen, **own)["phase"] == "Running"
    assert resting.plan.again_seconds == Pace().idle
    begun = with_broker(seen, broker(2, stands=instance(2, ready=False, started_at=NOW - 5)))
    begun = with_broker(begun, broker(1, stands=instance(1, revision=OLD)))
    working = looked(begun, **own).plan
    assert working.actions == ()
    assert working.operation is not None
    assert working.again_seconds == Pace().busy


@pytest.mark.parametrize(
    ("lease", "told"), [(9000, frozenset({Code.LEASE_ELSEWHERE})), (6000, frozenset()), (3000, frozenset())]
)
def test_a_lease_that_does_nothing_beside_the_lenders_is_told(lease: int, told: frozenset[Code]) -> None:
    own = {"controllers": {"ref": {"name": "shared"}}, "failover": {"heartbeatIntervalMs": 2000, "leaseMs": lease}}
    resting = looked(look(controllers=(), lender=Lender(lease_ms=6000)), **own).plan
    assert resting.codes == told
    assert resting.again_seconds == Pace().idle
    assert all("9000 does nothing" in each.message and "group shared" in each.message for each in resting.blocked)


def test_what_is_under_way_names_the_pod_that_it_is_about() -> None:
    for observed, pod in (
        (look(brokers=tuple(broker(n, stands=instance(n, revision=OLD)) for n in range(3))), "orders-broker-2"),
        (look(controllers=controllers(revision=OLD)), "orders-controller-2"),
    ):
        document = status_document(looked(observed), {}, name="orders", generation=1, now=NOW)
        assert document["operation"]["pod"] == pod


ALL_WELL = [
    ("Available", "True", "WritesAccepted"), ("Progressing", "False", "Idle"), ("Degraded", "False", "AllWell"),
    ("LeaderElected", "True", "Elected"), ("QuorumHealthy", "True", "AllConnected"),
    ("ConfigApplied", "True", "Applied"), ("StorageReady", "True", "AllBound"), ("Upgradeable", "True", "Ready"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "status", "reason"), ALL_WELL)
def test_a_healthy_group_is_called_healthy(condition: str, status: str, reason: str) -> None:
    assert said(with_broker(look(), broker(0, report=report())), condition) == (status, reason)


STALE = with_broker(look(), broker(2, stands=instance(2, revision=OLD)))
CROWDED = look(brokers=tuple(broker(n, stands=instance(n, node="n1")) for n in range(3)))
AWAY = with_broker(look(group=group(in_sync=(1, 2))), broker(2, stands=instance(2, ready=False)))
NO_SPACE = "the disk of /d has 1.5 MiB free, and messages need 8 MiB"
NO_NUMBERS = "the disk of /d has ... MiB free, and messages need ... MiB"
FULL = with_broker(look(), broker(0, report=report(refuses=NO_SPACE)))
WELL = with_broker(look(), broker(0, report=report()))


@pytest.mark.parametrize(
    ("observed", "condition", "expected"),
    [
        (look(group=None), "Available", ("Unknown", "QuorumUnreachable")),
        (look(group=None), "Degraded", ("True", "QuorumUnreachable")),
        (look(group=group(leader=None, serving=False)), "Available", ("False", "NoLeader")),
        (look(group=group(in_sync=(1,))), "Available", ("False", "BelowMinInSync")),
        (FULL, "Available", ("False", "WritesRefused")),
        (FULL, "Upgradeable", ("False", "NotAvailable")),
        (look(group=None), "LeaderElected", ("Unknown", "QuorumUnreachable")),
        (look(group=group(leader=None, serving=False)), "LeaderElected", ("False", "Electing")),
        (with_broker(look(), broker(0, report=report(epoch=6))), "LeaderElected", ("False", "Disagreement")),
        (look(quorum=None), "QuorumHealthy", ("False", "MajorityLost")),
        (look(quorum=quorum(down=(2,))), "QuorumHealthy", ("True", "MinorityLost")),
        (look(quorum=quorum(down=(2,))), "Degraded", ("True", "MinorityLost")),
        (STALE, "Progressing", ("True", "Update")),
        (replace(STALE, quorum=quorum(down=(0, 1))), "Progressing", ("False", "QuorumUnhealthy")),
        (lost_volume(), "Degraded", ("True", "VolumeLost")),
        (AWAY, "Degraded", ("True", "PodNotReady")),
        (look(group=group(in_sync=(1, 2))), "Degraded", ("True", "FollowerLagging")),
        (CROWDED, "Degraded", ("True", "SharedNode")),
        (lost_volume(), "StorageReady", ("False", "VolumeLost")),
        (look(brokers=tuple(broker(n) for n in range(2))), "StorageReady", ("False", "Missing")),
        (on_volume(requested=GIB, capacity=1), "StorageReady", ("False", "Resizing")),
        (on_volume(requested=GIB), "StorageReady", ("False", "Missing")),
        (on_volume(resize_waits_since=NOW), "StorageReady", ("False", "RestartNeeded")),
        (STALE, "ConfigApplied", ("False", "PendingRestart")),
        (look(hot={"a": "1"}), "ConfigApplied", ("False", "Pending")),
        (with_broker(look(), broker(0, report=report(rejected=("a=1",)))), "ConfigApplied", ("False", "Rejected")),
        (STALE, "Upgradeable", ("False", "OperationRunning")),
        (look(quorum=quorum(down=(2,))), "Upgradeable", ("False", "QuorumLoss")),
        (look(group=group(leader=None, serving=False)), "Upgradeable", ("False", "NotAvailable")),
        (AWAY, "Upgradeable", ("False", "Degraded")),
    ],
)  # fmt: skip
def test_what_is_not_well_has_its_reason(observed: Observed, condition: str, expected: tuple[str, str]) -> None:
    assert said(observed, condition) == expected


@pytest.mark.parametrize("observed", [STALE, look(controllers=controllers(revision=OLD))])
def test_no_upgrade_may_begin_while_a_former_change_waits_for_a_person(observed: Observed) -> None:
    manual = {"update": {"strategy": "Manual"}}
    assert said(observed, "Upgradeable", **manual) == ("False", "WaitingForApproval")
    assert said(observed, "Progressing", **manual) == ("False", "WaitingForApproval")
    assert said(look(), "Upgradeable", **manual) == ("True", "Ready")


def test_a_clock_that_runs_in_the_controllers_words_changes_no_status() -> None:
    """Each change would be written, and would wake whoever looks, for as long as a lease may run."""

    def shown(rest_ms: int, before: dict[str, Any]) -> dict[str, Any]:
        why = f"The lease of broker 1 may run for {rest_ms} ms more; nobody is elected before."
        waits = with_broker(look(group=group(leader=None, serving=False, why=why)), STALE.brokers[2])
        return status_document(looked(waits), before, name="orders", generation=1, now=NOW)

    first = shown(2700, {})
    assert "NoLeader" in {each["code"] for each in first["blocked"]}
    assert "broker 1 may run for a while more" in str(first["conditions"])
    assert shown(1700, first) == first


@pytest.mark.parametrize(("first", "then"), [(900 << 20, 800 << 20), (0, 900), (3 << 20, 0)])
def test_a_learner_that_copies_changes_no_status_at_each_look(first: int, then: int) -> None:
    """It may copy for hours; how far it is behind stands in the metrics (OP-18)."""

    def shown(lag: int, before: dict[str, Any]) -> dict[str, Any]:
        replicas = (replica(1), replica(2), replica(3, learner=True, lag=lag))
        copies = look(group=group(in_sync=(1, 2), replicas=replicas), since={})
        return status_document(looked(copies), before, name="orders", generation=1, now=NOW)

    before = shown(first, {})
    assert before["operation"]["state"] == "CatchUp"
    assert shown(then, before) == before


def test_how_far_a_full_member_is_behind_under_load_changes_no_status() -> None:
    """The status that is written wakes the operator, whose next look would see another lag, and so on."""

    def shown(lag: int) -> dict[str, Any]:
        loaded = look(group=group(replicas=(replica(1), replica(2), replica(3, lag=lag))), since={})
        return status_document(looked(loaded), {}, name="orders", generation=1, now=NOW)

    assert shown(5 << 20) == shown(3 << 20)


@pytest.mark.parametrize(
    ("said", "mib", "shown"),
    [(None, 15, "None"), (None, 16, "Low"), ("Low", 9, "Low"), ("Low", 7, "None"), ("Low", 255, "Low"),
     ("Low", 256, "High"), ("High", 129, "High"), ("High", 127, "Low"), ("High", 7, "None"), ("Unknown", 15, "None")],
)  # fmt: skip
def test_a_follower_around_a_bound_is_not_told_anew_at_each_look(said: str | None, mib: int, shown: str) -> None:
    """What is behind falls back at half of what it was told at (OP-19)."""
    behind = look(group=group(replicas=(replica(1), replica(2), replica(3, lag=mib << 20))))
    before = {"brokers": [{"pod": "orders-broker-2", "lag": said}]} if said else {}
    document = status_document(looked(behind), before, name="orders", generation=1, now=NOW)
    assert [each["lag"] for each in document["brokers"]] == ["None", "None", shown]


def test_what_refuses_messages_is_told_without_numbers_that_change() -> None:
    found = findings(looked(FULL))["Available"].message
    assert found == f"broker 1 leads and takes no messages: {NO_NUMBERS}"
    assert document(FULL)["phase"] == "Degraded"


@pytest.mark.parametrize(
    "observed",
    [
        with_broker(look(), broker(1, report=report(broker_id=2, role="follower", refuses="its disk is full"))),
        with_broker(look(), broker(0, report=report(epoch=6, refuses="its lease is over"))),
        with_broker(look(group=group(transfer=2)), broker(0, report=report(refuses="it is being handed over"))),
    ],
)
def test_whose_refusal_concerns_nobody_now_takes_nothing_away(observed: Observed) -> None:
    assert said(observed, "Available") == ("True", "WritesAccepted")


FULL_FOLLOWER = with_broker(look(), broker(2, report=report(broker_id=3, role="follower", refuses=NO_SPACE)))


def test_a_follower_that_has_no_room_is_told_while_it_is_in_sync() -> None:
    """The next message may be the one for which it finds none, and who leads then may have to be another."""
    assert said(FULL_FOLLOWER, "Degraded") == ("True", "FollowerRefuses")
    found = findings(looked(FULL_FOLLOWER))["Degraded"].message
    assert found == f"would take no messages as leader: broker 3 ({NO_NUMBERS})"
    assert document(FULL_FOLLOWER)["phase"] == "Degraded"


def test_controllers_that_are_away_are_told_before_a_follower_that_has_no_room() -> None:
    assert said(replace(FULL_FOLLOWER, quorum=quorum(down=(2,))), "Degraded") == ("True", "MinorityLost")


def test_of_a_follower_that_is_behind_its_own_words_are_told() -> None:
    behind = replace(FULL_FOLLOWER, group=group(in_sync=(1,)))
    degraded = findings(looked(behind))["Degraded"]
    assert (degraded.reason, degraded.message) == ("FollowerLagging", f"not in sync: broker 2, broker 3 ({NO_NUMBERS})")


@pytest.mark.parametrize("role", ["leader", "none"])
def test_who_led_a_moment_ago_is_no_follower_that_refuses(role: str) -> None:
    """It hands over, or has not heard yet who leads now: what it says of its leadership passes."""
    former = with_broker(look(), broker(1, report=report(broker_id=2, role=role, refuses="its lease is over")))
    assert said(former, "Degraded") == ("False", "AllWell")


@pytest.mark.parametrize(
    ("full", "condition", "told"),
    [(FULL, "Available", ("False", "WritesRefused")), (FULL_FOLLOWER, "Degraded", ("True", "FollowerRefuses"))],
)
def test_a_broker_that_refuses_messages_by_turns_is_told_once(full: Observed, condition: str, told: object) -> None:
    """At its reserve it may find room at each other look. The first time that it has room counts at once."""
    well, since, now, found, spec = WELL, dict(look().since), NOW, list[object](), spec_of()
    for observed in (full, well, *(full, well) * 5, *(well,) * 7):
        made = plan(replace(observed, since=since), spec, now)
        finding = findings(Look(observed, spec, made))[condition]
        found.append(finding[:2])
        since, now = dict(made.since), now + made.again_seconds
        assert finding.message
    well_again = findings(looked(well))[condition][:2]
    assert found == [told, well_again, *[told] * 15, *[well_again] * 2]


@pytest.mark.parametrize(
    "unheard", [with_broker(look(), broker(0, report=None)), look(group=None), look(group=group(transfer=2))]
)
def test_a_look_that_does_not_hear_whether_a_broker_takes_messages_is_no_turn_of_it(unheard: Observed) -> None:
    since, now, found = dict(look().since), NOW, list[object]()
    for observed in (FULL, unheard, FULL, unheard, FULL, WELL):
        made = plan(replace(observed, since=since), spec_of(), now)
        found.append(findings(Look(observed, spec_of(), made))["Available"].reason)
        since, now = dict(made.since), now + 5
    assert found[4:] == ["WritesRefused", "WritesAccepted"]


def test_one_copy_is_called_one_copy() -> None:
    assert said(look(1, group=group(1)), "Available", replicas=1) == ("True", "SingleReplica")


def document(observed: Observed, before: dict[str, Any] | None = None, now: float = NOW, **spec: Any) -> dict[str, Any]:
    return status_document(looked(observed, **spec), before or {}, name="orders", generation=4, now=now)


WORDY = replace(
    with_broker(look(brokers=tuple(broker(n) for n in range(20)), since={}), broker(
        2, stands=instance(2, ready=False, failing="E" * 40_000),
        report=report(rejected=tuple(f"key{n}={'v' * 500}" for n in range(200)), fault="F" * 5000),
    )),
    group=group(why="W" * 40_000, leader=None, serving=False),
)  # fmt: skip


@pytest.mark.parametrize("observed", [look(), look(group=None, quorum=None), STALE, AWAY, lost_volume(), WORDY])
def test_a_status_is_what_the_definition_publishes(observed: Observed) -> None:
    BrokerGroupStatus.model_validate(document(observed))


def defaulted(value: Any, schema: dict[str, Any]) -> Any:
    """As an API server stores it."""
    if isinstance(value, list):
        return [defaulted(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    inner = schema.get("properties", {})
    missing = {name: each["default"] for name, each in inner.items() if "default" in each and name not in value}
    return missing | {name: defaulted(each, inner.get(name, {})) for name, each in value.items()}


@pytest.mark.parametrize("observed", [look(), look(group=None, quorum=None), STALE, AWAY, lost_volume()])
def test_an_api_server_adds_nothing_to_it_so_that_it_is_not_written_again(observed: Observed) -> None:
    status = document(observed)
    version = group_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert defaulted(status, version["properties"]["status"]) == status


def test_times_stay_while_nothing_changes() -> None:
    first = document(STALE)
    later = status_document(looked(STALE), first, name="orders", generation=4, now=NOW + 100)
    assert later == first
    changed = status_document(looked(look()), first, name="orders", generation=4, now=NOW + 100)
    then = first["conditions"][0]["lastTransitionTime"]
    moved = {each["type"] for each in changed["conditions"] if each["lastTransitionTime"] != then}
    assert moved == {"Progressing", "ConfigApplied", "Upgradeable"}


def test_an_operation_says_when_it_began_and_since_when_it_is_in_its_state() -> None:
    first = document(STALE)["operation"]
    earlier = {**first, "state": "Switch", "startedAt": "2020-01-01T00:00:00Z", "stateSince": "2020-01-02T00:00:00Z"}
    other = {**earlier, "type": "Grow"}

    def after(before: dict[str, Any]) -> tuple[str, str]:
        found = status_document(looked(STALE), {"operation": before}, name="orders", generation=4, now=NOW)["operation"]
        return found["startedAt"], found["stateSince"]

    assert after(earlier) == ("2020-01-01T00:00:00Z", first["stateSince"])
    assert after({**earlier, "state": first["state"]}) == ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
    assert after(other) == (first["startedAt"], first["stateSince"])


def test_what_was_remembered_is_read_back() -> None:
    since = document(look())["since"]
    assert read_since({"since": since}) == dict(looked(look()).plan.since)
    assert read_since({"since": {"leader:1@7": "yesterday"}}) == {}
    assert read_since({}) == {}


def test_the_document_says_who_leads_and_what_is_under_way() -> None:
    status = document(STALE)
    assert (status["leader"]["pod"], status["leader"]["epoch"]) == ("orders-broker-0", 7)
    assert (status["phase"], status["inSync"], status["updatedReplicas"]) == ("Updating", "3/3", 2)
    assert (status["operation"]["state"], status["operation"]["pod"]) == ("Restart", "orders-broker-2")
    assert [each["role"] for each in status["brokers"]] == ["Leader", "Follower", "Follower"]
    assert status["disruptionsAllowed"] == 0
    assert document(look())["disruptionsAllowed"] == 1
    learning = group(replicas=(replica(1), replica(2), replica(3, learner=True, lag=GIB)), in_sync=(1, 2))
    entry = document(look(group=learning))["brokers"][2]
    assert (entry["role"], entry["lag"], entry["inSync"]) == ("Learner", "High", False)


def test_a_pause_and_a_refusal_are_shown_with_what_unblocks_them() -> None:
    assert document(look(), reconcile="Off")["phase"] == "Paused"
    status = document(look(4, group=group(4, in_sync=(1, 4))))
    assert status["phase"] == "Blocked"
    (blocked,) = status["blocked"]
    assert blocked["code"] == "BelowMinInSync"
    assert blocked["unblocks"]
