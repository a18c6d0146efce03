"""`logherd quorum`: who leads the controllers, and who belongs to them."""

import sys
from typing import Annotated

import msgspec
import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, cell, show_table
from logherd.cli.controllers import AdminOption, Controllers, ControllersError, TokenOption
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
    """Hand the leadership of the controllers to another one; the exit code is 1 if that one does not lead then."""
    controllers = Controllers(admin, token_file)
    done = controllers.change("/quorum/transfer", {} if node is None else {"node": node}, Done)
    controllers.await_leader()  # it is handed over, and perhaps not taken yet
    done = Done(changed=done.changed, quorum=controllers.read("/quorum", QuorumPage))
    show_table(output, done, _HEAD, (), notes=[_leads(done.quorum)])
    leader = done.quorum.leader
    raise typer.Exit(exits.OK if leader is not None and node in (None, leader.node) else exits.FAILED)


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


@quorum.command("recover")
def quorum_recover(
    admin: AdminOption = None,
    token_file: TokenOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether the loss is meant.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Give up voters that never come back: the controllers named by --admin, and only they, are the quorum then.

    For a quorum that has lost its majority for good. Name every survivor; decisions that none of them holds are lost.
    The exit code is 1 if nobody leads then.
    """
    controllers = Controllers(admin, token_file)
    pages = controllers.read_each("/quorum", QuorumPage)
    led = [page for page in pages if page.leader is not None]
    if led:
        raise ControllersError(f"{led[0].node} hears a leader, {_leads(led[0])}: a quorum that works is not recovered")
    survivors = [page.identity for page in pages]
    lost = sorted({each.identity for page in pages for each in page.members if each.voter} - {*survivors})
    if not yes:
        _confirm_recovery(survivors, lost)
    body = {
        "reset": max(page.reset for page in pages) + 1,
        "term": max(page.term for page in pages) + 1,
        "survivors": [
            {"identity": page.identity, "epoch": page.last.epoch, "position": page.last.position} for page in pages
        ],
    }
    controllers.change_each("/quorum/recover", body, Done)
    controllers.await_leader()
    page = controllers.read("/quorum", QuorumPage)
    show_table(output, page, _HEAD, _rows(page), notes=[f"given up: {', '.join(lost) or 'nobody'}", _leads(page)])
    raise typer.Exit(exits.OK if page.leader else exits.FAILED)


def _confirm_recovery(survivors: list[str], lost: list[str]) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("a recovery gives up voters and may lose decisions; say --yes if that is meant")
    typer.echo(f"the quorum will be {', '.join(survivors)}")
    typer.echo(f"given up for good: {', '.join(lost) or 'nobody'}; start none of them again")
    typer.confirm("Decisions that no survivor holds will be lost. Go on?", abort=True)


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
