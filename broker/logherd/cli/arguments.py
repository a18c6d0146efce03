"""Options that several commands have in common, and how results are printed."""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

from logherd.cli import exits

__all__ = [
    "NameServerOption", "Output", "OutputOption", "cell", "end_with", "key_names", "name_servers", "show", "show_table",
    "table", "tag_name", "tag_names", "topic_name",
]  # fmt: skip


_TOPIC_SURELY_FITS = 127
"""The limit itself is the broker's; what is no longer than this need not load it."""


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
        raise typer.BadParameter(str(error), param_hint="--name-server") from error
    if not found:
        raise typer.BadParameter("name at least one name server", param_hint="--name-server")
    return found


def topic_name(text: str) -> str:
    """The name of a topic as it was given. Raises: typer.BadParameter if it is none or too long to be one.

    Whoever gets a longer one than fits into a header ends the connection, which says nothing about the name. What
    characters are right is the broker's to say.
    """
    if text and len(text) <= _TOPIC_SURELY_FITS:
        return text
    from logherd.service.errors import RequestError
    from logherd.service.topic_names import check_topic_name

    try:
        check_topic_name(text)
    except RequestError as error:
        raise typer.BadParameter(error.remark) from error
    return text


def tag_names(tags: list[str] | None) -> list[str] | None:
    """Tags to choose messages by. Raises: typer.BadParameter for what can be the tag of no message that is chosen: a
    broker reads "||" between tags, and takes no blanks around them."""
    from logherd.wire.limits import DEFAULT_LIMITS

    for tag in tags or ():
        if not _is_single(tag):
            raise typer.BadParameter(f"{tag!r} is no single tag; give --tag again for each, and leave it out for all")
    size, limit = len(" || ".join(tags or ()).encode()), DEFAULT_LIMITS.value_bytes_max
    if size > limit:
        raise typer.BadParameter(f"the tags take {size} bytes, at most {limit} are allowed")
    return tags


def tag_name(tag: str | None) -> str | None:
    """The tag of a message. Raises: typer.BadParameter for one that no consumer can choose, as `tag_names`."""
    if tag is not None and not _is_single(tag):
        raise typer.BadParameter(
            f"{tag!r} is a tag that no consumer can choose: it is empty, *, has || in it or a blank at an end"
        )
    return tag


def _is_single(tag: str) -> bool:
    return tag not in ("", "*") and "||" not in tag and tag.strip() == tag


def key_names(keys: list[str] | None) -> list[str] | None:
    """Keys to find a message by. Raises: typer.BadParameter for what would be stored as several keys, or as none."""
    for key in keys or ():
        if not key or " " in key:
            raise typer.BadParameter(f"{key!r} is no single key, for a blank ends one; give --key again for each")
    return keys


def show(output: Output, document: object, text: str) -> None:
    """Print `document` as one JSON line, or `text`; at once, because others may be reading along."""
    sys.stdout.write((json.dumps(document) if output is Output.JSON else text) + "\n")
    sys.stdout.flush()


def cell(value: object) -> object:
    """A value of a JSON document as it stands in a table."""
    if value is None:
        return "-"
    return ("no", "yes")[value] if isinstance(value, bool) else value


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as needed, two blanks between them."""
    cells = [list(head), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def show_table(
    output: Output,
    document: object,
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    notes: Sequence[str] = (),
) -> None:
    """Print `document`, which msgspec can encode, as one JSON line, or rows under their head and then sentences; on a
    terminal the columns are fitted to it."""
    if output is Output.JSON or not sys.stdout.isatty():
        import msgspec

        show(output, msgspec.to_builtins(document), "\n".join([*([table(head, rows)] if rows else []), *notes]))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if rows:
        drawn = Table(*head, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            drawn.add_row(*(Text(str(value)) for value in row))
        console.print(drawn)
    for note in notes:
        console.print(Text(note))


def end_with(faults: Sequence[str]) -> NoReturn:
    """End a command that went on in spite of these: each is told on standard error, and any of them is a failure."""
    for fault in faults:
        sys.stderr.write(f"logherd: {fault}\n")
    raise typer.Exit(exits.FAILED if faults else exits.OK)
