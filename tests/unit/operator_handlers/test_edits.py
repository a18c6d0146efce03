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
