"""`logherd`: one command over many, found through the entry points of the group `logherd.commands`.

An entry point's name is the command's name, its object a typer application. So the operator's package can add `up` and
`down` while the broker package knows nothing of it.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from logherd import __version__
from logherd.cli import exits
from logherd.kit.errors import LogHerdError
from logherd.settings.errors import SettingsError

__all__ = ["run_umbrella"]

GROUP = "logherd.commands"


@cache
def found_commands() -> dict[str, EntryPoint]:
    """Entry points by command name, sorted."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


class Umbrella(TyperGroup):
    """A group whose commands are loaded when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- the library's signature
        """Names of all commands."""
        return list(found_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 -- the library's signature
        """The command, or None if there is none of that name."""
        point = found_commands().get(cmd_name)
        if point is None:
            return None
        command = get_command(point.load())
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Umbrella, name="logherd", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"logherd {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say it.")] = False,
) -> None:
    """LogHerd: a replicated message log that stock Apache RocketMQ clients use unchanged."""


def run_umbrella(arguments: Sequence[str]) -> int:
    """Run one command line; an error of ours or of the system becomes one sentence, Ctrl-C a code."""
    try:
        app(args=list(arguments), standalone_mode=True)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else exits.FAILED
    except SettingsError as error:
        sys.stderr.write(f"logherd: {error}\n")
        return exits.USAGE
    except LogHerdError as error:
        sys.stderr.write(f"logherd: {error}\n")
        return exits.FAILED
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        sys.stderr.write(f"logherd: an argument or the input is not UTF-8 text: {error.reason}\n")
        return exits.USAGE
    except OSError as error:
        _forget_output()
        named = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"logherd: {named}{error.strerror or error}\n")
        return exits.FAILED
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    return exits.OK


def _forget_output() -> None:
    """It may be the output that fails: what could not be written is not tried again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
