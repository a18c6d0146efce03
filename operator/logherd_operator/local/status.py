"""What a group on this machine is doing: one document for scripts, whose keys stay, and a text for people."""

from typing import Any

from logherd_operator.local.admin import ask_status
from logherd_operator.local.processes import is_alive
from logherd_operator.local.state import GroupState, ProcessState

__all__ = ["observe", "serves", "to_text"]

Document = dict[str, Any]


def observe(state: GroupState) -> Document:
    """Ask every broker that lives; blocks for about 2 s for each that does not answer.

    Shape: group, nameServer, leader {brokerId, address, pid, epoch} or None, inSync [ids], brokers [{brokerId, role,
    address, pid, ready, endPosition, committedPosition}], controllers [] (this version has none). A broker that cannot
    be asked has the role "unknown" and no positions; one that does not live has no pid either.
    """
    answers = {each.broker_id: _ask(each) for each in state.processes}
    leader = next((answer for answer in answers.values() if answer and answer.get("role") == "leader"), None)
    return {
        "group": state.group,
        "nameServer": (leader or {}).get("nameServer") or state.name_server,
        "leader": leader and {key: leader.get(key) for key in ("brokerId", "address", "pid", "epoch")},
        "inSync": [leader["brokerId"]] if leader and leader.get("ready") else [],
        "brokers": [_broker(each, answers[each.broker_id]) for each in state.processes],
        "controllers": [],
    }


def serves(document: Document) -> bool:
    """Is there a leader that takes requests?"""
    return bool(document["inSync"])


def to_text(document: Document) -> str:
    """The same for people."""
    leader = document["leader"]
    leading = f"broker {leader['brokerId']} at {leader['address']}, epoch {leader['epoch']}" if leader else "none"
    in_sync = ", ".join(str(each) for each in document["inSync"]) or "none"
    rows: list[tuple[str, ...]] = [("broker", "role", "address", "pid", "ready", "end", "committed")]
    for each in document["brokers"]:
        ready = "yes" if each["ready"] else "no"
        values = (each["brokerId"], each["role"], each["address"], each["pid"], ready)
        positions = (each["endPosition"], each["committedPosition"])
        rows.append(tuple("-" if value is None else str(value) for value in (*values, *positions)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    head = [
        f"group        {document['group']}",
        f"name server  {document['nameServer']}",
        f"leader       {leading}",
        f"in sync      {in_sync}",
    ]
    return "\n".join([*head, "", *table] if document["brokers"] else [*head, "", "no broker is running"])


def _ask(process: ProcessState) -> Document | None:
    return ask_status(process.admin_address) if is_alive(process.pid, process.started_ticks) else None


def _broker(process: ProcessState, answer: Document | None) -> Document:
    alive = is_alive(process.pid, process.started_ticks)
    told = answer or {"role": "unknown", "ready": False, "pid": process.pid if alive else None}
    return {
        "brokerId": process.broker_id,
        "role": told.get("role"),
        "address": told.get("address") or process.address,
        "pid": told.get("pid"),
        "ready": bool(told.get("ready")),
        "endPosition": told.get("endPosition"),
        "committedPosition": told.get("committedPosition"),
    }
