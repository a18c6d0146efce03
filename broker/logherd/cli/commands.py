"""The commands of the broker package, as the umbrella shows them. Each imports what it needs when it runs."""

from typing import Annotated

import typer

__all__ = ["broker"]

broker = typer.Typer(add_completion=False)


@broker.command()
def broker_command(
    config: Annotated[str, typer.Option("--config", help="Configuration file, YAML or JSON (docs/settings.md).")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting that wins over the file.")
    ] = None,
    ready_file: Annotated[
        str | None,
        typer.Option("--ready-file", metavar="FILE", help="Written as JSON with the real ports when it serves."),
    ] = None,
) -> None:
    """Run one broker in the foreground until it is told to stop. `logherd up` does this for you."""
    from logherd.cli.broker import run_broker

    raise typer.Exit(run_broker(config, overrides or [], ready_file))
