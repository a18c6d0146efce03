"""Every action as the calls that carry it out, with what they expect to find."""

from typing import Any

import pytest

from logherd_operator.cluster.calls import _CALLS, At, Call, calls_of, refused_settings
from logherd_operator.plan import actions as act
from unit.operator_resources.examples import site_of

SITE = site_of({"clusterName": "shop"})
VERSIONS = {"orders-broker": "17", "orders-controller": "18"}


def calls(action: act.Action) -> tuple[Call, ...]:
    return calls_of(action, At(SITE, VERSIONS))


def test_every_action_has_its_calls() -> None:
    named = {getattr(act, name) for name in act.__all__} - {act.Action, act.RestartReason}
    assert named == set(_CALLS)


def test_a_serving_pod_is_evicted_and_another_deleted_each_by_its_uid() -> None:
    def restart(*, serving: bool) -> Call:
        (call,) = calls(act.Restart(
            component="broker", ordinal=2, uid="u", why=act.RestartReason.SPEC_CHANGED, serving=serving, reason="r",
        ))  # fmt: skip
        return call

    evicted, deleted = restart(serving=True), restart(serving=False)
    assert evicted.path == "/api/v1/namespaces/shop/pods/orders-broker-2/eviction"
    assert evicted.body["deleteOptions"] == {"preconditions": {"uid": "u"}}
    assert (deleted.method, deleted.path) == ("DELETE", "/api/v1/namespaces/shop/pods/orders-broker-2")
    assert deleted.body["preconditions"] == {"uid": "u"}


def test_places_change_by_the_version_that_was_seen() -> None:
    (more,) = calls(act.SetMembers(component="broker", count=4, before=3, reason="r"))
    (fewer,) = calls(act.RemoveMember(ordinal=3, count=3, uid="u", reason="r"))
    for call, count in ((more, 4), (fewer, 3)):
        assert call.path == "/apis/apps/v1/namespaces/shop/statefulsets/orders-broker"
        assert call.body == {"metadata": {"resourceVersion": "17"}, "spec": {"replicas": count}}
        assert call.content_type == "application/merge-patch+json"
    assert calls(act.SetMembers(component="broker", count=3, before=None, reason="r")) == ()


def test_volumes_are_named_by_uid_and_claims_renewed_without_stopping_a_pod() -> None:
    (grow,) = calls(act.GrowVolume(component="broker", ordinal=1, uid="v", size=5, reason="r"))
    assert grow.path.endswith("/persistentvolumeclaims/data-orders-broker-1")
    assert grow.body == {"metadata": {"uid": "v"}, "spec": {"resources": {"requests": {"storage": "5"}}}}
    (delete,) = calls(act.DeleteVolume(ordinal=4, uid="v", reason="r"))
    assert delete.body["preconditions"] == {"uid": "v"}
    (renew,) = calls(act.RenewClaims(component="broker", size=5, reason="r"))
    assert renew.body["propagationPolicy"] == "Orphan"
    assert renew.body["preconditions"] == {"resourceVersion": "17"}
    claim, pod = calls(act.Rebuild(ordinal=1, uid="p", volume_uid="v", reason="r"))
    assert claim.body["preconditions"] == {"uid": "v"}
    assert pod.body["preconditions"] == {"uid": "p"}
    assert len(calls(act.Rebuild(ordinal=1, uid="", volume_uid="v", reason="r"))) == 1


@pytest.mark.parametrize(
    ("action", "path"),
    [
        (act.Switchover(target=2, expected_epoch=7, request_id="q", reason="r"), "/groups/shop/orders/elect"),
        (act.Forget(broker_id=4, expected_epoch=7, reason="r"), "/groups/shop/orders/forget"),
        (act.TransferQuorum(node="c1", reason="r"), "/quorum/transfer"),
    ],
)
def test_the_controllers_are_told_at_their_admin_port(action: act.Action, path: str) -> None:
    (call,) = calls(action)
    assert (call.target, call.method, call.path) == ("controllers", "POST", path)


def test_a_broker_is_told_at_its_own() -> None:
    (call,) = calls(act.PushConfig(ordinal=1, values={"fileReservedTime": "48"}, reason="r"))
    assert (call.target, call.path, call.body) == (1, "/config", {"values": {"fileReservedTime": "48"}})


def test_a_leader_that_no_controllers_elected_is_asked_itself() -> None:
    action = act.Switchover(target=2, expected_epoch=7, request_id="q", leader=3, reason="r")
    (call,) = calls(action)
    assert (call.target, call.path, call.body) == (2, "/replica/hand-over", {"brokerId": 2, "expectedEpoch": 7})
    (call,) = calls(act.LeaveOut(ordinal=1, values={"replication.raft.members": "1,2"}, reason="r"))
    assert (call.target, call.path, call.body) == (1, "/config", {"values": {"replication.raft.members": "1,2"}})


def test_a_promotion_names_the_table_that_it_replaces_to_the_broker_that_is_to_lead() -> None:
    (call,) = calls(act.TakeLead(target=2, after=4, synchronous=(1, 3), copies=2, reason="r"))
    assert (call.target, call.path) == (1, "/replica/promote")
    assert call.body == {"after": 4, "synchronous": [1, 3], "copies": 2}


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"error": "b: cannot be changed", "field": "b"}, ("b=2",)),
        ({"error": "something is wrong"}, ("a=1", "b=2")),
        ({"error": "values", "field": "values"}, ("a=1", "b=2")),
        ({"field": ["b"]}, ("a=1", "b=2")),
    ],
)
def test_of_settings_only_the_one_that_is_named_is_refused(answer: dict[str, Any], refused: tuple[str, ...]) -> None:
    assert refused_settings({"b": "2", "a": "1"}, answer) == refused
