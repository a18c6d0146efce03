"""`logherd switchover`: give a group another leader in order, and say when that one serves.

The controllers plan it as they do for `logherd groups elect`: the present leader takes no more writes, answers what it
has, and gives its lease back when the next one has everything. Nothing is lost; clients' requests are held meanwhile.
"""

import re
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from logherd.cli.arguments import Output, OutputOption, show
from logherd.cli.controllers import AdminOption, Controllers, ControllersError, TokenOption
from logherd.cli.groups import Done, EpochOption, GroupArgument, ids, path_of
from logherd.service.controllers.documents import BrokerShape, GroupPage

__all__ = ["switchover"]

switchover = typer.Typer(add_completion=False)

_LOOK_SECONDS = 0.1
_MOMENTS = re.compile(r"\d+ ms")
"""What makes one reason read differently each time that it is looked at."""


@switchover.command()
def switchover_command(
    group: GroupArgument,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="The broker that is to lead; default: the best one in sync.")
    ] = None,
    epoch: EpochOption = None,
    admin: AdminOption = None,
    token_file: TokenOption = None,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time until the new leader serves.")] = 30,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hand a group's leadership to another broker in sync, without loss, and wait until that one serves.

    Of a group whose mode is raft or static --admin names the brokers.
    """
    controllers = Controllers(admin, token_file)
    try:
        path = path_of(controllers, group)
        before = controllers.read(path, GroupPage)
    except ControllersError:
        from logherd.cli.own_leaders import brokers_of, switch

        brokers = brokers_of(admin, group) if admin else None
        if not brokers:
            raise
        started = time.monotonic()
        own = switch(brokers, to, epoch, token_file, wait)
        _end_own(output, own, time.monotonic() - started)
        return
    target = _target(before, to)
    if before.leader is not None and target == before.leader.broker_id:
        if epoch not in (None, before.epoch):
            said = f"broker {target} leads {_name(before)} already, but in epoch {before.epoch}, not {epoch}"
            raise ControllersError(f"{said}; an earlier try may have done it")
        _end(output, before, target, 0.0, f"broker {target} leads {_name(before)} already, in epoch {before.epoch}")
        return
    expected = before.epoch if epoch is None else epoch
    started = time.monotonic()
    controllers.change(f"{path}/elect", {"brokerId": target, "expectedEpoch": expected}, Done)
    _say(f"{_name(before)}: broker {_leader(before)} hands over to broker {target} after epoch {expected}")
    after = _await(lambda: controllers.read(path, GroupPage), target, expected, started + wait)
    seconds = time.monotonic() - started
    _end(output, after, target, seconds,
         f"broker {target} leads {_name(after)} in epoch {after.epoch}, after {seconds:.1f} s")  # fmt: skip


def _target(group: GroupPage, wanted: int | None) -> int:
    """Who is to lead. Raises: ControllersError with what stands against it, before anything is asked for."""
    name, leader = _name(group), group.leader
    if leader is None:
        raise ControllersError(f"{name} has no leader that could hand over: {group.why}")
    fit = [each for each in group.brokers if each.broker_id in group.in_sync and each.alive is not False]
    if wanted is None:
        others = [each for each in fit if each.broker_id != leader.broker_id]
        if not others:
            raise ControllersError(f"{name}: nobody but broker {leader.broker_id} is in sync and alive: {group.why}")
        return max(others, key=lambda each: _merit(group, each)).broker_id
    if wanted == leader.broker_id or any(each.broker_id == wanted for each in fit):
        return wanted
    found = next((each for each in group.brokers if each.broker_id == wanted), None)
    if found is None:
        known = ids([each.broker_id for each in group.brokers])
        raise ControllersError(f"{name} has no broker {wanted}; it has {known}")
    if found.broker_id in group.in_sync:
        raise ControllersError(f"broker {wanted} of {name} does not report, so it is not waited for")
    kind = "is a learner and never leads" if found.learner else "is not in sync"
    raise ControllersError(f"broker {wanted} of {name} {kind}; in sync are {ids(group.in_sync)}")


def _merit(group: GroupPage, broker: BrokerShape) -> tuple[bool, int, int, int]:
    """The preferred one first, then who has most, then the lowest number."""
    return broker.broker_id == group.rules.preferred, broker.end.epoch, broker.end.position, -broker.broker_id


def _await(look: Callable[[], GroupPage], target: int, epoch: int, until: float) -> GroupPage:
    """Return when the target serves in a later epoch. Raises: ControllersError if it does not come to that."""
    said = ""
    while True:
        try:
            group = look()
        except ControllersError:  # the controllers may be changing their own leader
            if time.monotonic() >= until:
                raise
            time.sleep(_LOOK_SECONDS)
            continue
        leader = group.leader
        if leader is not None and group.epoch > epoch:
            if leader.broker_id != target:
                raise ControllersError(f"broker {leader.broker_id} leads {_name(group)} now, not {target}: {group.why}")
            if leader.serving:
                return group
        if group.epoch == epoch and group.transfer is None and leader is not None:
            raise ControllersError(
                f"the hand-over was given up, broker {leader.broker_id} leads {_name(group)} as before: {group.why}"
            )
        if time.monotonic() >= until:
            raise ControllersError(f"broker {target} does not serve {_name(group)} yet; it may still: {group.why}")
        if (reason := _MOMENTS.sub("", group.why)) != said:
            said = reason
            _say(f"  {group.why}")
        time.sleep(_LOOK_SECONDS)


def _end(output: Output, group: GroupPage, target: int, seconds: float, sentence: str) -> None:
    document = {
        "cluster": group.cluster, "group": group.name, "leader": target, "epoch": group.epoch,
        "seconds": round(seconds, 3),
    }  # fmt: skip
    show(output, document, sentence)


def _end_own(output: Output, leads: dict[str, Any], seconds: float) -> None:
    document = {
        "cluster": leads["cluster"], "group": leads["group"], "leader": leads["brokerId"], "epoch": leads["epoch"],
        "seconds": round(seconds, 3),
    }  # fmt: skip
    name = f"{leads['cluster']}/{leads['group']}"
    show(output, document, f"broker {leads['brokerId']} leads {name} in epoch {leads['epoch']}, after {seconds:.1f} s")


def _say(line: str) -> None:
    """Progress, apart from the result."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _name(group: GroupPage) -> str:
    return f"{group.cluster}/{group.name}"


def _leader(group: GroupPage) -> object:
    return None if group.leader is None else group.leader.broker_id
