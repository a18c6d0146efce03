"""What a group on this machine is doing: one document for scripts, whose keys stay, and a text for people."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from logherd_operator.local.addresses import Addresses
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import Look, Page, look_at
from logherd_operator.local.processes import is_alive, lives
from logherd_operator.local.reasons import place_reason, why_not_served
from logherd_operator.local.state import GroupState, PlaceState

__all__ = ["document_of", "notes_of", "observe", "serves", "table_of", "to_text"]

Document = dict[str, Any]
_HEAD = ("process", "role", "address", "pid", "ready", "end", "committed", "lag bytes", "lag s")


def observe(folder: Folder, state: GroupState) -> Document:
    """Look at everything; blocks for about 2 s for each process that lives and does not answer."""
    return document_of(look_at(state, folder), folder.document("now.json"))


def document_of(look: Look, now: Mapping[str, Any] | None) -> Document:
    """Shape: group, nameServer, leader {brokerId, address, pid, epoch} or None, inSync [ids], brokers [{brokerId, role,
    address, pid, guardian, ready, endPosition, committedPosition, lagBytes, lagMs, copying, hot, why}], controllers
    [{id, role, address, pid, guardian, term, why}], generation, keeper (pid or None), doing {type, state, message} or
    None, held [{code, message, unblocks}], fault (of the file) or None, pending (a change of the in-sync set) or None,
    why nobody leads or messages are refused or None. Who cannot be asked has the role "unknown"; who does not live has
    no pid.
    """
    state = look.state
    pages = dict(zip(state.places, look.pages, strict=True))
    at = Addresses(state.host, state.ports)
    leader = _leader(pages)
    said = _replication(pages, leader)
    brokers = [
        {**_broker(place, page, look, at), **_lag(place.ordinal + 1, leader, said)}
        for place, page in pages.items() if place.component == "broker"
    ]  # fmt: skip
    controllers = [_controller(place, page, look, at) for place, page in pages.items() if place.component != "broker"]
    keeper = state.keeper
    kept = lives(keeper)
    told = dict(now or {}) if kept else {}
    return {
        "group": state.group,
        "nameServer": ";".join(state.name_servers),
        "leader": leader,
        "inSync": _in_sync(look, pages),
        "brokers": brokers,
        "controllers": controllers,
        "generation": told.get("generation", state.generation),
        "keeper": keeper.pid if kept and keeper is not None else None,
        "doing": told.get("doing"),
        "held": told.get("held") or [],
        "fault": told.get("fault"),
        "pending": _pending(said),
        "why": why_not_served(look.observed) or None,
    }


def serves(document: Document) -> bool:
    """Is there a leader that takes messages?"""
    return document["leader"] is not None and bool(document["inSync"]) and not document["why"]


def _leader(pages: Mapping[PlaceState, Page]) -> Document | None:
    """The broker that says that it leads, and of several the one in the latest epoch."""
    told = [page.status for page in pages.values() if page.status is not None and page.status.get("role") == "leader"]
    leading = [
        each for each in told if "brokerId" in each and isinstance(each.get("epoch", 0), int) and _may_lead(each)
    ]
    if not leading:
        return None
    leader = max(leading, key=lambda each: int(each.get("epoch", 0)))
    return {key: leader.get(key) for key in ("brokerId", "address", "pid", "epoch")}


def _may_lead(page: Mapping[str, Any]) -> bool:
    """Where no controllers elect it, a leader counts only if it serves."""
    said = page.get("replication")
    if not isinstance(said, Mapping):
        return True
    return said.get("mode") not in ("raft", "static") or bool(said.get("serving"))


def _replication(pages: Mapping[PlaceState, Page], leader: Document | None) -> Mapping[str, Any]:
    """The group as its leader sees it; empty if there is none, or it is alone. May be of another version's form."""
    for page in pages.values() if leader is not None else ():
        told = page.status or {}
        said = told.get("replication")
        if leader and told.get("role") == "leader" and told.get("brokerId") == leader["brokerId"]:
            return said if isinstance(said, Mapping) else {}
    return {}


def _lag(broker_id: int, leader: Document | None, said: Mapping[str, Any]) -> Document:
    """What of the leader's log a broker has not flushed, since when it has not had everything, and, while much is
    copied to it, the share that is there."""
    if leader is not None and leader["brokerId"] == broker_id:
        return {"lagBytes": 0, "lagMs": 0, "copying": None}
    followers = said.get("followers")
    seen = [each for each in (followers if isinstance(followers, list) else ()) if isinstance(each, Mapping)]
    told = next((each for each in seen if each.get("brokerId") == broker_id), {})
    kinds = {"lagBytes": int, "lagMs": int, "copying": float}
    return {name: value if isinstance(value := told.get(name), kind) else None for name, kind in kinds.items()}


def _pending(said: Mapping[str, Any]) -> str | None:
    pending = said.get("pending")
    members = pending.get("members") if isinstance(pending, Mapping) else None
    if not isinstance(pending, Mapping) or not isinstance(members, list):
        return None
    ids = ", ".join(map(str, members)) or "none"
    return f"in-sync set {ids} proposed {pending.get('ageMs')} ms ago: {pending.get('why')}"


def _in_sync(look: Look, pages: Mapping[PlaceState, Page]) -> list[int]:
    """As those have it who know who leads; if they cannot be asked, as the leader last heard."""
    group = look.observed.group
    if group is not None:
        return list(group.in_sync)
    for page in pages.values():
        if page.status is not None and page.status.get("role") == "leader" and page.status.get("replication"):
            with suppress(KeyError, TypeError, ValueError):  # another version may say it in another form
                return [int(each) for each in page.status["replication"]["inSync"]["members"]]
    return []


def _why(place: PlaceState, look: Look) -> str:
    slots = look.observed.slots(place.component)
    slot = next((each for each in slots if each.ordinal == place.ordinal), None)
    return "" if slot is None else place_reason(slot)


def _broker(place: PlaceState, page: Page, look: Look, at: Addresses) -> Document:
    told: Mapping[str, Any] = page.status or {}
    return {
        "brokerId": place.ordinal + 1,
        "role": told.get("role", "unknown"),
        "address": told.get("address") or at.broker(place.ordinal).listen,
        "pid": page.child.pid if page.child is not None else told.get("pid"),
        "guardian": _guardian(place),
        "ready": bool(told.get("ready")),
        "endPosition": told.get("endPosition"),
        "committedPosition": told.get("committedPosition"),
        "hot": told.get("hot"),
        "why": _why(place, look),
    }


def _controller(place: PlaceState, page: Page, look: Look, at: Addresses) -> Document:
    told: Mapping[str, Any] = page.status or {}
    return {
        "id": f"c{place.ordinal}",
        "role": told.get("role", "unknown"),
        "address": at.controller(place.ordinal).listen,
        "pid": page.child.pid if page.child is not None else told.get("pid"),
        "guardian": _guardian(place),
        "term": told.get("term"),
        "why": _why(place, look) or _apart(told),
    }


def _apart(told: Mapping[str, Any]) -> str:
    """Why a controller takes no part in its quorum. Its role does not tell: whom the others refuse follows nobody."""
    if told.get("ready", True):
        return ""
    peers = told.get("peers")
    refusals = [
        f"{each.get('node')}: {each['refused']}"
        for each in (peers if isinstance(peers, list) else ()) if isinstance(each, Mapping) and each.get("refused")
    ]  # fmt: skip
    return "; ".join([told.get("whyNotReady") or "it is not ready", *refusals])


def _guardian(place: PlaceState) -> int | None:
    guardian = place.guardian
    return guardian.pid if guardian is not None and is_alive(guardian.pid, guardian.ticks) else None


def to_text(document: Document) -> str:
    """The same for people."""
    leader = document["leader"]
    leading = f"broker {leader['brokerId']} at {leader['address']}, epoch {leader['epoch']}" if leader else "none"
    in_sync = ", ".join(str(each) for each in document["inSync"]) or "none"
    head = [
        f"group        {document['group']}",
        f"name server  {document['nameServer']}",
        f"leader       {leading}",
        f"in sync      {in_sync}",
    ]
    if document["why"]:
        head.append(f"why          {document['why']}")
    if document["pending"]:
        head.append(f"pending      {document['pending']}")
    if document["doing"] is not None:
        head.append(f"doing        {document['doing']['message']}")
    head += [f"held         {each['message']}; it takes: {each['unblocks']}" for each in document["held"]]
    if document["fault"]:
        head.append(f"file         {document['fault']}")
    rows = [row for row in table_of(document) if row]
    running = any(each["guardian"] for each in (*document["brokers"], *document["controllers"]))
    return "\n".join([*head, "", *(_aligned(rows) if running else ["nothing is running"]), *notes_of(document)])


def table_of(document: Document) -> list[tuple[str, ...]]:
    """A head and one row for each place."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for each in document["controllers"]:
        ready = "yes" if each["role"] in ("leader", "follower") and not each["why"] else "no"
        rows.append(_row(f"controller {each['id']}", each["role"], each["address"], each["pid"], ready, *[None] * 4))
    for each in document["brokers"]:
        seconds = None if each["lagMs"] is None else f"{each['lagMs'] / 1000:.1f}"
        positions = (each["endPosition"], each["committedPosition"], each["lagBytes"], seconds)
        ready = "yes" if each["ready"] else "no"
        rows.append(_row(f"broker {each['brokerId']}", each["role"], each["address"], each["pid"], ready, *positions))
    return rows


def _row(*values: object) -> tuple[str, ...]:
    return tuple("-" if value is None else str(value) for value in values)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def notes_of(document: Document) -> list[str]:
    """A line for each place that has something to say."""
    controllers = [(f"controller {each['id']}", each["why"]) for each in document["controllers"]]
    brokers = [(f"broker {each['brokerId']}", each["why"] or _copying(each)) for each in document["brokers"]]
    return [f"{name}: {why}" for name, why in [*controllers, *brokers] if why]


def _copying(broker: Mapping[str, Any]) -> str:
    share = broker["copying"]
    return "" if share is None else f"copies the log: {int(100 * share)} % is there"
