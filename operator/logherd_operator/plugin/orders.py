"""What a person may order of a group: as the annotations and fields by which the operator is told."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import ClusterError, Conflict
from logherd_operator.handlers.known import Key
from logherd_operator.observed.observed import Observed
from logherd_operator.observed.quorum import Group
from logherd_operator.plugin.cluster import group_path
from logherd_operator.spec.group import API_GROUP

__all__ = ["OrderRefused", "choose_successor", "choose_target", "order_restart", "order_switchover", "set_reconcile"]

Document = Mapping[str, Any]


class OrderRefused(ClusterError):
    """The group's state does not allow it; nothing was changed."""


def choose_target(status: Document, wanted: int | None) -> int:
    """Which broker is to lead: the named one, or the first other that can. Raises: OrderRefused, which says why."""
    leader = status.get("leader")
    if not leader:
        raise OrderRefused("nobody leads, so there is nobody to take over from")
    brokers = {int(each["brokerId"]): each for each in status.get("brokers", ())}
    fit = [number for number, each in sorted(brokers.items()) if each["inSync"] and each["ready"]]
    others = [number for number in fit if number != leader["brokerId"]]
    if wanted is None:
        if not others:
            raise OrderRefused("no other broker is ready and in sync")
        return others[0]
    if wanted == leader["brokerId"]:
        raise OrderRefused(f"broker {wanted} leads already, in epoch {leader['epoch']}")
    if wanted not in others:
        named = ", ".join(map(str, others)) or "nobody else"
        raise OrderRefused(f"broker {wanted} is not ready and in sync; {named} could take over")
    return wanted


def choose_successor(group: Group | None, wanted: int | None) -> tuple[int, int]:
    """Mode Static, whose leader is lost: the named broker, if that loses nothing, and the epoch that this ends.
    Raises: OrderRefused, which says why.

    Nobody is chosen here: the lost leader may come back, and whoever waits for that knows it better.
    """
    table = group.own.table if group is not None and group.own is not None else None
    if group is None or table is None:
        raise OrderRefused("nobody leads, and no broker tells the table of roles")
    able = ", ".join(map(str, table.promotable))
    if not able:
        raise OrderRefused("nobody leads, and no broker is known to have everything: see logherd replica roles")
    if wanted is None:
        raise OrderRefused(f"nobody leads, and in mode Static nobody takes over by itself: --to one of {able}")
    if wanted not in table.promotable:
        raise OrderRefused(f"broker {wanted} may lack what table {table.number} acknowledged; {able} could take over")
    return wanted, group.epoch


async def order_switchover(
    api: Api, key: Key, group: Document, wanted: int | None, seen: Callable[[], Awaitable[Observed | None]]
) -> tuple[int, int]:  # fmt: skip
    """Have another broker lead; which one, and the epoch that this ends.

    `seen` looks at the pods, for a group in mode Static without a leader. Raises: OrderRefused, ClusterError.
    """
    status = group.get("status") or {}
    mode = ((group.get("spec") or {}).get("replication") or {}).get("mode")
    if not status.get("leader") and mode == "Static":
        observed = await seen()
        if observed is None:
            raise OrderRefused("the cluster is about to change; ask again in a moment")
        target, epoch = choose_successor(observed.group, wanted)
    else:
        target = choose_target(status, wanted)
        epoch = int(status["leader"]["epoch"])
    await _annotate(api, key, group, "switchover", f"{target}@{epoch}")
    return target, epoch


async def order_restart(api: Api, key: Key, group: Document, now: float) -> str:
    """Have everything restarted that was started before now, one after the other. Raises: ClusterError."""
    moment = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await _annotate(api, key, group, "restart-at", moment)
    return moment


async def set_reconcile(
    api: Api, key: Key, group: Document, value: Literal["Full", "NoDisruption", "Off"]
) -> bool:  # fmt: skip
    """What the operator may do; whether that is a change. Raises: OrderRefused, ClusterError."""
    if (group.get("spec") or {}).get("reconcile", "Full") == value:
        return False
    await _merge(api, key, group, {"spec": {"reconcile": value}})
    return True


async def _annotate(api: Api, key: Key, group: Document, name: str, value: str) -> None:
    await _merge(api, key, group, {"metadata": {"annotations": {f"{API_GROUP}/{name}": value}}})


async def _merge(api: Api, key: Key, group: Document, change: dict[str, Any]) -> None:
    """Over the object that was read: whoever changed it meanwhile may have wanted something else."""
    version = group["metadata"]["resourceVersion"]
    body = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": version}}
    try:
        await api.merge(group_path(key), body)
    except Conflict as error:
        raise OrderRefused("the BrokerGroup was changed a moment ago; look at it, and try again") from error
