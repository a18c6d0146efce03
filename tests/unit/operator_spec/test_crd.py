"""The published definition: as generated, structural, and each of its rules has a document that breaks it."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from logherd_operator.spec.crd import group_crd
from logherd_operator.spec.document import parse_group
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.rules import RULES
from unit.operator_spec.documents import CHANGES, DOCUMENTS, Document

ROOT = Path(__file__).resolve().parents[3]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crd_tool", ROOT / "tools/crd.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def parts(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from parts(value)
    elif isinstance(node, list):
        for value in node:
            yield from parts(value)


def schema() -> dict[str, Any]:
    found: dict[str, Any] = group_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_the_published_files_are_as_generated() -> None:
    generator = tool()
    assert generator.PLAIN.read_text() == generator.plain(), "run: make crds"
    assert generator.OF_CHART.read_text() == generator.of_chart(), "run: make crds"
    assert generator.VALUES.read_text() == generator.values(), "run: make crds"


def test_the_definition_is_plain_yaml_without_aliases() -> None:
    text = tool().plain()
    assert yaml.safe_load(text) == group_crd()
    assert "&id" not in text


def test_the_schema_is_structural() -> None:
    for part in parts(schema()):
        assert "$ref" not in part
        assert "anyOf" not in part
        assert not ("properties" in part and part.get("type") not in ("object", None)), part
        assert part.get("default", 0) is not None


def test_scale_and_status_are_subresources_and_lists_merge_by_key() -> None:
    version = group_crd()["spec"]["versions"][0]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"
    assert version["subresources"]["status"] == {}
    status = schema()["properties"]["status"]["properties"]
    keys = {name: status[name]["x-kubernetes-list-map-keys"] for name in ("brokers", "blocked", "conditions")}
    assert keys == {"brokers": ["pod"], "blocked": ["code"], "conditions": ["type"]}
    columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
    assert list(columns) == ["Ready", "InSync", "Leader", "Phase", "Age", "Image", "Epoch", "Blocked"]
    for path in columns.values():
        if path.startswith(".status."):
            assert path.removeprefix(".status.").partition(".")[0].partition("[")[0] in status


def test_every_rule_has_a_document_that_it_refuses() -> None:
    said = [each.refused for each in (*DOCUMENTS, *CHANGES) if each.refused]
    unused = [rule for rule in RULES if not any(text in rule.message for text in said)]
    # The messages of these four differ between the two ends; the documents that break them stand there by other words.
    assert {rule.path for rule in unused} <= {"spec.nameService", "spec.compatibilityLevel", "spec.podTemplate.env[]"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_models_refuse_what_the_rules_refuse(document: Document) -> None:
    body = {
        "apiVersion": "logherd.dev/v1alpha1",
        "kind": "BrokerGroup",
        "metadata": {"name": document.name},
        "spec": document.spec,
    }
    text = yaml.safe_dump(body)
    if document.refused is None:
        assert parse_group(text, source="test").metadata.name == document.name
        return
    with pytest.raises(SpecError) as caught:
        parse_group(text, source="test")
    assert document.refused in str(caught.value)
