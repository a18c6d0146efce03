"""What others say in a pod template, as people read it."""

from typing import Any

import pytest

from logherd_operator.handlers.edits import edits_of

BROKER, DEBUG = 'k:{"name":"broker"}', 'k:{"name":"DEBUG"}'
OURS: dict[str, Any] = {
    "f:metadata": {"f:annotations": {"f:logherd.dev/roll-hash": {}}},
    "f:spec": {"f:containers": {BROKER: {".": {}, "f:name": {}, "f:image": {}, "f:env": {}}}},
}


def record(manager: str, template: dict[str, Any], operation: str = "Update") -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:template": template}}}


APPLIED = record("logherd-operator", OURS, "Apply")
SCALED = {"manager": "logherd-operator", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"f:metadata": {"f:annotations": {".": {}, "f:team": {}}}}, "metadata.annotations.team"),
        (
            {"f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/restartedAt": {}}}},
            "metadata.annotations[kubectl.kubernetes.io/restartedAt]",
        ),
        (
            {"f:spec": {"f:containers": {BROKER: {"f:env": {DEBUG: {".": {}, "f:name": {}, "f:value": {}}}}}}},
            "spec.containers[broker].env[DEBUG]",
        ),
        (
            {"f:spec": {"f:containers": {'k:{"name":"shipper"}': {".": {}, "f:image": {}}}, "f:initContainers": {}}},
            "spec.containers[shipper], spec.initContainers",
        ),
        ({"f:spec": {"f:containers": {BROKER: {"f:image": {}}}}}, ""),
        ({}, ""),
    ],
)
def test_what_others_add_is_named_and_what_we_say_too_is_not(template: dict[str, Any], told: str) -> None:
    assert edits_of({"managedFields": [SCALED, APPLIED, record("kubectl-edit", template)]}) == (
        f"kubectl-edit: {told}" if told else ""
    )


def test_who_says_nothing_of_the_template_is_not_named() -> None:
    status = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:status": {"f:replicas": {}}}}
    assert edits_of({"managedFields": [APPLIED, status]}) == edits_of({}) == ""


def test_what_the_api_server_fills_in_is_nobodys_where_the_whole_object_was_written_back() -> None:
    """As with `kubectl replace`, which is recorded as having said all of it."""
    probe = {"f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {}, "f:failureThreshold": {}}
    ours = {"f:spec": {"f:containers": {BROKER: {"f:name": {}, "f:readinessProbe": {".": {}, "f:httpGet": {}}}}}}
    filled: dict[str, Any] = {
        ".": {}, "f:name": {}, "f:imagePullPolicy": {}, "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {}, "f:readinessProbe": {".": {}, "f:httpGet": {"f:scheme": {}}, **probe},
    }  # fmt: skip
    pod: dict[str, Any] = {"f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}}
    applied = record("logherd-operator", ours, "Apply")
    replaced = record("kubectl-replace", {"f:spec": {"f:containers": {BROKER: filled}, **pod}})
    assert edits_of({"managedFields": [applied, replaced]}) == ""
    filled["f:stdin"] = {}
    replaced["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:securityContext"] = {"f:runAsUser": {}}
    assert edits_of({"managedFields": [applied, replaced]}) == (
        "kubectl-replace: spec.containers[broker].stdin, spec.securityContext"
    )


def test_what_was_there_before_anybody_applied_is_nobodys_and_a_manager_may_have_no_name() -> None:
    team: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:team": {}}}}
    assert edits_of({"managedFields": [APPLIED, record("before-first-apply", team)]}) == ""
    nameless = {name: each for name, each in record("", team).items() if name != "manager"}
    assert edits_of({"managedFields": [APPLIED, nameless]}) == "(unnamed): metadata.annotations.team"
