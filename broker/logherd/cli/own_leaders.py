"""Leaders of groups that no controllers lead (mode raft or static), by the admin addresses of the groups' brokers.

A leader counts if it says that it serves. Each order names what it was thought of for, an epoch or a table of roles.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert

from logherd.cli.controllers import Controllers, ControllersError, of_another_version
from logherd.service.replica_orders import HandingOver, RolesPage

__all__ = ["await_service", "brokers_of", "leader_of", "switch"]

Document = dict[str, Any]
_LOOK_SECONDS = 0.1


class _Replication(Struct, frozen=True):
    mode: str
    epoch: int


class _Told(Struct, frozen=True, rename="camel"):
    """What is needed of a status page."""

    cluster: str
    group: str
    broker_id: int
    epoch: int
    replication: _Replication


def brokers_of(admins: Sequence[str], group: str) -> dict[str, Document]:
    """Of those addresses the brokers of this group (NAME, or CLUSTER/NAME) that answer, if it leads itself. Raises:
    ControllersError if one says less than is needed."""
    found: dict[str, Document] = {}
    for admin, page in zip(admins, Controllers(admins).statuses(), strict=True):
        if page is None or _replication(page).get("mode") not in ("raft", "static"):
            continue
        if group in (page.get("group"), f"{page.get('cluster')}/{page.get('group')}"):
            found[admin] = _whole(page)
    return found


def leader_of(admins: Sequence[str]) -> tuple[str, Document]:
    """Who leads and serves: its address, and what it says. Raises: ControllersError if nobody does."""
    found = _serving(admins)
    if not found:
        raise ControllersError(f"none of {', '.join(admins)} leads and serves")
    return max(found.items(), key=lambda item: int(item[1]["epoch"]))


def await_service(admins: Sequence[str], epoch: int, wait: float) -> Document:
    """What whoever leads after this epoch says of itself. Raises: ControllersError after `wait` seconds."""
    over = time.monotonic() + wait
    while True:
        after = next((each for each in _serving(admins).values() if each["epoch"] > epoch), None)
        if after is not None:
            return after
        if time.monotonic() > over:
            what = f"none of {', '.join(admins)} leads after epoch {epoch} within {wait:g} s"
            raise ControllersError(f"{what}; look at all brokers before repeating")
        time.sleep(_LOOK_SECONDS)


def switch(
    brokers: Mapping[str, Document], to: int | None, epoch: int | None, token_file: Path | None, wait: float
) -> Document:
    """Let another broker lead, without loss, and wait until it serves; what it says of itself then.

    Raises: ControllersError with what stands against it.
    """
    admins = [*brokers]
    known = max(int(page["replication"]["epoch"]) for page in brokers.values())
    if epoch is not None and epoch != known:
        raise ControllersError(f"the group is in epoch {known}, not {epoch}")
    if next(iter(brokers.values()))["replication"]["mode"] == "raft":
        address, leads = leader_of(admins)
        if leads["brokerId"] == to:
            return leads
        body: Document = {"expectedEpoch": leads["epoch"]} | ({} if to is None else {"brokerId": to})
        Controllers([address], token_file).change_each("/replica/hand-over", body, HandingOver)
    elif (led := _promote(brokers, to, token_file)) is not None:
        return led
    after = await_service(admins, known, wait)
    if to is not None and after["brokerId"] != to:
        raise ControllersError(f"broker {after['brokerId']} leads in epoch {after['epoch']}, and not broker {to}")
    return after


def _promote(brokers: Mapping[str, Document], to: int | None, token_file: Path | None) -> Document | None:
    """Mode static: order it of a broker that loses nothing. The page of one that leads already, if it is that one."""
    tables = dict(zip(brokers, Controllers([*brokers]).read_each("/replica/roles", RolesPage), strict=True))
    latest = max(tables.values(), key=lambda page: page.table)
    serving = _serving([*brokers])
    for page in serving.values():
        if page["brokerId"] == to == latest.leader:
            return page
    able = {
        page.broker_id: admin for admin, page in tables.items()
        if page.table == latest.table and page.eligible and page.broker_id != latest.leader
    }  # fmt: skip
    target = min(able, default=None) if to is None else to
    if target is None or target not in able:
        why = next((page.why for page in tables.values() if page.broker_id == target and page.why), "")
        named = ", ".join(f"broker {each}" for each in sorted(able)) or "none"
        raise ControllersError(f"promotable without loss: {named}{f'; broker {target}: {why}' if why else ''}")
    # Whoever was awaited stays so; but nobody waits for one that does not answer, if nobody leads anyway.
    there = {page.broker_id for page in tables.values()}
    awaited = {latest.leader, *latest.synchronous} - {target}
    synchronous = sorted(each for each in awaited if serving or each in there)
    copies = min(latest.copies, len(synchronous) + 1)
    body = {"after": latest.table, "synchronous": synchronous, "copies": copies}
    Controllers([able[target]], token_file).change_each("/replica/promote", body, RolesPage)
    return None


def _serving(admins: Sequence[str]) -> dict[str, Document]:
    """What those say of themselves who lead and serve, by admin address. Raises: ControllersError, as `brokers_of`."""
    pages = zip(admins, Controllers(admins).statuses(), strict=True)
    return {
        admin: _whole(page) for admin, page in pages if page is not None and _replication(page).get("serving")
    }  # fmt: skip


def _replication(page: Document) -> Document:
    said = page.get("replication")
    return said if isinstance(said, dict) else {}


def _whole(page: Document) -> Document:
    """The page, if all stands in it that is asked for here."""
    try:
        convert(page, _Told)
    except ValidationError as error:
        raise of_another_version("broker", error) from error
    return page
