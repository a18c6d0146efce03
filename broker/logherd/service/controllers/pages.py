"""The admin port of a controller: each call becomes a step, as each request of brokers does (desk.py).

    GET  /status /health /ready /quorum     what this controller knows, without asking anybody
    GET  /groups /groups/{cluster}/{name} /config     replicated state, confirmed by the quorum unless ?stale=true
    POST /groups/{cluster}/{name}/{elect, promote, demote, forget, rules, endpoint}    orders, with a JSON object
    GET, POST /config/process     settings of this process; app/controllers/site.py
    POST /config /quorum/transfer /quorum/members
    POST /quorum/recover     to each survivor itself, when a majority is gone for good

Refusals: 400 names the field, its value and what would be right; 404 no such group, broker or page; 405 another method;
409 it conflicts with what is so, for the `reason`, or another controller leads: `leader`; 503 not now; 504 unknown, or
not in time. Every action may be repeated.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote

from msgspec.structs import replace

from logherd.controller.settings import TUNABLE
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.service.controllers.calls import CallError, read_count, read_flag, read_object
from logherd.service.controllers.documents import ConfigPage, Document, GroupsPage, OptionShape, error
from logherd.service.controllers.group_pages import group_page, group_summary
from logherd.service.controllers.orders import GROUP_ACTIONS, configure_controllers
from logherd.service.controllers.place import Place, endings_of_action, endings_of_read, redirect
from logherd.service.controllers.quorum_orders import hand_over, recover, resettle
from logherd.service.controllers.quorum_pages import health_page, quorum_page, ready_page, status_page
from logherd.service.controllers.steps import Catch, Endings, Seat, Step

__all__ = ["ACTIONS", "PAGES", "VIEWS", "Asked", "ask"]

_GROUPS_MAX: Final = 1_000

Texts = Mapping[str, str]


class _Shown(Protocol):
    """Gives a document of the state as it is; `confirmed`: the quorum says that nothing newer was committed."""

    def __call__(self, now: int, *, confirmed: bool) -> Document: ...


PAGES: Final[Mapping[str, Callable[[Place], Document]]] = MappingProxyType({
    "/status": lambda place: Document(200, status_page(place)),
    "/health": lambda place: health_page(place.standing()),
    "/ready": lambda place: ready_page(place.standing()),
    "/quorum": lambda place: Document(200, quorum_page(place.standing())),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """The first step of a call, and how it is answered if a step cannot be carried out."""

    step: Step[Document]
    endings: Endings[Document]


def ask(method: str, target: str, body: bytes, place: Place, now: int) -> Asked:
    """What to do for a call. `target` is a path with its query; `now` the time of the leases' clock.

    Raises: nothing for any content of the call.
    """
    path, _, query = target.partition("?")
    try:
        if method in ("GET", "HEAD"):
            step = _look(path, dict(parse_qsl(query, keep_blank_values=True)), place, now)
        else:
            step = _act(path, body, place, now) if method == "POST" else _no_page(method, path)
    except CallError as wrong:
        step = wrong.document
    return Asked(step, endings_of_action(place) if method == "POST" else endings_of_read())


def _look(path: str, query: Texts, place: Place, now: int) -> Step[Document]:
    if path in PAGES:
        return PAGES[path](place)
    found = _match(path, VIEWS)
    if found is None:
        return _no_page("GET", path)
    template, parts = found
    shown = VIEWS[template](place, query, parts)
    if read_flag(query, "stale"):
        return shown(now, confirmed=False)
    return Catch(lambda now: shown(now, confirmed=True))


def _act(path: str, body: bytes, place: Place, now: int) -> Step[Document]:
    found = _match(path, ACTIONS)
    if found is None:
        return _no_page("POST", path)
    template, parts = found
    if place.office() is None and template not in _OF_ANYBODY:
        return redirect(place)
    return ACTIONS[template](place, read_object(body), parts, now)


_OF_ANYBODY: Final = frozenset({"/quorum/recover"})
"""Actions that are not the leader's: there is none."""


def _match(path: str, known: Collection[str]) -> tuple[str, dict[str, str]] | None:
    """The template that a path fits, and its parts without percent escapes."""
    split = path.split("/")
    for template in known:
        wanted = template.split("/")
        pairs = list(zip(wanted, split, strict=False))
        if len(wanted) == len(split) and all(part if name[:1] == "{" else name == part for name, part in pairs):
            return template, {name.strip("{}"): unquote(part) for name, part in pairs if name[:1] == "{"}
    return None


def _no_page(method: str, path: str) -> Document:
    reads, acts = _match(path, (*PAGES, *VIEWS)), _match(path, ACTIONS)
    allowed = [each for each, found in (("GET", reads), ("POST", acts)) if found is not None]
    if allowed:
        said = f"{path} is not for {method}; use {' or '.join(allowed)}"
        return error(405, "WRONG_METHOD", said, allowed=allowed)
    pages = sorted({*PAGES, *VIEWS, *ACTIONS})
    return error(404, "UNKNOWN_PAGE", f"there is no page {path[:200]}", pages=pages)


# ---- views ---------------------------------------------------------------------------------------------------------


def _groups(place: Place, query: Texts, parts: Texts) -> _Shown:
    return partial(_show_groups, place, query.get("after", ""), read_count(query, "limit", _GROUPS_MAX))


def _group(place: Place, query: Texts, parts: Texts) -> _Shown:
    return partial(_show_group, place, _key(parts))


def _config(place: Place, query: Texts, parts: Texts) -> _Shown:
    return partial(_show_config, place)


VIEWS: Final[Mapping[str, Callable[[Place, Texts, Texts], _Shown]]] = MappingProxyType({
    "/groups": _groups, "/groups/{cluster}/{name}": _group, "/config": _config,
})  # fmt: skip


def _key(parts: Texts) -> GroupKey:
    return GroupKey(parts["cluster"], parts["name"])


def _show_groups(place: Place, after: str, count: int, now: int, *, confirmed: bool) -> Document:
    machine, office, progress = place.machine(), place.office(), place.standing().progress
    keys = sorted((group.key for group in machine), key=str)  # as `after` names them: a cluster's name may hold a slash
    first = bisect_right(keys, after, key=str) if after else 0
    chosen = keys[first : first + count]
    groups = [
        group_summary(group, office, now, progress) for key in chosen if (group := machine.group(key)) is not None
    ]
    page = GroupsPage(
        position=progress.applied, confirmed=confirmed, live=office is not None, groups=groups,
        after=str(chosen[-1]) if first + count < len(keys) else None,
    )  # fmt: skip
    return Document(200, page)


def _show_group(place: Place, key: GroupKey, now: int, *, confirmed: bool) -> Document:
    group, progress = place.machine().group(key), place.standing().progress
    if group is None:
        return error(
            404, "UNKNOWN_GROUP", f"there is no group {key}", cluster=key.cluster, name=key.name,
            position=progress.applied, confirmed=confirmed,
        )  # fmt: skip
    page = group_page(group, place.office(), now, progress, confirmed=confirmed)
    if page.leader is not None and page.leader.serving:
        seat = Seat(key, BrokerId(page.leader.broker_id), Registration(page.leader.registration))
        page = replace(page, leader=replace(page.leader, renewed_from=place.renewed_from(seat)))
    return Document(200, page)


def _show_config(place: Place, now: int, *, confirmed: bool) -> Document:
    settings = place.machine().settings
    options = place.options.tuned(settings)
    current = {
        "gatherMs": options.gather_ms, "transferMs": options.transfer_ms, "preferAfterMs": options.prefer_after_ms,
        "bootstrapMs": options.bootstrap_ms,
    }  # fmt: skip
    values = {
        name: OptionShape(value=current[name], minimum=bounds[0], maximum=bounds[1], set=name in settings)
        for name, bounds in TUNABLE.items()
    }
    position = place.standing().progress.applied
    return Document(200, ConfigPage(position=position, confirmed=confirmed, values=values, process=place.shown))


# ---- actions -------------------------------------------------------------------------------------------------------

_Act = Callable[[Place, dict[str, Any], Texts, int], Step[Document]]


def _of_group(action: str) -> _Act:
    return lambda place, body, parts, now: GROUP_ACTIONS[action](place, _key(parts), body, now)


def _configure(place: Place, body: dict[str, Any], parts: Texts, now: int) -> Step[Document]:
    return configure_controllers(place, body)


def _hand_over(place: Place, body: dict[str, Any], parts: Texts, now: int) -> Step[Document]:
    return hand_over(place, body)


def _resettle(place: Place, body: dict[str, Any], parts: Texts, now: int) -> Step[Document]:
    return resettle(place, body)


def _recover(place: Place, body: dict[str, Any], parts: Texts, now: int) -> Step[Document]:
    return recover(place, body)


ACTIONS: Final[Mapping[str, _Act]] = MappingProxyType({
    "/config": _configure, "/quorum/transfer": _hand_over, "/quorum/members": _resettle, "/quorum/recover": _recover,
    **{f"/groups/{{cluster}}/{{name}}/{action}": _of_group(action) for action in GROUP_ACTIONS},
})  # fmt: skip
