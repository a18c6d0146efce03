"""A Spark job beside a group: what `spark-submit` is started with, and what both Spark operators take.

The driver finds the leader by the name service, through the group's bootstrap Service, and follows it when it changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from logherd_operator.resources.site import Document
from logherd_operator.resources.spark_access import SUBMITTER, access
from logherd_operator.resources.spark_texts import CLIENT_MODE, FLIGHTS_JOB
from logherd_operator.spec.errors import SpecError

__all__ = ["JOB_DIR", "SparkJob", "apache_application", "job_files", "kubeflow_application", "submit_job"]

JOB_DIR: Final = "/opt/logherd-job"
_USER = 185
_PYTHON = "/opt/logherd/bin/python3"
_MAIN = f"local://{JOB_DIR}/job.py"
_CLIENT = {"logherd.dev/client": "true"}
_POD_DISKS = ("file:", "local:")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """`config_map` holds the files of `job_files`. `checkpoint`: where streams keep theirs; batch jobs need none.
    `conf`: properties of Spark which win over ours, as sizes of driver and executors.
    """

    name: str
    namespace: str
    image: str
    spark_version: str
    account: str
    config_map: str
    bootstrap: str
    topic: str
    executors: int = 2
    checkpoint: str = ""
    script: str = FLIGHTS_JOB
    conf: Mapping[str, str] = field(default_factory=dict)

    def labels(self) -> dict[str, str]:
        """Of everything that is made for the job."""
        return {"app.kubernetes.io/name": "logherd-spark", "app.kubernetes.io/instance": self.name}

    def metadata(self, name: str) -> Document:
        """Of an object in the job's namespace."""
        return {"name": name, "namespace": self.namespace, "labels": self.labels()}


def job_files(job: SparkJob) -> dict[str, str]:
    """What the ConfigMap holds: what the job runs with, and every way to start it.

    Raises: SpecError for a checkpoint that would go with its pod.
    """
    _check_checkpoint(job.checkpoint)
    properties = {**_shared(job), **_submitted(job), **job.conf}
    facts = {"account": job.account, "name": job.name, "namespace": job.namespace, "image": job.image}
    return {
        "job.py": job.script,
        "spark-defaults.conf": "".join(f"{name} {_escaped(value)}\n" for name, value in properties.items()),
        "driver-pod.yaml": _text(_pod(driver_template(job))),
        "executor-pod.yaml": _text(_pod(executor_template(job))),
        "rbac.yaml": _text(*access(job.account, job.namespace)),
        "submit-job.yaml": _text(submit_job(job)),
        "sparkapplication-kubeflow.yaml": _text(kubeflow_application(job)),
        "sparkapplication-apache.yaml": _text(apache_application(job)),
        "client-mode.md": CLIENT_MODE.format(**facts, directory=JOB_DIR),
    }


def _escaped(value: str) -> str:
    """As java.util.Properties reads it back: it takes a backslash away, and what may stand between name and value."""
    text = value.translate(_ESCAPES)
    return f"\\{text}" if text.startswith((" ", "=", ":")) else text


def _check_checkpoint(place: str) -> None:
    if place.startswith(_POD_DISKS) or (place and "://" not in place):
        raise SpecError(
            f"the checkpoint {place} would be on a pod's own disk and go with it, and the stream would begin anew; "
            "give a place that outlives pods, such as s3a://bucket/path or hdfs://host/path"
        )


# ---- what all ways share ----


def _shared(job: SparkJob) -> dict[str, str]:
    checkpoint = {"spark.sql.streaming.checkpointLocation": job.checkpoint} if job.checkpoint else {}
    return {
        # A task that meets a change of leader waits for it; one whose executor is lost is run again.
        "spark.task.maxFailures": "8",
        # Repeated tasks are recognised, so speculation would be harmless, and useless: it writes everything twice.
        "spark.speculation": "false",
        "spark.pyspark.python": _PYTHON,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        # Spark 4.3 makes a NetworkPolicy for its executors. Whoever submits would need the right to change any, of the
        # brokers, too, and is refused without it.
        "spark.kubernetes.driver.pod.excludedFeatureSteps": (
            "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
        ),
        # These three keep the driver's rights small; what is left behind goes with the driver's pod.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        **checkpoint,
        **{
            f"{prefix}{name}": value
            for prefix in ("spark.kubernetes.driverEnv.", "spark.executorEnv.")
            for name, value in _environment(job).items()
        },
    }


def _environment(job: SparkJob) -> dict[str, str]:
    return {"LOGHERD_BOOTSTRAP": job.bootstrap, "LOGHERD_TOPIC": job.topic, "LOGHERD_PIPELINE_ID": job.name}


def _submitted(job: SparkJob) -> dict[str, str]:
    return {
        "spark.kubernetes.namespace": job.namespace,
        "spark.kubernetes.container.image": job.image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.authenticate.driver.serviceAccountName": job.account,
        "spark.kubernetes.driver.podTemplateFile": f"{JOB_DIR}/driver-pod.yaml",
        "spark.kubernetes.executor.podTemplateFile": f"{JOB_DIR}/executor-pod.yaml",
        "spark.executor.instances": str(job.executors),
    }


def driver_template(job: SparkJob) -> Document:
    """Of the driver's pod. Names, restart policy and account are Spark's to set."""
    container = {
        "name": "spark-kubernetes-driver", "securityContext": _container_context(),
        "volumeMounts": [{"name": "job", "mountPath": JOB_DIR, "readOnly": True}],
    }  # fmt: skip
    return {
        "metadata": {"labels": {**job.labels(), **_CLIENT}},
        "spec": {
            "automountServiceAccountToken": True, "securityContext": _pod_context(), "containers": [container],
            "volumes": [_volume(job)],
        },
    }  # fmt: skip


def executor_template(job: SparkJob) -> Document:
    """Of an executor's pod: no token, and on different nodes where that can be."""
    labels = {**job.labels(), **_CLIENT, "logherd.dev/spark-executors": job.name}
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"logherd.dev/spark-executors": job.name}},
    }  # fmt: skip
    return {
        "metadata": {"labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": _pod_context(),
            "topologySpreadConstraints": [spread],
            "containers": [{"name": "spark-kubernetes-executor", "securityContext": _container_context()}],
        },
    }


def _pod(template: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", **template}


def _volume(job: SparkJob) -> Document:
    return {"name": "job", "configMap": {"name": job.config_map}}


def _pod_context() -> Document:
    return {
        "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


def _container_context() -> Document:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


# ---- three ways to start it ----


def submit_job(job: SparkJob) -> Document:
    """A Job that runs `spark-submit` in cluster mode. A retry has the same write id, so no row is stored twice."""
    container = {
        "name": "submit",
        "image": job.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "spark-submit", "--master", "k8s://https://kubernetes.default.svc", "--deploy-mode", "cluster",
            "--name", job.name, "--properties-file", f"{JOB_DIR}/spark-defaults.conf",
            "--conf", f"spark.kubernetes.driverEnv.LOGHERD_WRITE_ID={job.name}-$(JOB_UID)", _MAIN,
        ],
        "env": [{
            "name": "JOB_UID",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}},
        }],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _container_context(),
        "volumeMounts": [{"name": "job", "mountPath": JOB_DIR, "readOnly": True}],
    }  # fmt: skip
    pod = {
        "serviceAccountName": f"{job.account}{SUBMITTER}", "automountServiceAccountToken": True,
        "restartPolicy": "Never", "securityContext": _pod_context(), "containers": [container],
        "volumes": [_volume(job)],
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": job.metadata(job.name),
        "spec": {"backoffLimit": 2, "template": {"metadata": {"labels": job.labels()}, "spec": pod}},
    }


def kubeflow_application(job: SparkJob) -> Document:
    """For Kubeflow's Spark operator. The write id is the name: a job of another name is another write."""
    size: dict[str, Any] = {"cores": 1, "memory": "1g"}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": job.metadata(job.name),
        "spec": {
            "type": "Python", "pythonVersion": "3", "mode": "cluster", "sparkVersion": job.spark_version,
            "image": job.image, "imagePullPolicy": "IfNotPresent", "mainApplicationFile": _MAIN,
            "restartPolicy": {"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 10},
            "sparkConf": {**_shared(job), "spark.kubernetes.driverEnv.LOGHERD_WRITE_ID": job.name, **job.conf},
            "driver": {**size, "serviceAccount": job.account, "template": driver_template(job)},
            "executor": {**size, "instances": job.executors, "template": executor_template(job)},
        },
    }  # fmt: skip


def apache_application(job: SparkJob) -> Document:
    """For Apache's Spark operator, whose Python main file is the first of `pyFiles`."""
    properties = {name: value for name, value in _submitted(job).items() if not name.endswith("podTemplateFile")}
    return {
        "apiVersion": "spark.apache.org/v1",
        "kind": "SparkApplication",
        "metadata": job.metadata(job.name),
        "spec": {
            "pyFiles": _MAIN,
            "runtimeVersions": {"sparkVersion": job.spark_version},
            "sparkConf": {
                **_shared(job), **properties, "spark.kubernetes.driverEnv.LOGHERD_WRITE_ID": job.name,
                **job.conf,
            },
            "applicationTolerations": {"restartConfig": {"restartPolicy": "OnFailure", "maxRestartAttempts": 2}},
            "driverSpec": {"podTemplateSpec": driver_template(job)},
            "executorSpec": {"podTemplateSpec": executor_template(job)},
        },
    }  # fmt: skip


def _text(*documents: Document) -> str:
    return str(yaml.safe_dump_all(documents, sort_keys=False, width=120))
