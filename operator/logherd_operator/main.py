"""`logherd operator`: what the operator is started with, and what it can print without a cluster."""

import sys

import typer

__all__ = ["operator"]

operator = typer.Typer(add_completion=False, no_args_is_help=True, help="The Kubernetes operator, and what it writes.")


@operator.command()
def crd() -> None:
    """Print the CustomResourceDefinition of BrokerGroup."""
    import yaml

    from logherd_operator.spec.crd import group_crd

    yaml.safe_dump(group_crd(), sys.stdout, sort_keys=False, width=120)


@operator.callback()
def _group() -> None:
    """The Kubernetes operator, and what it writes."""
