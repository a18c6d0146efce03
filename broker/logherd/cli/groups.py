"""`logherd groups`: what the controllers know of broker groups, and orders about who leads them.

An order names the epoch in which it was thought of, so that it does nothing once somebody else leads.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, cell, show_table
from logherd.cli.controllers import AdminOption, Controllers, ControllersError, TokenOption, group_path
from logherd.service.controllers.documents import BrokerShape, GroupPage, GroupsPage, GroupSummary, MasterShape

__all__ = ["EpochOption", "GroupArgument", "all_groups", "groups", "ids", "path_of", "role_of"]

groups = typer.Typer(add_completion=False, no_args_is_help=True, help="Look at broker groups and say who leads them.")

GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="Its name, or CLUSTER/NAME if several clusters have one of that name.")
]
BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER", min=1, help="Its number in the group.")]
EpochOption = Annotated[
    int | None, typer.Option("--epoch", min=0, help="Only if this is the group's epoch; default: the one that it has.")
]
StaleOption = Annotated[
    bool, typer.Option("--stale", help="What one controller knows, although the quorum does not confirm it.")
]

_HEAD = ("group", "epoch", "leader", "in sync", "brokers", "alive", "why")
_BROKER_HEAD = ("broker", "role", "address", "alive", "end", "heard ms ago")


class Done(msgspec.Struct, frozen=True):
    """An action's answer."""

    changed: bool
    group: GroupPage


@groups.command("list")
def list_groups(
    admin: AdminOption = None, output: OutputOption = Output.TEXT, *, stale: StaleOption = False
) -> None:  # fmt: skip
    """List all broker groups with their leaders."""
    found = all_groups(Controllers(admin), stale=stale)
    rows = [
        (
            f"{each.cluster}/{each.name}", each.epoch, _leader(each.leader), ids(each.in_sync), each.brokers,
            cell(each.alive), each.why,
        )
        for each in found
    ]  # fmt: skip
    show_table(output, found, _HEAD, rows, notes=[] if found else ["no groups"])


@groups.command("show")
def show_group(
    group: GroupArgument, admin: AdminOption = None, output: OutputOption = Output.TEXT, *, stale: StaleOption = False
) -> None:
    """Show one broker group: its brokers, who is in sync, and what is pending and why."""
    controllers = Controllers(admin)
    page = controllers.read(path_of(controllers, group, stale=stale) + _query(stale=stale), GroupPage)
    _show(output, page, page)


@groups.command("elect")
def elect(
    group: GroupArgument,
    broker: Annotated[
        int | None, typer.Option("--broker", min=1, help="Who; without it whoever loses nothing.")
    ] = None,
    epoch: EpochOption = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
    *,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Even one that lacks acknowledged messages, which are lost then.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether the loss is meant.")] = False,
) -> None:
    """Give a group another leader; the exit code is 1 if that one does not lead then.

    A living leader hands over in order, and nothing is lost.
    """
    if unclean and broker is None:
        raise typer.BadParameter("an unclean election is of one broker: name it with --broker")
    if unclean and not yes:
        _confirm_loss(group, broker)
    body = ({} if broker is None else {"brokerId": broker}) | ({"unclean": True} if unclean else {})
    expected, done = _order(group, "elect", body, epoch, Controllers(admin, token_file), output)
    leader = done.group.leader
    meant = leader is not None and broker in (None, leader.broker_id)
    raise typer.Exit(exits.OK if meant and (done.group.epoch > expected or not done.changed) else exits.FAILED)


@groups.command("promote")
def promote(
    group: GroupArgument, broker: BrokerArgument, epoch: EpochOption = None, admin: AdminOption = None,
    token_file: TokenOption = None, output: OutputOption = Output.TEXT,
) -> None:  # fmt: skip
    """Make a learner a broker that may be in sync and lead."""
    _order(group, "promote", {"brokerId": broker}, epoch, Controllers(admin, token_file), output)


@groups.command("demote")
def demote(
    group: GroupArgument, broker: BrokerArgument, epoch: EpochOption = None, admin: AdminOption = None,
    token_file: TokenOption = None, output: OutputOption = Output.TEXT,
) -> None:  # fmt: skip
    """Make a broker a learner: it copies, is in sync no more and never leads."""
    _order(group, "demote", {"brokerId": broker}, epoch, Controllers(admin, token_file), output)


@groups.command("forget")
def forget(
    group: GroupArgument,
    brokers: Annotated[
        list[int] | None, typer.Argument(metavar="BROKER...", min=1, help="Their numbers in the group.")
    ] = None,
    epoch: EpochOption = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    output: OutputOption = Output.TEXT,
    *,
    whole: Annotated[bool, typer.Option("--all", help="All, whoever was in sync: the group was taken down.")] = False,
    living: Annotated[bool, typer.Option("--living", help="Also one that still reports.")] = False,
) -> None:
    """Forget brokers that will not come back."""
    if whole == bool(brokers):
        raise typer.BadParameter("name brokers that will not come back, or say --all", param_hint="BROKER...")
    body: dict[str, Any] = {"brokerIds": [], "whole": True} if whole else {"brokerIds": brokers}
    body |= {"living": True} if living else {}
    _order(group, "forget", body, epoch, Controllers(admin, token_file), output)


def _order(
    group: str, action: str, body: dict[str, Any], epoch: int | None, controllers: Controllers, output: Output
) -> tuple[int, Done]:  # fmt: skip
    """Have it done and show what came of it. The result has the epoch in which it was thought of."""
    path = path_of(controllers, group)
    expected = controllers.read(path, GroupPage).epoch if epoch is None else epoch
    done = controllers.change(f"{path}/{action}", {**body, "expectedEpoch": expected}, Done)
    _show(output, done, done.group, () if done.changed else ("nothing changed: it was so already",))
    return expected, done


def _query(after: str = "", *, stale: bool) -> str:
    fields = [*(["stale=true"] if stale else []), *([f"after={quote(after, safe='')}"] if after else [])]
    return f"?{'&'.join(fields)}" if fields else ""


def all_groups(controllers: Controllers, *, stale: bool) -> list[GroupSummary]:
    """All pages of groups."""
    found: list[GroupSummary] = []
    after: str | None = ""
    while after is not None:
        page = controllers.read("/groups" + _query(after, stale=stale), GroupsPage)
        found += page.groups
        after = page.after
    return found


def path_of(controllers: Controllers, group: str, *, stale: bool = False) -> str:
    """Where the group of this name stands. Raises: ControllersError if it is none or one of several."""
    cluster, slash, name = group.partition("/")
    if slash:
        return group_path(cluster, name)
    named = [each for each in all_groups(controllers, stale=stale) if each.name == group]
    if len(named) != 1:
        which = ", ".join(f"{each.cluster}/{each.name}" for each in named)
        raise ControllersError(f"say which group {group} is meant: {which}" if named else f"there is no group {group}")
    return group_path(named[0].cluster, group)


def _confirm_loss(group: str, broker: int | None) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("an unclean election loses messages; say --yes if that is meant")
    typer.confirm(f"Messages that broker {broker} of {group} does not have will be lost. Elect it?", abort=True)


def _show(output: Output, document: object, group: GroupPage, notes: Sequence[str] = ()) -> None:
    rows = [
        (
            each.broker_id, role_of(group, each), each.address, cell(each.alive),
            f"{each.end.epoch}:{each.end.position}", cell(each.heard_ms),
        )
        for each in group.brokers
    ]  # fmt: skip
    summary = (
        f"{group.cluster}/{group.name}: epoch {group.epoch}, leader {_leader(group.leader)}, in sync "
        f"{ids(group.in_sync)} of {group.rules.replicas}, at least {group.rules.min_in_sync}"
    )
    show_table(output, document, _BROKER_HEAD, rows, notes=[*notes, summary, group.why])


def role_of(group: GroupPage, broker: BrokerShape) -> str:
    """What a broker is in its group, in a word or two."""
    if group.leader is not None and group.leader.broker_id == broker.broker_id:
        return "leader"
    if broker.learner:
        return "learner"
    return "in sync" if broker.broker_id in group.in_sync else "exited" if broker.exited else "behind"


def _leader(leader: MasterShape | None) -> str:
    return f"broker {leader.broker_id}" if leader else "none"


def ids(values: Sequence[int]) -> str:
    """Numbers of brokers in a row."""
    return ",".join(map(str, values)) or "none"
