"""The API server's own code takes the definition, and refuses of a BrokerGroup what the models refuse."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unit.operator_spec.documents import CHANGES, DOCUMENTS

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds/brokergroups.logherd.dev.yaml"

# Building the API server's packages takes a while the first time.
pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]


def group(spec: dict[str, Any], name: str = "orders") -> dict[str, Any]:
    return {"apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": {"name": name}, "spec": spec}


def judged(crd_judge: Path, crd: Path, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(each) + "\n" for each in documents)
    done = subprocess.run([crd_judge, crd], input=lines, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_new_groups_are_judged_as_the_models_judge_them(crd_judge: Path) -> None:
    documents = [{"name": str(each), "new": group(each.spec, each.name)} for each in DOCUMENTS]
    for document, answer in zip(DOCUMENTS, judged(crd_judge, CRD, documents), strict=True):
        assert bool(answer["refused"]) == bool(document.refused), answer
        assert answer["pruned"] == []


def test_what_may_not_change_cannot_be_changed(crd_judge: Path) -> None:
    documents = [{"name": str(each), "old": group(each.old), "new": group(each.new)} for each in CHANGES]
    for change, answer in zip(CHANGES, judged(crd_judge, CRD, documents), strict=True):
        assert bool(answer["refused"]) == bool(change.refused), answer
        assert change.refused is None or change.refused in " ".join(answer["refused"])


def test_unknown_fields_are_noticed(crd_judge: Path) -> None:
    (answer,) = judged(crd_judge, CRD, [{"name": "typo", "new": group({"replica": 3})}])
    assert answer["pruned"] == ["spec.replica"]


def test_a_wrong_rule_makes_the_definition_refused(crd_judge: Path, tmp_path: Path) -> None:
    broken = tmp_path / "crd.yaml"
    broken.write_text(CRD.read_text().replace("self.failover.leaseMs >= 3", "self.failover.leasesMs >= 3"))
    done = subprocess.run([crd_judge, broken], input="", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "leasesMs" in done.stderr
