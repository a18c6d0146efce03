"""`logherd operator`: what the operator is started with, and what it can print without a cluster."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from logherd_operator.resources.site import Site

__all__ = ["operator"]

operator = typer.Typer(add_completion=False, no_args_is_help=True, help="The Kubernetes operator, and what it writes.")


@operator.command()
def crd() -> None:
    """Print the CustomResourceDefinition of BrokerGroup."""
    from logherd_operator.spec.crd import group_crd

    _print(group_crd())


@operator.command()
def render(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A BrokerGroup, YAML or JSON.")],
    image: Annotated[str, typer.Option(help="Image of the brokers, where the spec names none.")] = "logherd:latest",
    operator_image: Annotated[str, typer.Option(help="Image of the operator.")] = "logherd-operator:latest",
) -> None:
    """Print every object that the operator would make for a new group."""
    from logherd_operator.resources.group_objects import render_group
    from logherd_operator.resources.site import Shape

    with _sentences("render"):
        site = _site(file, image, operator_image)
        rendered = render_group(site, Shape(brokers=site.group.spec.replicas, controllers=site.controller_count))
    _print(*rendered.made_once, *rendered.kept)


@operator.command("spark-job")
def spark_job(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The BrokerGroup to write to.")],
    way: Annotated[str, typer.Option(help="submit (a Job with spark-submit), kubeflow or apache.")] = "submit",
    name: Annotated[str, typer.Option(help="Of the job; none: GROUP-flights.")] = "",
    namespace: Annotated[str, typer.Option(help="Of the job; none: the group's.")] = "",
    image: Annotated[str, typer.Option(help="Of driver and executors; none: as the spec says.")] = "",
    topic: Annotated[str, typer.Option(help="LOGHERD_TOPIC of the job.")] = "flights",
    executors: Annotated[int, typer.Option(min=1, help="How many.")] = 2,
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="The job; none: flights, as an example.")] = None,
    checkpoint: Annotated[str, typer.Option(metavar="URI", help="Where streams keep theirs.")] = "",
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A property of Spark; may be repeated.")
    ] = None,
) -> None:
    """Print all that a Spark job needs to write to a group, for `kubectl apply -f -`."""
    from dataclasses import replace

    from logherd_operator.local.given import read_given
    from logherd_operator.resources.spark_template import job_objects, spark_job_of

    with _sentences("spark-job"):
        job = spark_job_of(_site(file))
        name = name or job.name
        text = read_given(script) if script is not None else job.script
        job = replace(
            job, name=name, config_map=f"{name}-job", namespace=namespace or job.namespace, image=image or job.image,
            topic=topic, executors=executors, script=text, checkpoint=checkpoint, conf=_properties(conf or ()),
        )  # fmt: skip
        objects = job_objects(job, way)
    _print(*objects)


def _properties(said: Sequence[str]) -> dict[str, str]:
    for each in said:
        if not each.partition("=")[1] or not each.startswith("spark."):
            raise typer.BadParameter(f"{each!r} is not spark.NAME=VALUE", param_hint="--conf")
    return dict(each.split("=", 1) for each in said)


@operator.command()
def run(
    broker_image: Annotated[str, typer.Option(help="Image of the brokers of new groups that name none.")],
    operator_image: Annotated[str, typer.Option(help="Image of this operator; it keeps the leaders' endpoints, too.")],
    lease: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="The Lease that decides who acts.")],
    watch_namespace: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE", help="Where groups are kept; may be repeated.")
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", help="Keep groups everywhere.")] = False,
    identity: Annotated[str, typer.Option(envvar="POD_NAME", help="Name of this process.")] = "logherd-operator",
    health_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /healthz, /readyz, /metrics.")] = 8080,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="json or text.")] = "json",
) -> None:
    """Keep BrokerGroups as their specs want them, until told to stop."""
    try:
        from logherd_operator.handlers.started import Started, start
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is not installed; install logherd[operator]", err=True)
        raise typer.Exit(2) from error
    namespaces = tuple(watch_namespace or ())
    if bool(namespaces) == all_namespaces:
        raise typer.BadParameter("give --watch-namespace or --all-namespaces, one of them")
    if lease.count("/") != 1 or not all(lease.split("/")):
        raise typer.BadParameter(f"{lease!r} is not NAMESPACE/NAME", param_hint="--lease")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{log_level!r} is none of debug, info, warning and error", param_hint="--log-level")
    if log_format not in ("json", "text"):
        raise typer.BadParameter(f"{log_format!r} is neither json nor text", param_hint="--log-format")
    raise typer.Exit(start(Started(
        broker_image=broker_image, operator_image=operator_image, lease=lease, namespaces=namespaces,
        identity=identity, health_port=health_port, log_level=log_level, log_format=log_format,
    )))  # fmt: skip


@operator.command("keep-leader")
def keep_leader(
    controller: Annotated[str, typer.Option(metavar="URL", help="Admin port of the controller beside it.")],
    cluster: Annotated[str, typer.Option(help="RocketMQ's cluster, in which the group is.")],
    group: Annotated[str, typer.Option(help="The BrokerGroup.")],
    namespace: Annotated[str, typer.Option(help="Where the slice is.")],
    slice_name: Annotated[str, typer.Option("--slice", help="The EndpointSlice to keep.")],
    token_file: Annotated[Path, typer.Option(help="The secret by which the controller is told of it.")],
    lease_ms: Annotated[int, typer.Option(min=100, help="The brokers' lease.")] = 3000,
    *,
    only_others: Annotated[
        bool, typer.Option("--only-others", help="Not the own group's, whose leader no controllers elect.")
    ] = False,
    api_host: Annotated[str, typer.Option(envvar="KUBERNETES_SERVICE_HOST")] = "kubernetes.default.svc",
    api_port: Annotated[int, typer.Option(envvar="KUBERNETES_SERVICE_PORT", min=1, max=65535)] = 443,
) -> None:
    """Keep endpoints of leaders, beside a controller: of its own group and of those that use it, until told to stop."""
    import logging
    import platform
    import signal
    import threading

    # The kernel sends the first process of a container no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from logherd_operator.keeper.groups import Others, Shared, page_of
    from logherd_operator.keeper.keeping import Keeping
    from logherd_operator.keeper.keeping import keep_leader as keep
    from logherd_operator.keeper.slices import pod_place

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def keeping_of(kept: Shared, name: str = "") -> Keeping:
        return Keeping(
            page=page_of(controller, kept), token_file=token_file, name=platform.node(), lease=lease_ms / 1000,
            slice_place=pod_place(namespace, name or f"{kept.name}-leader", api_host, api_port),
        )  # fmt: skip

    others = Others(controller, group, keeping_of)
    if only_others:
        others.run()
    threading.Thread(target=others.run, daemon=True).start()
    keep(keeping_of(Shared(cluster, group), slice_name))


@operator.callback()
def _group() -> None:
    """The Kubernetes operator, and what it writes."""


@contextmanager
def _sentences(command: str) -> Iterator[None]:
    """End with what is wrong and exit code 2 where a document is."""
    from logherd_operator.spec.errors import OperatorError

    try:
        yield
    except OperatorError as error:
        typer.echo(f"logherd operator {command}: {error}", err=True)
        raise typer.Exit(2) from None


def _site(file: Path, image: str = "", operator_image: str = "") -> "Site":
    """Where a group from a file would be built. Raises: SpecError."""
    from logherd_operator.local.given import read_given
    from logherd_operator.resources.site import Site
    from logherd_operator.spec.document import parse_runnable

    group = parse_runnable(read_given(file), source=str(file))
    embedded = group.spec.controllers.embedded
    return Site(
        group=group, namespace=group.metadata.namespace or "default", uid="", image=group.spec.image or image,
        operator_image=operator_image, operator_version=version("logherd"),
        controller_count=embedded.replicas if embedded is not None else 3,
    )  # fmt: skip


def _print(*documents: dict[str, Any]) -> None:
    """As YAML, in which texts of several lines stand as they are."""
    import yaml

    class Readable(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            """What stands in two places is written twice."""
            del data
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Readable.add_representer(str, text)
    yaml.dump_all(documents, sys.stdout, Dumper=Readable, sort_keys=False, width=120)
