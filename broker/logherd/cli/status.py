"""`logherd status`: who leads each group, who is in sync, how far the others are behind, what is pending and why.

The controllers are asked, and each group's leader for what only it knows; or brokers by themselves; or, if nobody is
named, the group that `logherd up` runs from this folder.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, cell, show_table
from logherd.cli.controllers import Controllers, ControllersError

if TYPE_CHECKING:
    from logherd.cli.group_states import GroupState

__all__ = ["status"]

status = typer.Typer(add_completion=False)

LOCAL = "logherd.status"
"""Entry points by which another package shows what runs on this machine."""
_GROUPS_MAX = 20
"""So many groups are shown with their brokers."""
_HEAD = ("group", "broker", "role", "address", "alive", "end", "lag bytes", "lag s")
_SHORT_HEAD = ("group", "epoch", "leader", "in sync", "why")

AnyAdminOption = Annotated[
    list[str] | None,
    typer.Option(
        "--admin", envvar="LOGHERD_ADMIN", metavar="HOST:PORT",
        help="Admin address of a controller, or of a group's brokers; may be given again.",
    ),
]  # fmt: skip


@status.command()
def status_command(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Only this one: its name, or CLUSTER/NAME.")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option("--controllers", metavar="HOST:PORT,...", help="Admin addresses of the controllers."),
    ] = None,
    admin: AnyAdminOption = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="The folder of a group on this machine; default: .logherd/GROUP."),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show leaders, in-sync sets, lag, and what is pending and why; the exit code is 1 if a group does not serve."""
    listed = [each.strip() for each in (controllers or "").split(",") if each.strip()]
    if controllers is not None and not listed:
        raise typer.BadParameter("name at least one controller", param_hint="--controllers")
    named = [*(admin or []), *listed]
    if data is not None and (controllers is not None or group is not None):
        raise typer.BadParameter("--data is for a group on this machine, which is not asked through controllers")
    if data is None and named:
        option = "--controllers" if listed else "--admin"
        raise typer.Exit(_show_asked(named, Controllers(named, option=option), group, output))
    if group is not None:
        raise typer.BadParameter("to look at one of several groups name their controllers with --controllers")
    raise typer.Exit(_show_local(data, output))


def _show_local(data: Path | None, output: Output) -> int:
    point = next(iter(entry_points(group=LOCAL, name="local")), None)
    if point is None:
        raise ControllersError("nothing is known of this machine; name the controllers with --controllers")
    from typer.main import get_command

    arguments = [*(() if data is None else ("--data", str(data))), "--output", output.value]
    code = get_command(point.load()).main(args=arguments, prog_name="logherd status", standalone_mode=False)
    return code if isinstance(code, int) else exits.OK


def _show_asked(named: Sequence[str], controllers: Controllers, group: str | None, output: Output) -> int:
    from logherd.cli.group_states import of_brokers

    pages = dict(zip(named, controllers.statuses(), strict=True))
    found = [page for page in pages.values() if page is not None]
    brokers = [page for page in found if "brokerId" in page]
    if brokers and len(brokers) == len(found):
        states = of_brokers(brokers)
        if group is not None:
            states = [each for each in states if group in (each.name, f"{each.cluster}/{each.name}")]
            if not states:
                raise ControllersError(f"none of the brokers that answer is of a group {group}")
    else:
        return _show_groups(controllers, group, output)
    return _show_states(states, output, [each for each, page in pages.items() if page is None])


def _show_groups(controllers: Controllers, group: str | None, output: Output) -> int:
    from logherd.cli.group_states import ask_leader, of_page, of_summary
    from logherd.cli.groups import all_groups, ids, path_of
    from logherd.service.controllers.documents import GroupPage

    if group is not None:
        paths = [path_of(controllers, group)]
    else:
        found = all_groups(controllers, stale=False)
        if len(found) > _GROUPS_MAX:
            rows = [
                (f"{each.cluster}/{each.name}", each.epoch, "none" if each.leader is None else each.leader.broker_id,
                 ids(each.in_sync), each.why) for each in found
            ]  # fmt: skip
            states = [of_summary(each) for each in found]
            show_table(output, _document(states), _SHORT_HEAD, rows, notes=["name a group to see its brokers"])
            return _code(states)
        paths = [path_of(controllers, f"{each.cluster}/{each.name}") for each in found]
    pages = [controllers.read(path, GroupPage) for path in paths]
    return _show_states(
        [of_page(page, None if page.leader is None else ask_leader(page.leader.address)) for page in pages], output
    )


def _show_states(states: "list[GroupState]", output: Output, unanswered: Sequence[str] = ()) -> int:
    """`unanswered`: brokers that were to speak for themselves; of a group that is only them nothing is known."""
    rows = [
        (
            f"{each.cluster}/{each.name}", broker.broker_id, broker.role, broker.address or "-", cell(broker.alive),
            cell(broker.end), cell(broker.lag_bytes), "-" if broker.lag_ms is None else f"{broker.lag_ms / 1000:.1f}",
        )
        for each in states for broker in each.brokers or ()
    ]  # fmt: skip
    notes = [line for each in states for line in _sentences(each)] or ["no groups"]
    notes += [f"{each} does not answer" for each in unanswered]
    show_table(output, _document(states, unanswered), _HEAD, rows, notes=notes)
    return _code(states)


def _document(states: "list[GroupState]", unanswered: Sequence[str] = ()) -> dict[str, object]:
    return {"groups": states, "unanswered": unanswered}


def _code(states: "list[GroupState]") -> int:
    return exits.OK if all(each.serves for each in states) else exits.FAILED


def _sentences(state: "GroupState") -> list[str]:
    from logherd.cli.groups import ids

    leader = "no leader" if state.leader is None else f"leader broker {state.leader} at {state.leader_address}"
    serves = "serves" if state.serves else "does not serve"
    head = (
        f"{state.cluster}/{state.name} {serves}: epoch {state.epoch}, {leader}, in sync {ids(state.in_sync)}, "
        f"at least {state.min_in_sync}"
    )
    copies = [
        f"  broker {each.broker_id} copies the log: {int(100 * each.copying)} % is there"
        for each in state.brokers or () if each.copying is not None
    ]  # fmt: skip
    return [head, *([f"  pending: {state.pending}"] if state.pending else []), *copies, f"  {state.why}"]
