"""How broker groups are, put together from what controllers and brokers say of themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert, json

from logherd.cli.controllers import of_another_version
from logherd.cli.groups import role_of
from logherd.service.admin.runtime import REPLICATION_KEY
from logherd.service.controllers.documents import NOTHING_PENDING, BrokerShape, GroupPage, GroupSummary
from logherd.service.replica_view import FollowerView, ReplicationView

__all__ = ["BrokerLine", "GroupState", "ask_leader", "of_brokers", "of_page", "of_summary"]


_CHANGING = "A change of the in-sync set is pending."


class _Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class BrokerLine(_Shape, frozen=True, kw_only=True):
    """One broker. What is not known is None; `lag_ms`: since when it has not had everything. `copying`: while much is
    copied to it, the share that is there."""

    broker_id: int
    role: str
    address: str
    alive: bool | None
    end: int | None
    lag_bytes: int | None
    lag_ms: int | None
    copying: float | None


class GroupState(_Shape, frozen=True, kw_only=True):
    """One group. `serves`: its leader answers and takes writes. `pending` and `why` are sentences, for people. Of one
    among many its `brokers` were not asked for: None."""

    cluster: str
    name: str
    epoch: int
    leader: int | None
    leader_address: str
    serves: bool
    in_sync: Sequence[int]
    min_in_sync: int
    brokers: Sequence[BrokerLine] | None
    pending: str | None
    why: str


def ask_leader(address: str) -> ReplicationView | None:
    """How the broker at host:port sees its group; None if it does not answer, or is alone. Blocks for some seconds."""
    import asyncio

    from logherd.client.errors import ClientError
    from logherd.client.peers import Peers
    from logherd.net.errors import NetError
    from logherd.wire.bodies import decode_body
    from logherd.wire.bodies.routes import KVTable
    from logherd.wire.codes import RequestCode
    from logherd.wire.errors import BodyError
    from logherd.wire.frame import Frame

    async def ask() -> str | None:
        peers = Peers()
        try:
            answer = await peers.ask(address, Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 0))
            return dict(decode_body(KVTable, answer.body).table).get(REPLICATION_KEY)
        finally:
            await peers.close()

    try:
        told = asyncio.run(ask())
        return None if told is None else json.decode(told, type=ReplicationView)
    except (ClientError, NetError, BodyError, ValidationError, ValueError):
        return None


def of_page(group: GroupPage, view: ReplicationView | None) -> GroupState:
    """A group as the controllers know it, and as its leader does, if that could be asked and leads in this epoch."""
    leads = view if view is not None and view.role == "leader" and view.epoch == group.epoch else None
    leader = group.leader
    followers = {each.broker_id: each for each in leads.followers} if leads is not None else {}
    first = next((each for each in group.brokers if leader is not None and each.broker_id == leader.broker_id), None)
    serving = leader is not None and leader.serving is True
    return GroupState(
        cluster=group.cluster, name=group.name, epoch=group.epoch, leader=None if leader is None else leader.broker_id,
        leader_address="" if leader is None else leader.address,
        serves=serving and len(group.in_sync) >= group.rules.min_in_sync and (leads is None or leads.closed is None),
        in_sync=group.in_sync, min_in_sync=group.rules.min_in_sync,
        brokers=[_line(group, each, first, followers.get(each.broker_id)) for each in group.brokers],
        pending=_pending(group, leads), why=_why(group, leads),
    )  # fmt: skip


def of_summary(group: GroupSummary) -> GroupState:
    """A group as a list of the controllers has it, whose leader is not asked: it serves as far as they know."""
    leader = group.leader
    return GroupState(
        cluster=group.cluster, name=group.name, epoch=group.epoch, leader=None if leader is None else leader.broker_id,
        leader_address="" if leader is None else leader.address,
        serves=leader is not None and leader.serving is True and len(group.in_sync) >= group.min_in_sync,
        in_sync=group.in_sync, min_in_sync=group.min_in_sync, brokers=None, pending=None, why=group.why,
    )  # fmt: skip


def _line(group: GroupPage, broker: BrokerShape, leader: BrokerShape | None, seen: FollowerView | None) -> BrokerLine:
    leads = leader is not None and leader.broker_id == broker.broker_id
    lag, lag_ms = (0, 0) if leads else (None, None)
    if seen is not None:
        lag, lag_ms = seen.lag_bytes, seen.lag_ms
    elif not leads and leader is not None and leader.end.epoch == broker.end.epoch:
        lag = max(leader.end.position - broker.end.position, 0)  # by their heartbeats
    return BrokerLine(
        broker_id=broker.broker_id, role=role_of(group, broker), address=broker.address, alive=broker.alive,
        end=broker.end.position, lag_bytes=lag, lag_ms=lag_ms, copying=None if seen is None else seen.copying,
    )  # fmt: skip


def _pending(group: GroupPage, view: ReplicationView | None) -> str | None:
    if group.transfer is not None:
        return f"leadership goes to broker {group.transfer.target}"
    return _proposed(view)


def _proposed(view: ReplicationView | None) -> str | None:
    if view is None or view.pending is None:
        return None
    members = ", ".join(map(str, view.pending.members))
    return f"in-sync set {members} proposed {view.pending.age_ms} ms ago: {view.pending.why}"


def _why(group: GroupPage, view: ReplicationView | None) -> str:
    """The controllers know nothing of what the leader has only proposed to them, and not why it takes no writes."""
    if view is None or (view.closed is None and view.pending is None):
        return group.why
    said = [] if group.why == NOTHING_PENDING else [group.why]
    if view.closed is not None:
        said.append(f"No writes are taken: {view.closed}.")
    return " ".join(said) or _CHANGING


def of_brokers(documents: Sequence[Mapping[str, Any]]) -> list[GroupState]:
    """Groups from the status pages of their brokers, as many as could be asked. Raises: ControllersError."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    try:
        for each in documents:
            groups.setdefault((str(each["cluster"]), str(each["group"])), []).append(each)
        return [_of_group(cluster, name, pages) for (cluster, name), pages in sorted(groups.items())]
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise of_another_version("broker", f"{error} is missing" if isinstance(error, KeyError) else error) from error


def _of_group(cluster: str, name: str, pages: Sequence[Mapping[str, Any]]) -> GroupState:
    leading = [page for page in pages if page["role"] == "leader"]
    leader = max(leading, key=lambda page: int(page["epoch"]), default=None)  # a former one may not know yet
    first = leader or next((page for page in pages if page.get("replication") is not None), pages[0])
    told = first.get("replication")
    view = None if told is None else convert(told, ReplicationView)
    alone = view is None and leader is not None
    known = None if view is None or view.leader is None else view.leader
    serves = alone and bool(leader and leader["ready"])
    if view is not None:
        serves = view.serving and view.closed is None
    return GroupState(
        cluster=cluster, name=name, epoch=int(first["epoch"]) if view is None else view.epoch,
        leader=int(leader["brokerId"]) if leader is not None else None if known is None else known.broker_id,
        leader_address=str(leader["address"]) if leader is not None else "" if known is None else known.address,
        serves=serves,
        in_sync=[int(page["brokerId"]) for page in pages if not page.get("healing")]
        if view is None else view.in_sync.members,
        min_in_sync=1 if view is None else view.in_sync.min_in_sync, brokers=_lines(pages, view),
        pending=_proposed(view), why=" ".join((_why_of(view, alone=alone), *_ills_of(pages))),
    )  # fmt: skip


def _ills_of(pages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each broker whose log is damaged, or that refuses messages for a reason that it knows better."""
    for page in pages:
        if healing := page.get("healing"):
            told = f"{healing['doing']}, {healing['fetchedBytes']} of {healing['damagedBytes']} damaged bytes fetched"
            said = "; ".join(f"broker {number}: {reason}" for number, reason in healing["said"].items())
            waits = f" ({said})" if said and healing["doing"] == "waiting" else ""
            lost = "; no broker has that whole, see docs/stores.md" if healing.get("nobodyHas") else ""
            unkept = f"; {healing['unkept']}" if healing.get("unkept") else ""
            yield f"Broker {page['brokerId']} heals its log: {told}{waits}{lost}{unkept}."
        elif damage := page.get("damage"):
            yield f"Broker {page['brokerId']} has met damage in its store: {'; '.join(damage)}."
        refuses = page.get("refuses")
        if refuses and refuses != (page.get("replication") or {}).get("closed"):
            yield f"Broker {page['brokerId']} takes no messages: {refuses}."


def _why_of(view: ReplicationView | None, *, alone: bool) -> str:
    if view is None:
        return "The broker is alone in its group." if alone else "No leader is among the brokers that were asked."
    if view.closed is not None:
        return f"No writes are taken: {view.closed}."
    return NOTHING_PENDING if view.pending is None else _CHANGING


def _lines(pages: Sequence[Mapping[str, Any]], view: ReplicationView | None) -> list[BrokerLine]:
    followers = {} if view is None else {each.broker_id: each for each in view.followers}
    lines = {}
    for page in pages:
        number, leads = int(page["brokerId"]), page["role"] == "leader"
        seen = followers.pop(number, None)
        lag = (0, 0) if leads else (None, None) if seen is None else (seen.lag_bytes, seen.lag_ms)
        lines[number] = BrokerLine(
            broker_id=number, role=str(page["role"]), address=str(page["address"]), alive=True,
            end=int(page["endPosition"]), lag_bytes=lag[0], lag_ms=lag[1],
            copying=None if seen is None else seen.copying,
        )  # fmt: skip
    for number, seen in followers.items():
        lines[number] = BrokerLine(
            broker_id=number, role="in sync" if seen.in_sync else "behind", address="", alive=seen.connected,
            end=seen.flushed, lag_bytes=seen.lag_bytes, lag_ms=seen.lag_ms, copying=seen.copying,
        )  # fmt: skip
    return [lines[number] for number in sorted(lines)]
