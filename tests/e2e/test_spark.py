"""The Spark job that `logherd operator spark-job` prints, in cluster mode on two nodes, while the leader's pod goes."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from e2e.cluster.images import Image, base_layer, file_of, layer_of_files
from e2e.cluster.kube import eventually
from e2e.orders import GROUP, NAMES, NAMESPACE, manifest
from e2e.scene import FIRST, Scene, spark_layers

pytestmark = [pytest.mark.timeout(1800, func_only=True)]
_IMAGE = "docker.io/local/logherd-spark:1"
_TOPIC, _QUEUES, _ROWS = "flights", 8, 336_776
_DOCKERFILE = Path(__file__).parents[2] / "images" / "spark" / "Dockerfile"
_USER = next(line.split("'")[1] for line in _DOCKERFILE.read_text().splitlines() if "/etc/passwd" in line)
_SMALL = {
    # Two nodes of two processors have less to give than Spark asks for, one whole processor for each pod.
    "spark.kubernetes.driver.request.cores": "200m", "spark.kubernetes.executor.request.cores": "200m",
}  # fmt: skip


def spark_image(folder: Path) -> Image:
    """As `images/spark/Dockerfile` makes it."""
    users = layer_of_files(folder, {"etc/passwd": f"{file_of(base_layer(), './etc/passwd')}{_USER}\n"})
    python = "/opt/logherd/bin/python3"
    return Image(
        name=_IMAGE, layers=[*spark_layers(), users], user="185:185",
        entrypoint=["/usr/bin/tini", "-s", "--", "/opt/logherd/bin/spark-entrypoint"],
        environment=[f"PYSPARK_PYTHON={python}", f"PYSPARK_DRIVER_PYTHON={python}"],
    )  # fmt: skip


def test_spark_writes_each_flight_once_while_the_leaders_pod_is_deleted(scene: Scene, tmp_path: Path) -> None:
    orders, cluster = scene.orders, scene.cluster
    cluster.load([spark_image(tmp_path)])
    _make_topic(scene)
    file = tmp_path / "group.yaml"
    file.write_text(manifest(FIRST))
    with scene.during("Spark job; pod of the leader deleted", seconds=600) as row:
        cluster.kubectl("apply", "-f", "-", text=_printed(file))
        eventually(
            lambda: scene.stored(_TOPIC, _QUEUES) > _ROWS // 20, "Spark writes", seconds=600, pause=1,
            words=lambda: _words(scene),
        )  # fmt: skip
        epoch = orders.epoch
        orders.delete_pod(orders.leader())
        orders.wait_for_epoch(epoch)
        (stored,) = eventually(lambda: (scene.stored(_TOPIC, _QUEUES),), "the new leader says what it has")
        assert stored < _ROWS, "the leader went when all was written"
        eventually(lambda: _ended(scene), "the driver ends", seconds=900, pause=1, words=lambda: _words(scene))
    said = cluster.kubectl("-n", NAMESPACE, "logs", "-l", f"spark-role=driver,{_JOB_LABEL}", "--tail=-1")
    assert f"sent {_ROWS} stored {_ROWS} lost 0 duplicated 0" in said, said[-3000:]
    assert scene.stored(_TOPIC, _QUEUES) == _ROWS
    # Spark takes what there is of two processors: what is judged is that it loses and repeats nothing.
    assert row[0].gap < 60


_WHEN_AN_EXECUTOR_FAILS = {("delete", "pods")}
"""Rights that the driver of an undisturbed job does not use."""
_JOB_LABEL = f"app.kubernetes.io/instance={GROUP}-flights"


def _make_topic(scene: Scene) -> None:
    told = scene.driver.call(
        "mqadmin",
        command=[
            "updateTopic", "-n", NAMES, "-c", GROUP, "-t", _TOPIC, "-r", str(_QUEUES), "-w", str(_QUEUES),
        ],
    )  # fmt: skip
    assert "success" in told["out"], told


def _printed(file: Path) -> str:
    command = [sys.executable, "-m", "logherd", "operator", "spark-job", "-f", str(file)]
    command += ["--namespace", NAMESPACE, "--image", _IMAGE, "--executors", "2", "--topic", _TOPIC]
    command += [part for name, value in _SMALL.items() for part in ("--conf", f"{name}={value}")]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def _ended(scene: Scene) -> bool:
    """The Job is done when spark-submit is, which waits for the driver."""
    status = scene.cluster.kube.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{GROUP}-flights").get("status", {})
    failed = [each for each in status.get("conditions", ()) if each["type"] == "Failed" and each["status"] == "True"]
    assert not failed, _words(scene)
    return bool(status.get("succeeded"))


def _words(scene: Scene) -> str:
    told = [scene.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide")]
    labels = (f"spark-role=driver,{_JOB_LABEL}", f"spark-role=executor,{_JOB_LABEL}", f"job-name={GROUP}-flights")
    for label in labels:
        with suppress(RuntimeError):  # nothing is said by a pod that has not begun
            told.append(scene.cluster.kubectl("-n", NAMESPACE, "logs", "-l", label, "--tail=30"))
    return "\n".join([time.strftime("%X"), *told])


def test_the_accounts_of_the_spark_job_are_refused_nothing_and_have_no_right_too_many(
    scene: Scene, tmp_path: Path
) -> None:
    file = tmp_path / "group.yaml"
    file.write_text(manifest(FIRST))
    for account, rights in rights_of(_printed(file)).items():
        asked = scene.cluster.asked(f"system:serviceaccount:{NAMESPACE}:{account}")
        assert {each for each in asked if each.status == 403} == set()
        used = {(each.verb, each.what) for each in asked}
        applied = {("create", kind) for verb, kind in used if verb == "patch"}
        assert rights - used - applied <= _WHEN_AN_EXECUTOR_FAILS, account


def rights_of(printed: str) -> dict[str, set[tuple[str, str]]]:
    """What each account of the job may do, as (verb, kind)."""
    roles = [each for each in yaml.safe_load_all(printed) if each and each["kind"] == "Role"]
    return {
        each["metadata"]["name"]: {
            (verb, kind) for rule in each["rules"] for kind in rule["resources"] for verb in rule["verbs"]
        }
        for each in roles
    }  # fmt: skip
