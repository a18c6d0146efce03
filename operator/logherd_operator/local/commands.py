"""`logherd up`, `down` and `status`: arguments to calls of this room, errors to one sentence and an exit code."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logherd_operator.local.signals import stopping_signals

if TYPE_CHECKING:
    from logherd_operator.local.watching import Watching

__all__ = ["down", "status", "up"]

FAILED = 1
USAGE = 2

up = typer.Typer(add_completion=False)
down = typer.Typer(add_completion=False)
status = typer.Typer(add_completion=False)

DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="The group's folder; default: .logherd/GROUP here.")
]


def _port(variable: str, whose: str) -> Any:
    said = f"Of the {whose}; those of the others follow from it, ten apart. 0: any that is free."
    return typer.Option(min=0, max=65535, envvar=variable, help=said)


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


@up.command()
def up_command(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A BrokerGroup, YAML or JSON.")],
    data: DataOption = None,
    *,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it serves; logs go to a file.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    name_service_port: Annotated[int, _port("LOGHERD_NAME_SERVICE_PORT", "first name service")] = 9876,
    broker_port: Annotated[int, _port("LOGHERD_BROKER_PORT", "first broker")] = 10911,
    admin_port: Annotated[int, _port("LOGHERD_ADMIN_PORT", "first broker's admin HTTP")] = 10913,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time until clients are answered.")] = 120,
) -> None:
    """Run a BrokerGroup on this machine, in the foreground or (--detach) behind it; apply the file when it is saved."""
    if not host.strip():
        raise typer.BadParameter("name an address of this machine, such as 127.0.0.1", param_hint="--host")
    from logherd_operator.local.checking import Checking
    from logherd_operator.local.nursery import Nursery

    with _sentences("up"), stopping_signals(), Nursery() as nursery, Checking() as checking:
        # Both get ready while we import the rest.
        from logherd_operator.local.addresses import Ports
        from logherd_operator.local.up import Ahead, UpOptions, bring_up

        ports = Ports(name_service=name_service_port, broker=broker_port, admin=admin_port)
        options = UpOptions(host=host, ports=ports, detach=detach, wait_seconds=wait)
        raise typer.Exit(bring_up(file, data, options, _watching(detach=detach), Ahead(checking, nursery)))


def _watching(*, detach: bool) -> "Watching":
    from logherd_operator.local.watching import LiveTable, Watching

    return LiveTable() if sys.stdout.isatty() and not detach else Watching(typer.echo)


@down.command()
def down_command(
    data: DataOption = None,
    wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time to stop before they are killed.")] = 30,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print.")] = Output.TEXT,
) -> None:
    """Stop the group's processes; its data stays. The exit code is 1 if one had to be killed."""
    from logherd_operator.local.down import bring_down
    from logherd_operator.local.finding import find_folder

    with _sentences("down"):
        folder, state = find_folder(data)
        ended: list[dict[str, Any]] = []
        unwritten: OSError | None = None
        for each in bring_down(folder, state, seconds=wait):
            ended.append(each._asdict())
            if output is Output.TEXT and unwritten is None:
                try:
                    typer.echo(f"{state.group}: {each}")
                except OSError as error:  # nobody reads along any more; the others are to stop all the same
                    unwritten = error
    if unwritten is not None:
        raise unwritten
    if output is Output.JSON:
        typer.echo(json.dumps({"group": state.group, "processes": ended}))
    elif not ended:
        typer.echo(f"{state.group}: nothing is running")
    raise typer.Exit(FAILED if any(each["outcome"] == "killed" for each in ended) else 0)


@status.command()
def status_command(
    data: DataOption = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print.")] = Output.TEXT,
) -> None:
    """Show the group's leader, processes and positions; the exit code is 1 if no messages are taken."""
    from logherd_operator.local.finding import find_folder
    from logherd_operator.local.status import observe, serves, to_text

    with _sentences("status"):
        document = observe(*find_folder(data))
    typer.echo(json.dumps(document, indent=2) if output is Output.JSON else to_text(document))
    raise typer.Exit(0 if serves(document) else FAILED)


@contextmanager
def _sentences(command: str) -> Iterator[None]:
    """End with one sentence and a code where the room reports an error."""
    from logherd_operator.local.errors import LocalError
    from logherd_operator.spec.errors import OperatorError

    try:
        yield
    except OperatorError as error:
        sys.stderr.write(f"logherd {command}: {error}\n")
        raise typer.Exit(FAILED if isinstance(error, LocalError) else USAGE) from None
