"""The CustomResourceDefinition of BrokerGroup, made from the models, so that the two cannot disagree."""

from typing import Any

from logherd_operator.spec.group import API_GROUP, KIND, VERSION, BrokerGroupSpec
from logherd_operator.spec.group_status import BrokerGroupStatus
from logherd_operator.spec.rules import RULES
from logherd_operator.spec.schema import Schema, filled, schema_of

__all__ = ["CRD_NAME", "PLURAL", "SCHEMA_VERSION", "group_crd"]

PLURAL = "brokergroups"
CRD_NAME = f"{PLURAL}.{API_GROUP}"
SCHEMA_VERSION = "1"
"""Raised with each change of the schema that the operator needs; it does nothing under an older one (OP-120)."""

_LIST_KEYS = {"brokers": "pod", "blocked": "code", "conditions": "type"}
_READY = '.status.conditions[?(@.type=="Available")].status'
_COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("Ready", "string", _READY, 0),
    ("InSync", "string", ".status.inSync", 0),
    ("Leader", "string", ".status.leader.pod", 0),
    ("Phase", "string", ".status.phase", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Image", "string", ".status.versions.image", 1),
    ("Epoch", "integer", ".status.leader.epoch", 1),
    ("Blocked", "string", ".status.blocked[*].code", 1),
)


def group_crd() -> dict[str, Any]:
    """The whole document. Complete without a webhook: bounds, patterns, relations and what may not change."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME, "annotations": {f"{API_GROUP}/schema-version": SCHEMA_VERSION}},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["lbg"],
                "categories": ["logherd"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "priority": priority}
            for name, kind, path, priority in _COLUMNS
        ],
    }


def _schema() -> Schema:
    spec = schema_of(BrokerGroupSpec)
    status = schema_of(BrokerGroupStatus)
    for name, key in _LIST_KEYS.items():
        status["properties"][name] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    schema: Schema = {
        "type": "object",
        "description": "One replication group of brokers.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {**spec, "default": filled({}, spec)},
            "status": status,
        },
    }
    for rule in RULES:
        place = _at(schema, rule.path)
        place.setdefault("x-kubernetes-validations", []).append({"rule": rule.expression, "message": rule.message})
    return schema


def _at(schema: Schema, path: str) -> Schema:
    for part in filter(None, path.split(".")):
        schema = schema["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema
