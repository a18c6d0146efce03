"""What both Spark operators are handed, judged by the API server's own code: Kubeflow's definition is its module's,
Apache's is written down here.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat.toolchain import HERE, module_folder
from k8s.schema import faults_of_pod_template
from logherd_operator.resources.spark_template import job_objects, spark_job_of
from unit.operator_resources.examples import site_of

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]
KUBEFLOW = (
    "github.com/kubeflow/spark-operator/v2@v2.5.2",
    "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
)


def definition(way: str) -> Path:
    return HERE / "spark_apache.yaml" if way == "apache" else module_folder(KUBEFLOW[0]) / KUBEFLOW[1]


def application(way: str) -> dict[str, Any]:
    return job_objects(spark_job_of(site_of({})), way)[-1]


def judged(judge: Path, way: str, document: dict[str, Any]) -> dict[str, Any]:
    line = json.dumps({"name": way, "new": document})
    done = subprocess.run(
        [judge, definition(way)], input=line, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("way", ["kubeflow", "apache"])
def test_the_operators_definition_takes_what_is_rendered(crd_judge: Path, way: str) -> None:
    answer = judged(crd_judge, way, application(way))
    assert (answer["refused"], answer["pruned"]) == ([], [])


@pytest.mark.parametrize("way", ["kubeflow", "apache"])
def test_a_wrong_field_would_be_noticed(crd_judge: Path, way: str) -> None:
    document = application(way)
    document["spec"]["drivers"] = 1
    document["spec"]["sparkConf"]["spark.executor.instances"] = 2
    answer = judged(crd_judge, way, document)
    assert answer["pruned"] == ["spec.drivers"]
    assert "spec.sparkConf.spark.executor.instances" in " ".join(answer["refused"])


def test_pod_templates_for_apaches_operator_are_pod_templates() -> None:
    spec = application("apache")["spec"]
    for part in ("driverSpec", "executorSpec"):
        assert faults_of_pod_template(spec[part]["podTemplateSpec"]) == []
