"""What a person sees of a group that is kept in the foreground: a live table on a terminal, else only what happens."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from logherd_operator.local.status import document_of, notes_of, table_of

if TYPE_CHECKING:
    from logherd_operator.local.keeping import Turn

__all__ = ["LiveTable", "Watching"]


class Watching:
    """Says what happens, line by line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def say(self, line: str) -> None:
        """A line. That nobody can read it any more, as in a terminal that was closed, stops nothing."""
        with suppress(OSError):
            self._say(line)

    def show(self, turn: "Turn") -> None:
        """The group as it is now."""

    def close(self) -> None:
        """Nothing more is shown; lines may come."""


class LiveTable(Watching):
    """Also keeps a table of all processes below the lines."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        super().__init__(self._print)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, turn: "Turn") -> None:
        """Renew the table."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        document = document_of(turn.look, None)
        table = Table(title=_title(document, turn), title_justify="left")
        head, *rows = table_of(document)
        for each in head:
            table.add_column(each)
        for row in rows:
            table.add_row(*row)
        notes = [each for each in (document["why"], *notes_of(document)) if each]
        with suppress(OSError):
            self._live.update(Group(table, *map(Text, notes)), refresh=True)

    def close(self) -> None:
        """Leave the last table where it is."""
        with suppress(OSError):
            self._live.stop()


def _title(document: dict[str, object], turn: "Turn") -> str:
    leader = document["leader"]
    leading = "no leader"
    if isinstance(leader, dict):
        leading = f"broker {leader['brokerId']} leads in epoch {leader['epoch']}"
    in_sync = document["inSync"]
    synced = ", ".join(map(str, in_sync)) if isinstance(in_sync, list) and in_sync else "none"
    operation = turn.plan.operation
    doing = f"; {operation.message}" if operation is not None else ""
    return f"{document['group']}: {leading}, in sync {synced}{doing}"
