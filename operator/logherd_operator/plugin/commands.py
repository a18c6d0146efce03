"""`kubectl logherd`: arguments to calls of this room, errors to one sentence and an exit code.

Exit codes: 0 it is so or was done; 1 it is not so (a group that takes no writes), was refused, or nobody answered; 2
the command line is wrong, or there is no such group or kubeconfig.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import ClusterError, NotNow, Refused, Unreachable
from logherd_operator.clients.session import Chosen, choose_access, opened
from logherd_operator.handlers.known import Key
from logherd_operator.plugin.cluster import Read, read_group_objects
from logherd_operator.plugin.orders import OrderRefused, order_restart, order_switchover, set_reconcile
from logherd_operator.plugin.planned import look_for, plan_document, plan_for, plan_text
from logherd_operator.plugin.telling import is_available, report_document, status_document, status_text
from logherd_operator.spec.errors import OperatorError

__all__ = ["main", "plugin"]

FAILED = 1
USAGE = 2
_POLL_SECONDS = 1.0
_Result = TypeVar("_Result")

plugin = typer.Typer(
    name="kubectl logherd", add_completion=False, no_args_is_help=True, help="BrokerGroups of a cluster.",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the BrokerGroup.")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
WaitOption = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for it; 0: not at all.")]


@dataclass(frozen=True, slots=True)
class _Where:
    kubeconfig: Path | None
    context: str | None
    namespace: str | None


@plugin.callback()
def where(
    ctx: typer.Context,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Else that of the context.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig; else the current one.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="File; else ~/.kube/config.")] = None,
) -> None:
    """BrokerGroups of a cluster."""
    ctx.obj = _Where(kubeconfig, context, namespace)


@plugin.command()
def status(ctx: typer.Context, group: GroupName, output: OutputOption = Output.TEXT) -> None:
    """Show what the operator last saw; the exit code is 1 if the group takes no writes."""

    async def look(_api: Api, key: Key, read: Read) -> dict[str, Any]:
        return status_document(read.group(key) or {})

    document = _run(ctx, group, look)
    _print(document, output, status_text)
    raise typer.Exit(0 if is_available(document) else FAILED)


@plugin.command()
def plan(ctx: typer.Context, group: GroupName, output: OutputOption = Output.TEXT) -> None:
    """Show what the operator would do next, and why; needs the right to `get` `pods/proxy`."""

    async def look(api: Api, key: Key, read: Read) -> dict[str, Any]:
        return plan_document(await plan_for(api, key, read, time.time()))

    _print(_run(ctx, group, look), output, plan_text)


@plugin.command()
def switchover(
    ctx: typer.Context, group: GroupName,
    to: Annotated[int | None, typer.Option(min=1, metavar="N", help="Broker; else the first that is in sync.")] = None,
    wait: WaitOption = 60, output: OutputOption = Output.TEXT,
) -> None:  # fmt: skip
    """Have another broker lead."""

    async def act(api: Api, key: Key, read: Read) -> dict[str, Any]:
        seen = partial(look_for, api, key, read)
        target, epoch = await order_switchover(api, key, read.group(key) or {}, to, seen)
        leads = await _until(api, key, wait, lambda told: (told.get("leader") or {}).get("brokerId") == target)
        return {"target": target, "endsEpoch": epoch, "done": leads}

    _finish(ctx, group, act, output, "broker {target} is to lead after epoch {endsEpoch}", wait)


@plugin.command()
def restart(ctx: typer.Context, group: GroupName, output: OutputOption = Output.TEXT) -> None:
    """Have all controllers and brokers restarted one after the other, the leader last."""

    async def act(api: Api, key: Key, read: Read) -> dict[str, Any]:
        return {"restartAt": await order_restart(api, key, read.group(key) or {}, time.time()), "done": None}

    _finish(ctx, group, act, output, "whatever was started before {restartAt} is restarted", 0)


@plugin.command()
def pause(
    ctx: typer.Context, group: GroupName,
    everything: Annotated[bool, typer.Option("--everything", help="Also what takes nothing away.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:  # fmt: skip
    """Hold the operator back from restarts, switchovers and removals."""
    _set(ctx, group, "Off" if everything else "NoDisruption", output)


@plugin.command()
def resume(ctx: typer.Context, group: GroupName, output: OutputOption = Output.TEXT) -> None:
    """Let the operator go on."""
    _set(ctx, group, "Full", output)


@plugin.command()
def report(ctx: typer.Context, group: GroupName) -> None:
    """Print everything about the group as JSON, for whoever helps; no Secret is read."""
    typer.echo(json.dumps(_run(ctx, group, report_document), indent=1))


def _set(ctx: typer.Context, group: str, value: Any, output: Output) -> None:
    async def act(api: Api, key: Key, read: Read) -> dict[str, Any]:
        changed = await set_reconcile(api, key, read.group(key) or {}, value)
        return {"reconcile": value, "changed": changed, "done": None}

    _finish(ctx, group, act, output, "reconcile is {reconcile}", 0)


async def _until(api: Api, key: Key, seconds: float, so: Callable[[Mapping[str, Any]], bool]) -> bool | None:
    """Whether the status has become so in time; None if nobody wants to wait. The order stands, whoever cannot be asked
    meanwhile.
    """
    if not seconds:
        return None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(Unreachable, NotNow):
            read = await read_group_objects(api, key)
            if so((read.group(key) or {}).get("status") or {}):
                return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


def _finish(
    ctx: typer.Context, group: str, act: Callable[[Api, Key, Read], Awaitable[dict[str, Any]]], output: Output,
    sentence: str, wait: float,
) -> None:  # fmt: skip
    document = _run(ctx, group, act)
    _print(document, output, lambda told: f"{group}: {sentence.format(**told)}")
    if document["done"] is False:
        sys.stderr.write(f"kubectl logherd: it was ordered, and is not done after {wait:g} s; see: status, plan\n")
        raise typer.Exit(FAILED)


def _run(
    ctx: typer.Context, group: str, work: Callable[[Api, Key, Read], Awaitable[_Result]]
) -> _Result:  # fmt: skip
    found: _Where = ctx.obj
    try:
        return asyncio.run(_with_cluster(found, group, work))
    except OperatorError as error:
        wrong = isinstance(error, ClusterError) and not isinstance(error, OrderRefused | Refused | Unreachable)
        code, said = USAGE if wrong else FAILED, str(error)
    sys.stderr.write(f"kubectl logherd: {said}\n")
    raise typer.Exit(code)


async def _with_cluster(
    found: _Where, group: str, work: Callable[[Api, Key, Read], Awaitable[_Result]]
) -> _Result:  # fmt: skip
    chosen: Chosen = await choose_access(found.kubeconfig, found.context)
    key = Key(found.namespace or chosen.namespace, group)
    async with opened(chosen.access) as transport:
        api = Api(transport)
        return await work(api, key, await read_group_objects(api, key))


def _print(document: Mapping[str, Any], output: Output, words: Callable[[Mapping[str, Any]], str]) -> None:
    typer.echo(json.dumps(document, indent=2) if output is Output.JSON else words(document))


def main() -> None:
    """The console script `kubectl-logherd`, which kubectl finds by its name."""
    try:
        plugin(prog_name="kubectl logherd")
    except OSError as error:
        # Of the output: what could not be written is not tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"kubectl logherd: {error.strerror or error}\n")
        sys.exit(FAILED)
