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


@operator.callback()
def _group() -> None:
    """The Kubernetes operator, and what it writes."""
