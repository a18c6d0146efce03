"""The ConfigMap from which a group's Spark jobs are started, made where the spec asks for it."""

from logherd_operator.resources.site import Document, Ports, Site
from logherd_operator.resources.spark_access import access
from logherd_operator.resources.spark_job import (
    SparkJob,
    apache_application,
    job_files,
    kubeflow_application,
    submit_job,
)
from logherd_operator.spec.errors import SpecError

__all__ = ["bootstrap_of", "job_objects", "spark_job_of", "spark_template"]

_ACCOUNT = "logherd-spark"
_RUN_WITH = ("job.py", "spark-defaults.conf", "driver-pod.yaml", "executor-pod.yaml")
_WAYS = {"submit": submit_job, "kubeflow": kubeflow_application, "apache": apache_application}


def bootstrap_of(site: Site, separator: str) -> str:
    """The name service that clients of the group ask, by a name that any namespace of the cluster can look up."""
    external = site.group.spec.name_service.addresses
    domain = f"{site.namespace}.svc.{site.group.spec.cluster_domain}"
    return separator.join(external) or f"{site.controllers_of}-bootstrap.{domain}:{Ports.NAMES}"


def spark_job_of(site: Site) -> SparkJob:
    """The example job of a group: flights into the topic `flights`."""
    template = site.group.spec.spark.template
    return SparkJob(
        name=f"{site.name}-flights", namespace=site.namespace,
        image=template.image or f"logherd-spark:{site.operator_version or 'latest'}",
        spark_version=template.spark_version, account=template.service_account_name or _ACCOUNT,
        config_map=f"{site.name}-spark", bootstrap=bootstrap_of(site, ","), topic="flights",
    )  # fmt: skip


def spark_template(site: Site) -> list[Document]:
    """The ConfigMap, if `spec.spark.template.enabled`."""
    if not site.group.spec.spark.template.enabled:
        return []
    job = spark_job_of(site)
    metadata = site.metadata(job.config_map)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": job_files(job)}]


def job_objects(job: SparkJob, way: str) -> list[Document]:
    """Everything to apply for one job, the job last. Raises: SpecError."""
    if way not in _WAYS:
        raise SpecError(f"{way!r} is no way to start a Spark job; there are {', '.join(_WAYS)}")
    data = {name: text for name, text in job_files(job).items() if name in _RUN_WITH}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": job.metadata(job.config_map), "data": data}
    return [*access(job.account, job.namespace), files, _WAYS[way](job)]
