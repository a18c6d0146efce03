"""`logherd quorum`: who leads the controllers, and who belongs to them."""

from typing import Annotated

import msgspec
import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, cell, show_table
from logherd.cli.controllers import AdminOption, Controllers, TokenOption
from logherd.service.controllers.documents import QuorumPage

__all__ = ["quorum"]

quorum = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at the controllers and change their quorum."
)


class Done(msgspec.Struct, frozen=True):
    """An action's answer."""

    changed: bool
    quorum: QuorumPage


_HEAD = ("node", "identity", "votes", "connected", "match", "lag bytes", "heard ms ago")


@quorum.command("status")
def quorum_status(admin: AdminOption = None, output: OutputOption = Output.TEXT) -> None:
    """Show who leads, who belongs to the quorum and how far each is; the exit code is 1 if nobody leads."""
    page = Controllers(admin).read("/quorum", QuorumPage)
    show_table(output, page, _HEAD, _rows(page), notes=[_leads(page)])
    raise typer.Exit(exits.OK if page.leader else exits.FAILED)


@quorum.command("transfer")
def quorum_transfer(
    node: Annotated[str | None, typer.Argument(help="Who should lead; without it the one that has most.")] = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hand the leadership of the controllers to another one."""
    controllers = Controllers(admin, token_file)
    done = controllers.change("/quorum/transfer", {} if node is None else {"node": node}, Done)
    controllers.await_leader()  # it is handed over, and perhaps not taken yet
    done = Done(changed=done.changed, quorum=controllers.read("/quorum", QuorumPage))
    show_table(output, done, _HEAD, (), notes=[_leads(done.quorum)])


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
    done = Controllers(admin, token_file).change("/quorum/members", body, Done)
    show_table(output, done, _HEAD, _rows(done.quorum), notes=[_leads(done.quorum)])


def _rows(page: QuorumPage) -> list[tuple[object, ...]]:
    return [
        (
            each.node, each.identity, cell(each.voter), cell(each.connected), cell(each.match), cell(each.lag_bytes),
            cell(each.heard_ms),
        )
        for each in page.members
    ]  # fmt: skip


def _leads(page: QuorumPage) -> str:
    return f"{page.leader.node} leads in term {page.term}" if page.leader else f"nobody leads in term {page.term}"
