"""Which page or action a request of the admin port means, found by method and path.

A path may be a template: in `/groups/{cluster}/{name}` each name in braces stands for one whole, non-empty part, which
is handed over without its percent escapes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

__all__ = ["Action", "Answer", "Page", "Performing", "Reading", "Routes", "View"]

Page = Callable[[], tuple[int, object]]
"""Gives an HTTP status and a document that msgspec can encode. Runs on the loop; must not block."""
View = Callable[[Mapping[str, str]], tuple[int, object]]
"""The same for a template: takes the parts of the path by their names."""
Action = Callable[[dict[str, Any], Mapping[str, str]], Awaitable[tuple[int, object]]]
"""Takes the JSON object of a POST and the parts of the path. Cancelled at its deadline, when the caller is told that
the outcome is unknown; so what it has begun by then may still happen."""

_READ_METHODS = (b"GET", b"HEAD")


class Answer(NamedTuple):
    """What the caller gets: status, JSON document, further headers."""

    status: int
    document: object
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A read that was asked for."""

    view: View
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Performing:
    """An action that was asked for; `path` is its template."""

    path: str
    action: Action
    parameters: Mapping[str, str]


class Routes:
    """All reads and actions. The same path may have both."""

    def __init__(self, pages: Mapping[str, Page], views: Mapping[str, View], actions: Mapping[str, Action]) -> None:
        self._views: dict[str, View] = {path: _as_view(page) for path, page in pages.items()} | dict(views)
        self._actions = dict(actions)
        self._templates = {path: path.split("/") for path in sorted({*self._views, *self._actions})}

    def find(self, method: bytes, target: bytes) -> Reading | Performing | Answer:
        """What is asked for, or the answer 404 or 405. The query of the target says nothing here."""
        path = target.decode("ascii", "replace").partition("?")[0]
        found = self._match(path)
        if found is None:
            return Answer(404, {"error": f"no page {path!r}"} | self._known())
        template, parameters = found
        view, action = self._views.get(template), self._actions.get(template)
        if view is not None and method in _READ_METHODS:
            return Reading(view, parameters)
        if action is not None and method == b"POST":
            return Performing(template, action, parameters)
        wanted = [*(["GET"] if view else []), *(["POST"] if action else [])]
        allowed = ", ".join([*wanted, *(["HEAD"] if view else [])])
        error = f"method {method.decode('ascii', 'replace')} is not supported, use {' or '.join(wanted)}"
        return Answer(405, {"error": error}, (("allow", allowed),))

    def _match(self, path: str) -> tuple[str, dict[str, str]] | None:
        parts = path.split("/")
        for template, wanted in self._templates.items():
            parameters = _parameters(wanted, parts)
            if parameters is not None:
                return template, parameters
        return None

    def _known(self) -> dict[str, list[str]]:
        actions = {"actions": sorted(self._actions)} if self._actions else {}
        return {"pages": sorted(self._views)} | actions


def _as_view(page: Page) -> View:
    return lambda _parameters: page()


def _parameters(template: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(template) != len(parts):
        return None
    found: dict[str, str] = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{") and part:
            try:
                found[wanted.strip("{}")] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                return None
        elif wanted != part:
            return None
    return found
