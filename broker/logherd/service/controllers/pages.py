"""The admin port of a controller: each call becomes a step, as each request of brokers does (desk.py).

    GET  /status /health /ready /quorum        what this controller knows, without asking anybody
    GET  /groups /groups/{cluster}/{name} /config      confirmed by the quorum, unless ?stale=true
    POST /groups/{cluster}/{name}/{elect, promote, demote, forget, rules}
    POST /config /quorum/transfer /quorum/members

Refusals: 400 names the field, its value and what would be right; 404 no such group, broker or page; 405 another method;
409 it conflicts with what is so, for the `reason`, or another controller leads: `leader`; 503 not now; 504 unknown, or
not in time. Every action may be repeated.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from logherd.controller.settings import TUNABLE
from logherd.controller.values import GroupKey
from logherd.service.controllers.calls import Call, CallError, read_call, read_flag
from logherd.service.controllers.documents import ConfigPage, Document, GroupsPage, OptionShape, error
from logherd.service.controllers.group_pages import group_page, group_summary
from logherd.service.controllers.orders import GROUP_ACTIONS, configure_controllers, order_group
from logherd.service.controllers.place import Place, endings_of_action, endings_of_read
from logherd.service.controllers.quorum_orders import hand_over, resettle
from logherd.service.controllers.quorum_pages import health_page, quorum_page, ready_page, status_page
from logherd.service.controllers.steps import Catch, Endings, Step

__all__ = ["Asked", "ask"]

_GROUPS_MAX: Final = 1_000
_GROUP_PARTS: Final = 3
_PAGES: Final = (
    "/config", "/groups", "/groups/{cluster}/{name}", "/health", "/quorum", "/quorum/members", "/quorum/transfer",
    "/ready", "/status", *(f"/groups/{{cluster}}/{{name}}/{action}" for action in GROUP_ACTIONS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """The first step of a call, and how it is answered if a step cannot be carried out."""

    step: Step[Document]
    endings: Endings[Document]


class Shown(Protocol):
    """Gives a document of the state as it is; `confirmed`: the quorum says that nothing newer was committed."""

    def __call__(self, now: int, *, confirmed: bool) -> Document: ...


def ask(method: str, target: str, body: bytes, place: Place, now: int) -> Asked:
    """What to do for a call. `target` is the request's, with its query; `now` the time of the leases' clock.

    Raises: nothing for any content of the call.
    """
    try:
        call = read_call("GET" if method == "HEAD" else method, target)
        if call.method == "POST":
            return Asked(_post(call, body, place, now), endings_of_action(place))
        return Asked(_get(call, place, now), endings_of_read())
    except CallError as wrong:
        return Asked(wrong.document, endings_of_read())


def _get(call: Call, place: Place, now: int) -> Step[Document]:
    local = _LOCAL.get(call.path)
    if local is not None and call.method == "GET":
        return local(place)
    shown = _shown(call, place)
    if shown is None or call.method != "GET":
        return _no_page(call)
    if read_flag(call, "stale"):
        return shown(now, confirmed=False)
    return Catch(lambda now: shown(now, confirmed=True))


_LOCAL: Final[Mapping[tuple[str, ...], Callable[[Place], Document]]] = MappingProxyType({
    ("status",): lambda place: Document(200, status_page(place)),
    ("health",): lambda place: health_page(place.standing()),
    ("ready",): lambda place: ready_page(place.standing()),
    ("quorum",): lambda place: Document(200, quorum_page(place.standing())),
})  # fmt: skip


def _shown(call: Call, place: Place) -> Shown | None:
    """The page that shows replicated state."""
    if call.path == ("config",):
        return partial(_config, place)
    if call.path == ("groups",):
        after, count = call.query.get("after", ""), _limit(call)
        return partial(_groups, place, after, count)
    if len(call.path) == _GROUP_PARTS and call.path[0] == "groups":
        key = GroupKey(call.path[1], call.path[2])
        return partial(_group, place, key)
    return None


def _post(call: Call, body: bytes, place: Place, now: int) -> Step[Document]:
    match call.path:
        case ("config",):
            return configure_controllers(place, body, now)
        case ("quorum", "transfer"):
            return hand_over(place, body, now)
        case ("quorum", "members"):
            return resettle(place, body, now)
        case ("groups", cluster, name, action) if action in GROUP_ACTIONS:
            return order_group(place, GroupKey(cluster, name), action, body, now)
    return _no_page(call)


def _no_page(call: Call) -> Document:
    path = "/" + "/".join(call.path)
    action = call.path in (("quorum", "transfer"), ("quorum", "members"), ("config",)) or (
        len(call.path) == _GROUP_PARTS + 1 and call.path[0] == "groups" and call.path[3] in GROUP_ACTIONS
    )
    page = call.path in (*_LOCAL, ("config",), ("groups",)) or (
        len(call.path) == _GROUP_PARTS and path[1:7] == "groups"
    )
    allowed = [method for method, known in (("GET", page), ("POST", action)) if known]
    if not allowed:
        return error(404, "UNKNOWN_PAGE", f"there is no page {path}", pages=sorted(_PAGES))
    said = f"{path} is not for {call.method}; use {' or '.join(allowed)}"
    return error(405, "WRONG_METHOD", said, allowed=allowed)


def _limit(call: Call) -> int:
    text = call.query.get("limit", str(_GROUPS_MAX))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _GROUPS_MAX and len(text) <= 9):
        expected = f"1 to {_GROUPS_MAX}"
        said = f"limit is {text[:80]!r}, and should be {expected}"
        raise CallError(error(400, "BAD_FIELD", said, field="limit", value=text[:80], expected=expected))
    return int(text)


def _groups(place: Place, after: str, count: int, now: int, *, confirmed: bool) -> Document:
    machine, office = place.machine(), place.office()
    keys = sorted(group.key for group in machine)
    cluster, _, name = after.partition("/")
    first = bisect_right(keys, GroupKey(cluster, name)) if after else 0
    chosen = keys[first : first + count]
    groups = [group_summary(group, office, now) for key in chosen if (group := machine.group(key)) is not None]
    page = GroupsPage(
        position=place.standing().progress.applied, confirmed=confirmed, live=office is not None, groups=groups,
        after=str(chosen[-1]) if first + count < len(keys) else None,
    )  # fmt: skip
    return Document(200, page)


def _group(place: Place, key: GroupKey, now: int, *, confirmed: bool) -> Document:
    group, position = place.machine().group(key), place.standing().progress.applied
    if group is None:
        return error(404, "UNKNOWN_GROUP", f"there is no group {key}", cluster=key.cluster, name=key.name,
                     position=position, confirmed=confirmed)  # fmt: skip
    return Document(200, group_page(group, place.office(), now, position=position, confirmed=confirmed))


def _config(place: Place, now: int, *, confirmed: bool) -> Document:
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
