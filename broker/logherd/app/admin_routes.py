"""Which page or action a request of the admin port means, found by method and path.

A path may be a template: in `/groups/{cluster}/{name}` each name in braces stands for one whole, non-empty part, which
is handed over without its percent escapes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

__all__ = ["Action", "AdminCall", "Answer", "Page", "Routed", "Routes"]

_READ_METHODS = (b"GET", b"HEAD")
_QUERY_FIELDS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall:
    """A call of a view (GET) or an action (POST). `target` is the path and the query as they came; `parts` holds what
    the names of the template stand for; `body` is what a POST brought, said to be JSON."""

    method: str
    target: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""


Page = Callable[[], tuple[int, object]]
"""Gives an HTTP status and a document that msgspec can encode. Runs on the loop; must not block."""
Action = Callable[[AdminCall], Awaitable[tuple[int, object]]]
"""The same for a view or an action, which may wait. It judges the body. Cancelled at its deadline, when the caller of
an action is told that the outcome is unknown; so what it has begun by then may still happen."""


class Answer(NamedTuple):
    """What the caller gets: status, JSON document, further headers."""

    status: int
    document: object
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Routed:
    """A view or an action that was asked for; `path` is its template."""

    path: str
    action: Action
    call: AdminCall


class Routes:
    """All reads and actions. A path may have one of each."""

    def __init__(self, pages: Mapping[str, Page], views: Mapping[str, Action], actions: Mapping[str, Action]) -> None:
        self._pages = dict(pages)
        self._views = dict(views)
        self._actions = dict(actions)
        self._templates = {path: path.split("/") for path in sorted({*pages, *views, *actions})}

    def find(self, method: bytes, target: bytes) -> Page | Routed | Answer:
        """What is asked for, or the answer 400, 404 or 405. A page takes no notice of a query."""
        text = target.decode("ascii", "replace")
        path, _, query = text.partition("?")
        found = self._match(path)
        if found is None:
            return Answer(404, {"error": f"no page {path!r}"} | self._known())
        template, parts = found
        reads = method in _READ_METHODS
        if reads and template in self._pages:
            return self._pages[template]
        table = self._views if reads else self._actions
        if template not in table or not (reads or method == b"POST"):
            return self._other_method(method, template)
        try:
            fields = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_QUERY_FIELDS_MAX)
        except ValueError as error:
            return Answer(400, {"error": f"the query is not right: {error}"})
        call = AdminCall(method="GET" if reads else "POST", target=text, parts=parts, query=dict(fields))
        return Routed(template, table[template], call)

    def _match(self, path: str) -> tuple[str, dict[str, str]] | None:
        split = path.split("/")
        for template, wanted in self._templates.items():
            parts = _parts(wanted, split)
            if parts is not None:
                return template, parts
        return None

    def _other_method(self, method: bytes, template: str) -> Answer:
        reads = ["GET", "HEAD"] if template in self._pages or template in self._views else []
        allowed = [*reads, *(["POST"] if template in self._actions else [])]
        use = " or ".join(each for each in allowed if each != "HEAD")
        error = f"method {method.decode('ascii', 'replace')} is not supported, use {use}"
        return Answer(405, {"error": error}, (("allow", ", ".join(allowed)),))

    def _known(self) -> dict[str, list[str]]:
        actions = {"actions": sorted(self._actions)} if self._actions else {}
        return {"pages": sorted({*self._pages, *self._views})} | actions


def _parts(template: list[str], split: list[str]) -> dict[str, str] | None:
    if len(template) != len(split):
        return None
    found: dict[str, str] = {}
    for wanted, part in zip(template, split, strict=True):
        if wanted.startswith("{") and part:
            try:
                found[wanted.strip("{}")] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                return None
        elif wanted != part:
            return None
    return found
