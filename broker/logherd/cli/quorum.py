"""`logherd quorum`: who leads the controllers, and who belongs to them."""

from typing import Annotated, Any

import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, cell, show_table
from logherd.cli.controllers import AdminOption, Controllers, TokenOption

__all__ = ["quorum"]

quorum = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at the controllers and change their quorum."
)

_HEAD = ("node", "identity", "votes", "connected", "match", "lag bytes", "heard ms ago")


@quorum.command("status")
def quorum_status(admin: AdminOption = None, output: OutputOption = Output.TEXT) -> None:
    """Show who leads, who belongs to the quorum and how far each is; the exit code is 1 if nobody leads."""
    document = Controllers(admin).read("/quorum")
    show_table(output, document, _HEAD, _rows(document), notes=[_leads(document)])
    raise typer.Exit(exits.OK if document.get("leader") else exits.FAILED)


@quorum.command("transfer")
def quorum_transfer(
    node: Annotated[str | None, typer.Argument(help="Who should lead; without it the one that has most.")] = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hand the leadership of the controllers to another one."""
    answer = Controllers(admin, token_file).change("/quorum/transfer", {} if node is None else {"node": node})
    show_table(output, answer, _HEAD, (), notes=[_leads(answer.get("quorum") or {})])


@quorum.command("members")
def quorum_members(
    voters: Annotated[list[str], typer.Option("--voter", metavar="NODE", help="Belongs and votes; all of them.")],
    learners: Annotated[
        list[str] | None, typer.Option("--learner", metavar="NODE", help="Belongs and does not vote; all of them.")
    ] = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make these controllers, by name or identity, the quorum; who is not named belongs no more."""
    body = {"voters": voters, "learners": learners or []}
    answer = Controllers(admin, token_file).change("/quorum/members", body)
    document = answer.get("quorum") or {}
    show_table(output, answer, _HEAD, _rows(document), notes=[_leads(document)])


def _rows(document: dict[str, Any]) -> list[tuple[object, ...]]:
    keys = ("node", "identity", "voter", "connected", "match", "lagBytes", "heardMs")
    return [tuple(cell(each.get(key)) for key in keys) for each in document.get("members", [])]


def _leads(document: dict[str, Any]) -> str:
    leader = document.get("leader")
    return f"{leader['node']} leads in term {document.get('term')}" if leader else "nobody leads"
