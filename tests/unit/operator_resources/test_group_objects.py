"""What a group consists of on Kubernetes: golden files, and what must hold of every one of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.resources.broker_config import hot_settings
from logherd_operator.resources.group_objects import render_group
from logherd_operator.resources.pinning import Pinned, pin, roll_hash
from logherd_operator.resources.pods import broker_template
from logherd_operator.resources.site import Shape
from logherd_operator.spec.pods import CONTAINER, OWN_VARIABLES, OWN_VOLUMES
from unit.operator_resources.examples import EVERYTHING, EXAMPLES, GOLDEN, golden_text, rendered, site_of

NAMES = sorted(EXAMPLES)


def objects(name: str) -> list[dict[str, Any]]:
    found = rendered(name)
    return [*found.made_once, *found.kept]


def of_kind(name: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in objects(name) if each["kind"] == kind]


def templates(name: str) -> Iterator[dict[str, Any]]:
    for each in of_kind(name, "StatefulSet"):
        yield each["spec"]["template"]


@pytest.mark.parametrize("name", NAMES)
def test_the_objects_are_as_they_were_reviewed(name: str) -> None:
    kept = (GOLDEN / f"{name}.yaml").read_text()
    assert golden_text(name) == kept, "look at the difference; python -m unit.operator_resources.examples writes it"


def test_what_a_template_may_not_be_called_is_what_each_pod_has() -> None:
    (workload,) = [each for each in of_kind("default", "StatefulSet") if each["metadata"]["name"].endswith("-broker")]
    spec = workload["spec"]
    pod = spec["template"]["spec"]
    claims = [each["metadata"]["name"] for each in spec["volumeClaimTemplates"]]
    assert sorted([*claims, *(each["name"] for each in pod["volumes"])]) == sorted(OWN_VOLUMES)
    (container,) = pod["containers"]
    assert container["name"] == CONTAINER
    assert {each["name"] for each in container["env"] if "valueFrom" in each} == set(OWN_VARIABLES)


@pytest.mark.parametrize("name", NAMES)
def test_no_two_groups_of_a_namespace_can_have_an_object_of_one_name(name: str) -> None:
    """Whatever they are called: `orders-spark` and its `-template` would be `orders` and its `-spark-template`."""
    ends = {(each["kind"], each["metadata"]["name"].removeprefix("orders-")) for each in objects(name)}
    shared = [
        (kind, end, long) for kind, end in ends for other, long in ends if kind == other and long.endswith(f"-{end}")
    ]
    assert shared == []


@pytest.mark.parametrize("name", NAMES)
def test_every_object_is_a_child_of_the_group_and_has_a_name_of_its_own(name: str) -> None:
    for each in objects(name):
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("BrokerGroup", "6f1c", True)
        assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "logherd-operator"
        assert "finalizers" not in each["metadata"]
    names = [(each["kind"], each["metadata"]["name"]) for each in objects(name)]
    assert len(set(names)) == len(names)
    assert all(len(each[1]) <= 63 for each in names)


@pytest.mark.parametrize("name", NAMES)
def test_pods_meet_the_restricted_profile(name: str) -> None:
    for template in templates(name):
        pod = template["spec"]
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert all("hostPath" not in volume for volume in pod["volumes"])
        assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)
        for container in pod["containers"]:
            if container["name"] == "agent":
                continue
            inner = container["securityContext"]
            assert inner["allowPrivilegeEscalation"] is False
            assert inner["readOnlyRootFilesystem"] is True
            assert inner["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", NAMES)
def test_h18_only_the_keeper_of_the_leaders_endpoint_has_a_token_and_for_one_object_only(name: str) -> None:
    for template in templates(name):
        assert template["spec"]["automountServiceAccountToken"] is False
        for container in template["spec"]["containers"]:
            has = any(mount["name"] == "leader-endpoint-token" for mount in container.get("volumeMounts", []))
            assert has == (container["name"] == "leader-endpoint")
    for role in of_kind(name, "Role"):
        (rule,) = role["rules"]
        assert rule["resourceNames"] == ["orders-leader"]
        assert rule["verbs"] == ["get", "patch"]


@pytest.mark.parametrize("name", NAMES)
def test_stateful_sets_restart_nothing_by_themselves_and_keep_volumes(name: str) -> None:
    for each in of_kind(name, "StatefulSet"):
        spec = each["spec"]
        assert spec["updateStrategy"] == {"type": "OnDelete"}
        assert spec["podManagementPolicy"] == "Parallel"
        assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("name", NAMES)
def test_every_pod_is_covered_by_at_most_one_budget(name: str) -> None:
    budgets = [each["spec"]["selector"]["matchLabels"] for each in of_kind(name, "PodDisruptionBudget")]
    for template in templates(name):
        labels = template["metadata"]["labels"].items()
        assert sum(budget.items() <= labels for budget in budgets) <= 1
    if name == "single":
        assert budgets == []


@pytest.mark.parametrize("name", NAMES)
def test_no_probe_runs_a_command_and_the_leaders_service_has_no_selector(name: str) -> None:
    for template in templates(name):
        for container in template["spec"]["containers"]:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert "exec" not in container.get(probe, {})
    found = [each for each in of_kind(name, "Service") if each["metadata"]["name"] == "orders-leader"]
    if not site_of(EXAMPLES[name][0]).group.spec.by_controllers:
        assert found == [], "nobody would keep its endpoint"
        return
    (leader,) = found
    assert "selector" not in leader["spec"]


def test_scaling_changes_no_file_of_a_running_broker_but_learners_to_come() -> None:
    def files(brokers: int, first_learner: int | None) -> dict[str, str]:
        shape = Shape(brokers=brokers, controllers=3, first_learner=first_learner)
        found = render_group(site_of({}), shape).kept
        (files,) = [each["data"] for each in found if each["metadata"]["name"] == "orders-broker-config"]
        return dict(files)

    founding, settled, larger = files(3, None), files(3, 3), files(5, 3)
    assert len(founding) == 7
    assert settled == larger
    assert [name for name in founding if founding[name] != settled[name]] == [
        f"orders-broker-{n}.json" for n in (3, 4, 5, 6)
    ]
    assert json.loads(settled["orders-broker-3.json"])["replication"]["learner"] is True


def test_a_newer_operator_restarts_nothing() -> None:
    site = site_of({})
    old = {"metadata": {"annotations": {}}, "spec": {"containers": ["as an older operator made it"]}}
    before = Pinned(template=old, roll_hash=roll_hash(site, "broker"), rendered_by="1.0.0")
    kept = pin(replace(site, operator_version="2.0.0"), "broker", broker_template(site), before)
    assert (kept.template, kept.rendered_by, kept.newer) == (old, "1.0.0", True)
    eager = site_of({"update": {"adoptNewTemplate": "Automatic"}})
    assert pin(eager, "broker", broker_template(eager), before).template != old


@pytest.mark.parametrize(
    ("change", "rolls"),
    [
        ({"image": "logherd:2"}, True),
        ({"replication": {"flush": "Async"}}, True),
        ({"config": {"maxMessageSize": "1"}}, True),
        ({"config": {"unknownKey": "1"}}, True),
        ({"config": {"fileReservedTime": "1"}}, False),
        ({"replicas": 5}, False),
        ({"replication": {"minInSyncReplicas": 1}}, False),
        ({"podTemplate": {"labels": {"a": "b"}}}, False),
        ({"storage": {"size": "30Gi"}}, False),
        ({"storage": {"reservedPercent": 11}}, False),
        ({"replication": {"lagTimeoutMs": 2000}}, False),
        ({"failover": {"heartbeatIntervalMs": 700}}, False),
        ({"config": {"flushIntervalCommitLog": "50"}}, False),
        ({"config": {"maxMessageSize": "65536"}}, True),
        ({"placement": {"hostSpread": "Required"}}, False),
        ({"resources": {"limits": {"memory": "2Gi"}}}, True),
    ],
)
def test_a_restart_comes_from_what_needs_one_and_from_nothing_else(change: dict[str, Any], rolls: bool) -> None:
    assert (roll_hash(site_of(change), "broker") != roll_hash(site_of({}), "broker")) is rolls


def test_hot_settings_are_those_that_a_running_broker_takes() -> None:
    hot = hot_settings(site_of(EVERYTHING).group)
    assert hot["fileReservedTime"] == "96"
    assert "mappedFileSizeCommitLog" not in hot
    assert hot.keys() == {
        "replication.heartbeat", "replication.lagTimeout", "store.reservedPercent", "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable", "fileReservedTime", "flushIntervalCommitLog",
    }  # fmt: skip


def test_a_number_of_too_many_digits_is_left_for_the_brokers_to_refuse() -> None:
    digits = "9" * 5000
    assert hot_settings(site_of({"config": {"fileReservedTime": digits}}).group)["fileReservedTime"] == digits


def test_a_key_that_says_the_same_as_a_field_wins_over_it() -> None:
    hot = hot_settings(site_of({"config": {"diskMaxUsedSpaceRatio": "80"}}).group)
    assert hot["diskMaxUsedSpaceRatio"] == "80"
    assert "store.reservedPercent" not in hot


def test_the_size_of_new_volumes_changes_only_with_a_new_stateful_set() -> None:
    claims = {
        each["metadata"]["name"]: each["spec"]["volumeClaimTemplates"][0]
        for each in of_kind("everything", "StatefulSet")
    }
    assert claims["orders-broker"]["spec"]["resources"]["requests"]["storage"] == "50Gi"
    assert claims["orders-controller"]["spec"]["resources"]["requests"]["storage"] == "2Gi"
