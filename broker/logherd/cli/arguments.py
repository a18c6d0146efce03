"""Options that several commands have in common, and how results are printed."""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["NameServerOption", "Output", "OutputOption", "name_servers", "show", "table"]


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


NameServerOption = Annotated[
    str,
    typer.Option(
        "--name-server", "-n", envvar="NAMESRV_ADDR", metavar="HOST:PORT", help="Name server; several with ; between."
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]


def name_servers(text: str) -> list[str]:
    """The addresses in `host:port;host:port`. Raises typer.BadParameter if one is no address."""
    from logherd.client.peers import parse_address

    found = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    try:
        for each in found:
            parse_address(each)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not found:
        raise typer.BadParameter("name at least one name server")
    return found


def show(output: Output, document: object, text: str) -> None:
    """Print `document` as one JSON line, or `text`; at once, because others may be reading along."""
    sys.stdout.write((json.dumps(document) if output is Output.JSON else text) + "\n")
    sys.stdout.flush()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as needed, two blanks between them."""
    cells = [list(head), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)
