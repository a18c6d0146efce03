"""The processes of the broker package, as the umbrella shows them. Each imports what it needs when it runs."""

from typing import Annotated

import typer

__all__ = ["broker", "controller"]

broker = typer.Typer(add_completion=False)
controller = typer.Typer(add_completion=False)

ConfigOption = Annotated[str, typer.Option("--config", help="Configuration file, YAML or JSON (docs/settings.md).")]
OverridesOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting that wins over the file.")
]
ReadyFileOption = Annotated[
    str | None, typer.Option("--ready-file", metavar="FILE", help="Written as JSON with the real ports when it serves.")
]
GuardedOption = Annotated[
    bool, typer.Option("--guarded", help="Under a guardian, which keeps its ports and starts it again when it dies.")
]


@broker.command()
def broker_command(
    config: ConfigOption, overrides: OverridesOption = None, ready_file: ReadyFileOption = None,
    guarded: GuardedOption = False,
) -> None:  # fmt: skip
    """Run one broker in the foreground until it is told to stop. `logherd up` does this for you."""
    from logherd.cli.processes import start_process

    raise typer.Exit(start_process("broker", config, overrides or [], ready_file, guarded))


@controller.command()
def controller_command(
    config: ConfigOption, overrides: OverridesOption = None, ready_file: ReadyFileOption = None,
    guarded: GuardedOption = False,
) -> None:  # fmt: skip
    """Run one of the 1, 3 or 5 controllers in the foreground until it is told to stop."""
    from logherd.cli.processes import start_process

    raise typer.Exit(start_process("controller", config, overrides or [], ready_file, guarded))
