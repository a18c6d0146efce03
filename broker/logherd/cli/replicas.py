"""`logherd replica`: orders to the brokers of a group that lead themselves, without controllers.

Mode raft: hand leadership over; go on without a majority that is lost for good. Mode static: promote a broker. Each
order names what it was thought of for, an epoch or a table of roles, so that it does nothing once something else is in
force.
"""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import typer

from logherd.cli.arguments import Output, OutputOption, cell, end_with, show, show_table
from logherd.cli.controllers import Controllers, ControllersError, TokenOption
from logherd.cli.own_leaders import await_service, leader_of
from logherd.service.replica_orders import HandingOver, RolesPage, VotesPage

__all__ = ["replica"]

replica = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Say who leads a group whose mode is raft or static."
)

AdminsOption = Annotated[
    list[str],
    typer.Option(
        "--admin", envvar="LOGHERD_BROKER_ADMIN", metavar="HOST:PORT",
        help="Admin addresses of the group's brokers; those that live suffice.",
    ),
]  # fmt: skip
_Page = TypeVar("_Page")
_VOTES_HEAD = ("broker", "hears", "epoch", "voters", "log epoch", "log end", "rebuilt")
_HEAD = ("broker", "table", "leads", "synchronous", "copies", "loses nothing", "why")


@replica.command("hand-over")
def hand_over(
    admin: AdminsOption,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="The broker that is to lead; default: who has most.")
    ] = None,
    token_file: TokenOption = None,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time until another leader serves.")] = 30,
    output: OutputOption = Output.TEXT,
) -> None:
    """Mode raft: let another broker lead, without loss, and wait until it serves."""
    address, leads = leader_of(admin)
    if leads["brokerId"] == to:
        show(output, leads, f"broker {to} leads already, in epoch {leads['epoch']}")
        return
    started = time.monotonic()
    body: dict[str, Any] = {"expectedEpoch": leads["epoch"]} | ({} if to is None else {"brokerId": to})
    Controllers([address], token_file).change_each("/replica/hand-over", body, HandingOver)
    after = await_service(admin, int(leads["epoch"]), wait)
    if to is not None and after["brokerId"] != to:
        raise ControllersError(f"broker {after['brokerId']} leads in epoch {after['epoch']}, and not broker {to}")
    seconds = time.monotonic() - started
    show(output, after, f"broker {after['brokerId']} leads in epoch {after['epoch']}, after {seconds:.1f} s")


@replica.command("votes")
def votes(admin: AdminsOption, output: OutputOption = Output.TEXT) -> None:
    """Mode raft: show who votes, whom each broker hears leading, and where its log ends.

    The exit code is 1 if one does not answer.
    """
    pages, faults = _pages(admin, "/replica/votes", VotesPage)
    show_table(output, pages, _VOTES_HEAD, [_votes_row(page) for page in pages])
    end_with(faults)


@replica.command("recover")
def recover(
    admin: AdminsOption,
    give_up: Annotated[
        list[int], typer.Option("--give-up", min=1, metavar="BROKER", help="Votes no more; all who are lost.")
    ],
    token_file: TokenOption = None,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time until a leader serves.")] = 30,
    output: OutputOption = Output.TEXT,
    *,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Messages that only the lost brokers have are lost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether the loss is meant.")] = False,
) -> None:
    """Mode raft: make the brokers that are left, all named by --admin, the whole group, after its majority is lost.

    Never start those that are given up again with their data.
    """
    pages = Controllers(admin, token_file).read_each("/replica/votes", VotesPage)
    if accept_loss and not yes:
        _confirm_rebuild(pages, give_up)
    body: dict[str, Any] = {
        "reset": max(page.reset for page in pages) + 1,
        "epoch": max(page.epoch for page in pages) + 1,
        "survivors": [
            {"identity": page.identity, "epoch": page.last_epoch, "position": page.last_position} for page in pages
        ],
        "giveUp": give_up,
        "loss": accept_loss,
    }
    Controllers(admin, token_file).change_each("/replica/rebuild", body, VotesPage)
    after = await_service(admin, body["epoch"] - 1, wait)
    show(output, after, f"broker {after['brokerId']} leads in epoch {after['epoch']}; given up: {_listed(give_up)}")


@replica.command("roles")
def roles(admin: AdminsOption, output: OutputOption = Output.TEXT) -> None:
    """Mode static: show which table of roles each broker knows, and who can be promoted without loss.

    The exit code is 1 if one does not answer.
    """
    pages, faults = _pages(admin, "/replica/roles", RolesPage)
    _show(output, pages)
    end_with(faults)


@replica.command("promote")
def promote(
    admin: Annotated[
        str, typer.Option("--admin", metavar="HOST:PORT", help="Admin address of the broker that is to lead.")
    ],
    after: Annotated[int, typer.Option("--after", min=1, help="Number of the table of roles that this replaces.")],
    synchronous: Annotated[
        list[int] | None, typer.Option("--synchronous", min=1, metavar="BROKER", help="Whom sends then wait for.")
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option("--copies", min=1, help="Disks that hold a message before it is answered; default: all."),
    ] = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
    *,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Even if it lacks acknowledged messages, which are lost then.")
    ] = False,
    unrecorded: Annotated[
        bool, typer.Option("--unrecorded", help="Without asking the controllers, who do not answer.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether the loss is meant.")] = False,
) -> None:
    """Mode static: let a broker lead, in place of a table of roles that is named with --after.

    The former leader must not serve any more, or must be synchronous.
    """
    if accept_loss and not yes:
        _confirm_loss(admin)
    body: dict[str, Any] = {"after": after, "synchronous": synchronous or [], "loss": accept_loss}
    body |= {"unrecorded": True} if unrecorded else {}
    body |= {} if copies is None else {"copies": copies}
    _show(output, Controllers([admin], token_file).change_each("/replica/promote", body, RolesPage))


def _pages(admins: Sequence[str], path: str, shape: type[_Page]) -> tuple[list[_Page], list[str]]:
    """What each of the brokers says of itself, and why others do not: these commands are for when some are away.

    Raises: ControllersError if nobody answers.
    """
    pages, faults = list[_Page](), list[str]()
    for admin in admins:
        try:
            pages += Controllers([admin]).read_each(path, shape)
        except ControllersError as error:
            faults.append(str(error))
    if not pages:
        raise ControllersError("; ".join(faults))
    return pages, faults


def _confirm_loss(admin: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("such a promotion loses messages; say --yes if that is meant")
    typer.confirm(f"Messages that the broker at {admin} does not have will be lost. Promote it?", abort=True)


def _confirm_rebuild(pages: list[VotesPage], give_up: list[int]) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("this gives up voters and may lose messages; say --yes if that is meant")
    for page in pages:
        typer.echo(f"broker {page.broker_id} has everything up to {page.last_position}, epoch {page.last_epoch}")
    typer.confirm(
        f"What only broker {_listed(give_up)} has will be lost, although it was acknowledged. Go on?", abort=True
    )


def _listed(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers))


def _votes_row(page: VotesPage) -> tuple[object, ...]:
    leads = "nobody" if page.leader is None else f"broker {page.leader}"
    voters = ",".join(each.partition(".")[0] for each in page.voters)
    return (page.broker_id, leads, page.epoch, voters, page.last_epoch, page.last_position, page.reset)


def _show(output: Output, pages: list[RolesPage]) -> None:
    rows = [
        (
            page.broker_id, page.table, f"broker {page.leader}", ",".join(map(str, page.synchronous)) or "none",
            page.copies, cell(page.eligible), page.why,
        )
        for page in pages
    ]  # fmt: skip
    show_table(output, pages, _HEAD, rows)
