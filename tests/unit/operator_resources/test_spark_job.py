"""What is rendered for Spark jobs: golden files, Kubernetes' own schema, and what must hold of every pod and account.

`python -m unit.operator_resources.test_spark_job` renews the golden files.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.schema import faults, faults_of_pod_template
from logherd_operator.resources.spark_job import job_files
from logherd_operator.resources.spark_template import job_objects, spark_job_of, spark_template
from logherd_operator.spec.errors import SpecError
from unit.operator_resources.examples import GOLDEN, site_of

WAYS = ("submit", "kubeflow", "apache")
JOB = replace(spark_job_of(site_of({})), config_map="orders-flights-job")


def golden_text(way: str) -> str:
    return str(yaml.safe_dump_all(job_objects(JOB, way), sort_keys=False, width=120))


def golden_path(way: str) -> Path:
    return GOLDEN / "spark" / f"{way}.yaml"


def pods() -> list[dict[str, Any]]:
    """Templates of the submitting pod, the driver and the executors."""
    files = {name: yaml.safe_load(text) for name, text in job_files(JOB).items() if name.endswith("-pod.yaml")}
    return [job_objects(JOB, "submit")[-1]["spec"]["template"], files["driver-pod.yaml"], files["executor-pod.yaml"]]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_rendered_as_reviewed(way: str) -> None:
    kept = golden_path(way).read_text()
    assert golden_text(way) == kept, "look at the difference; python -m unit.operator_resources.test_spark_job"


@pytest.mark.parametrize("way", WAYS)
def test_an_api_server_knows_every_field(way: str) -> None:
    for each in job_objects(JOB, way):
        assert faults(each) == [], each["kind"]


@pytest.mark.parametrize("way", WAYS)
def test_properties_that_were_asked_for_win(way: str) -> None:
    name = "spark.task.maxFailures"
    asked = replace(JOB, conf={name: "3"})
    files, job = (each for each in job_objects(asked, way) if each["kind"] in ("ConfigMap", "Job", "SparkApplication"))
    said = job["spec"].get("sparkConf", {})
    assert said == {} if way == "submit" else said[name] == "3"
    assert f"{name} 3\n" in files["data"]["spark-defaults.conf"]
    assert f"{name} 8\n" not in files["data"]["spark-defaults.conf"]


@pytest.mark.parametrize(
    ("value", "line"),
    [(r"(?i)secret|\d+", r"(?i)secret|\\d+"), ("=a", r"\=a"), (":a", r"\:a"), (" a b", r"\ a b"), ("a\nb", r"a\nb"),
     ("-Da=b -Dc=d:e", "-Da=b -Dc=d:e"), ("#a", "#a"), ("a\r\tb", r"a\r\tb"), ("", "")],
)  # fmt: skip
def test_a_property_is_read_back_as_it_was_asked_for(value: str, line: str) -> None:
    """By java.util.Properties, for which a backslash begins something, and what separates a value is not part of it."""
    text = job_files(replace(JOB, conf={"spark.redaction.regex": value}))["spark-defaults.conf"]
    assert f"spark.redaction.regex {line}\n" in text


def test_an_api_server_knows_every_field_of_the_files() -> None:
    documents = [
        document for name, text in job_files(JOB).items() if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
    ]  # fmt: skip
    assert len(documents) == 11
    assert [found for each in documents for found in faults(each)] == []


def test_an_unknown_field_a_wrong_type_and_a_missing_field_are_noticed() -> None:
    job = job_objects(JOB, "submit")[-1]
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolitics"] = "Never"
    job["spec"]["backoffLimit"] = "2"
    del job["metadata"]["namespace"], job["spec"]["template"]["spec"]["containers"][0]["name"]
    found = " ".join(faults(job))
    assert "imagePullPolitics: unknown field" in found
    assert ".spec.backoffLimit: Input should be a valid integer" in found
    assert "containers.0.name: Field required" in found


def test_every_pod_is_restricted_and_may_reach_the_group() -> None:
    for pod in pods():
        context = pod["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 185)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
    _, driver, executor = pods()
    for pod in (driver, executor):
        assert pod["metadata"]["labels"]["logherd.dev/client"] == "true"
        assert faults_of_pod_template({name: pod[name] for name in ("metadata", "spec")}) == []
    assert executor["spec"]["automountServiceAccountToken"] is False


def test_what_spark_sets_itself_is_not_in_the_templates() -> None:
    for pod in pods()[1:]:
        assert not {"serviceAccountName", "restartPolicy"} & set(pod["spec"])
        assert "name" not in pod["metadata"]


def test_no_account_has_rights_on_what_is_not_sparks() -> None:
    rules = [rule for each in job_objects(JOB, "submit") if each["kind"] == "Role" for rule in each["rules"]]
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "configmaps", "services"}
    assert {group for rule in rules for group in rule["apiGroups"]} == {""}
    assert "*" not in {verb for rule in rules for verb in rule["verbs"]}


ASKED = {
    "logherd-spark": {
        "pods": {"create", "get", "list", "watch", "delete", "deletecollection"},
        "configmaps": {"create", "deletecollection"},
    },
    "logherd-spark-submit": {
        "pods": {"create", "get", "watch"}, "configmaps": {"create", "patch"}, "services": {"create", "patch"},
    },
}  # fmt: skip
"""What Spark asked of a real API server, by its audit log (tests/e2e/test_spark.py looks again). It applies what it
patches, for which the right to create is needed, too; and a driver deletes the pod of an executor that failed."""


def test_each_right_of_an_account_is_one_that_spark_uses() -> None:
    granted = {
        each["metadata"]["name"]: {kind: set(rule["verbs"]) for rule in each["rules"] for kind in rule["resources"]}
        for each in job_objects(JOB, "submit") if each["kind"] == "Role"
    }  # fmt: skip
    assert granted == ASKED


def test_all_ways_name_the_group_the_topic_and_the_same_script() -> None:
    for way in WAYS:
        *_, files, job = job_objects(JOB, way)
        text = yaml.safe_dump(job, width=1000) + files["data"]["spark-defaults.conf"]
        assert "orders-bootstrap.shop.svc.cluster.local:9876" in text
        assert "LOGHERD_TOPIC" in text
        assert "LOGHERD_WRITE_ID" in text
        assert "local:///opt/logherd-job/job.py" in text
        compile(files["data"]["job.py"], "job.py", "exec")


def test_a_retry_of_the_job_is_the_same_write_and_another_job_is_another() -> None:
    (container,) = job_objects(JOB, "submit")[-1]["spec"]["template"]["spec"]["containers"]
    assert "spark.kubernetes.driverEnv.LOGHERD_WRITE_ID=orders-flights-$(JOB_UID)" in container["args"]
    (variable,) = container["env"]
    assert "controller-uid" in variable["valueFrom"]["fieldRef"]["fieldPath"]


@pytest.mark.parametrize("place", ["/tmp/x", "file:///x", "local:///x", "checkpoints", "./x"])
def test_a_checkpoint_on_a_pods_own_disk_is_refused(place: str) -> None:
    with pytest.raises(SpecError, match=re.escape(place)):
        job_files(replace(JOB, checkpoint=place))


def test_a_checkpoint_that_outlives_pods_is_set() -> None:
    properties = job_files(replace(JOB, checkpoint="s3a://b/c"))["spark-defaults.conf"]
    assert "spark.sql.streaming.checkpointLocation s3a://b/c\n" in properties


def test_the_config_map_is_made_only_where_the_spec_asks_for_it() -> None:
    assert spark_template(site_of({})) == []
    (made,) = spark_template(site_of({"spark": {"template": {"enabled": True, "sparkVersion": "4.1.1"}}}))
    assert made["metadata"]["name"] == "orders-spark"
    assert sorted(made["data"]) == [
        "client-mode.md", "driver-pod.yaml", "executor-pod.yaml", "job.py", "rbac.yaml", "spark-defaults.conf",
        "sparkapplication-apache.yaml", "sparkapplication-kubeflow.yaml", "submit-job.yaml",
    ]  # fmt: skip
    assert "sparkVersion: 4.1.1" in made["data"]["sparkapplication-kubeflow.yaml"]
    assert "name: orders-spark\n" in made["data"]["submit-job.yaml"]


if __name__ == "__main__":
    for each in WAYS:
        golden_path(each).write_text(golden_text(each))
        sys.stdout.write(f"{each}\n")
