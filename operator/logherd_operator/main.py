"""`logherd operator`: what the operator is started with, and what it can print without a cluster."""

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["operator"]

operator = typer.Typer(add_completion=False, no_args_is_help=True, help="The Kubernetes operator, and what it writes.")


@operator.command()
def crd() -> None:
    """Print the CustomResourceDefinition of BrokerGroup."""
    import yaml

    from logherd_operator.spec.crd import group_crd

    yaml.safe_dump(group_crd(), sys.stdout, sort_keys=False, width=120)


@operator.command()
def render(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A BrokerGroup, YAML or JSON.")],
    image: Annotated[str, typer.Option(help="Image of the brokers, where the spec names none.")] = "logherd:latest",
    operator_image: Annotated[str, typer.Option(help="Image of the operator.")] = "logherd-operator:latest",
) -> None:
    """Print every object that the operator would make for a new group."""
    import yaml

    from logherd_operator.resources.group_objects import render_group
    from logherd_operator.resources.site import Shape, Site
    from logherd_operator.spec.document import parse_group

    group = parse_group(file.read_text(encoding="utf-8"), source=str(file))
    embedded = group.spec.controllers.embedded
    controllers = embedded.replicas if embedded is not None else 3
    site = Site(
        group=group, namespace=group.metadata.namespace or "default", uid="", image=group.spec.image or image,
        operator_image=operator_image, operator_version="", controller_count=controllers,
    )  # fmt: skip
    rendered = render_group(site, Shape(brokers=group.spec.replicas, controllers=controllers))
    yaml.safe_dump_all([*rendered.made_once, *rendered.kept], sys.stdout, sort_keys=False, width=120)


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
    log_level: Annotated[str, typer.Option(help="debug, info or warning.")] = "info",
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
    lease_ms: Annotated[int, typer.Option(min=100, help="The brokers' lease.")] = 3000,
) -> None:
    """Keep the endpoint of a group's leader, beside one of its controllers, until told to stop."""
    import logging
    import platform
    import signal

    # The kernel sends the first process of a container no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from logherd_operator.keeper.keeping import Keeping
    from logherd_operator.keeper.keeping import keep_leader as keep
    from logherd_operator.keeper.slices import pod_place

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    page = f"{controller}/groups/{cluster}/{group}"
    place = pod_place(namespace, slice_name)
    keep(Keeping(page=page, slice_place=place, name=platform.node(), lease=lease_ms / 1000))


@operator.callback()
def _group() -> None:
    """The Kubernetes operator, and what it writes."""
