"""One look at a group of this machine: processes by their pids, brokers and controllers by their admin ports, the rest
from files. Changes nothing; blocks for some seconds for each process that lives and does not answer.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from logherd_operator.local.addresses import Addresses
from logherd_operator.local.admin import ask
from logherd_operator.local.disk import is_full
from logherd_operator.local.folder import Folder
from logherd_operator.local.processes import child_ticks, is_alive, lives
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.words import cannot_start, last_words
from logherd_operator.observed.brokers import group_of_brokers
from logherd_operator.observed.documents import group_of, quorum_of, report_of, seen_by_leader, unknown_group
from logherd_operator.observed.observed import Observed, Platform
from logherd_operator.observed.quorum import Group, Quorum
from logherd_operator.observed.slots import Component, Instance, Slot, Volume

__all__ = ["TOLD_SECONDS", "Look", "Page", "child_of", "look_at"]

Document = Mapping[str, Any]
TOLD_SECONDS = 60.0
"""From the word that a process is to end so that another one begins to its kill, by the keeper."""
_HTTP_OK, _HTTP_NOT_FOUND = 200, 404
_PIDS_END = 1 << 22
"""Linux gives no process this number, or a higher one."""


@dataclass(frozen=True, slots=True)
class Page:
    """What stands at a place: the process that serves behind the guardian, and the status page of that or of one that
    does not serve, as while it heals its store; None if there is none."""

    child: Process | None
    status: Document | None


@dataclass(frozen=True, slots=True)
class Look:
    """For the planner, and for people: `pages` are of the places of `state`, which was looked at, in their order."""

    state: GroupState
    observed: Observed
    pages: tuple[Page, ...]
    leading: str | None = field(default=None)
    """Admin address of the controller that leads."""


def look_at(state: GroupState, folder: Folder) -> Look:
    """Ask everybody once. Revisions are left empty."""
    addresses = Addresses(state.host, state.ports)
    pages = tuple(_page(place, folder, _admin(place, addresses)) for place in state.places)
    leading = _leading(state, pages, addresses)
    group, quorum = (None, None) if leading is None else _asked(leading, state)
    if state.began.mode != "Controller":
        group = _told_by_brokers(state, pages, addresses)
    else:
        group = seen_by_leader(group, [page.status for page in pages if page.status is not None])
    observed = Observed(
        platform=Platform(brokers=state.brokers, controllers=state.controllers, leader_address=False),
        brokers=_slots("broker", state, folder, pages),
        controllers=_slots("controller", state, folder, pages),
        group=group, quorum=quorum,
    )  # fmt: skip
    return Look(state, observed, pages, leading)


def child_of(place: PlaceState, folder: Folder) -> Process | None:
    """The process behind the place's guardian that served last, if it lives."""
    if place.guardian is None:
        return None
    try:
        told = json.loads(folder.of(place, ".ready").read_bytes())
        pid, guardian = int(told["pid"]), int(told["guardian"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _child(pid, place.guardian) if guardian == place.guardian.pid else None


def _child(pid: int, guardian: Process) -> Process | None:
    """That process, if it is the guardian's. Of an earlier life one is told a pid that may be anybody's by now; ours is
    a child of its guardian, and younger."""
    ticks = child_ticks(pid, guardian.pid) if 0 < pid < _PIDS_END else None
    return None if ticks is None or ticks < guardian.ticks else Process(pid, ticks)


def _admin(place: PlaceState, addresses: Addresses) -> str:
    if place.component == "broker":
        return addresses.broker(place.ordinal).admin
    return addresses.controller(place.ordinal).admin


def _page(place: PlaceState, folder: Folder, admin: str) -> Page:
    """Who heals its store answers, but serves nobody, and is in no file."""
    child, guardian = child_of(place, folder), place.guardian
    answer = ask(admin, "/status") if child is not None or lives(guardian) else None
    if answer is None or answer[0] != _HTTP_OK or guardian is None:
        return Page(child, None)
    pid = answer[1].get("pid")
    ours = isinstance(pid, int) and (pid == child.pid if child is not None else _child(pid, guardian) is not None)
    return Page(child, answer[1] if ours else None)


def _leading(state: GroupState, pages: tuple[Page, ...], addresses: Addresses) -> str | None:
    for place, page in zip(state.places, pages, strict=True):
        if place.component == "controller" and page.status is not None and page.status.get("role") == "leader":
            return addresses.controller(place.ordinal).admin
    return None


def _asked(leading: str, state: GroupState) -> tuple[Group | None, Quorum | None]:
    quorum = ask(leading, "/quorum")
    # Of a group that leads itself they know nothing.
    answer = ask(leading, f"/groups/{state.cluster}/{state.group}") if state.began.mode == "Controller" else None
    group = None
    if answer is not None and answer[0] == _HTTP_OK:
        group = group_of(answer[1])
    elif answer is not None and answer[0] == _HTTP_NOT_FOUND and answer[1].get("confirmed"):
        group = unknown_group(state.brokers or 1, 1)
    return group, quorum_of(quorum[1]) if quorum is not None and quorum[0] == _HTTP_OK else None


def _told_by_brokers(state: GroupState, pages: tuple[Page, ...], addresses: Addresses) -> Group | None:
    """A group that leads itself, as its brokers have it."""
    answering = {
        place.ordinal: page.status
        for place, page in zip(state.places, pages, strict=True)
        if place.component == "broker" and page.status is not None
    }
    roles = []
    for ordinal in answering if state.began.mode == "Static" else ():
        answer = ask(addresses.broker(ordinal).admin, "/replica/roles")
        if answer is not None and answer[0] == _HTTP_OK:
            roles.append(answer[1])
    return group_of_brokers(
        state.began.mode.lower(), answering.values(), roles, founded=state.began.founded, replicas=state.brokers or 1
    )  # fmt: skip


def _slots(component: Component, state: GroupState, folder: Folder, pages: tuple[Page, ...]) -> tuple[Slot, ...]:
    found = {
        place.ordinal: Slot(
            ordinal=place.ordinal, instance=_instance(place, page, folder), volume=_volume(place, folder),
            report=report_of(page.status) if component == "broker" and page.status is not None else None,
        )
        for place, page in zip(state.places, pages, strict=True)
        if place.component == component
    }  # fmt: skip
    for path in folder.path.glob("broker-*") if component == "broker" else ():
        number = path.name.removeprefix("broker-")
        if path.is_dir() and number.isdigit() and int(number) - 1 not in found:
            ordinal = int(number) - 1
            found[ordinal] = Slot(ordinal=ordinal, volume=Volume(uid=str(path)))
    return tuple(found[ordinal] for ordinal in sorted(found))


def _volume(place: PlaceState, folder: Folder) -> Volume | None:
    path = folder.of(place)
    return Volume(uid=str(path)) if path.exists() else None


def _instance(place: PlaceState, page: Page, folder: Folder) -> Instance | None:
    guardian, child = place.guardian, page.child
    if guardian is None:
        return None
    lives = is_alive(guardian.pid, guardian.ticks)
    log = folder.of(place, ".log")
    instance = Instance(
        uid=f"{guardian.pid}-{child.pid if child else 0}", revision=place.revision, started_at=place.started_at
    )
    if not lives:
        if place.leaving:
            return None
        code = "" if place.ended is None else f" with code {place.ended}"
        said = last_words(log, place.log_begin)
        full = "; its disk is full, also for its log" if not said and is_full(folder.path) else ""
        return replace(instance, failing=said or f"its guardian has ended{code} and said nothing{full}")
    if place.leaving:
        return replace(instance, leaves_by=time.time() + TOLD_SECONDS)
    if place.told is not None and is_alive(place.told.pid, place.told.ticks):
        return replace(instance, leaves_by=place.started_at + TOLD_SECONDS)
    if page.status is not None:
        return replace(instance, ready=bool(page.status.get("ready")))
    return replace(instance, failing="" if child else cannot_start(log, place.log_begin))
