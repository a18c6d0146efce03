"""Which page or action a request of the admin port means, found by method and path.

A path may be a template: in `/groups/{cluster}/{name}` each name in braces stands for one whole, non-empty part, which
is handed over without its percent escapes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

__all__ = [
    "METRICS_PATH", "Action", "Answer", "Page", "Performing", "Routes", "Scrape", "Scraping", "Site", "Text", "View",
    "Viewing", "Wanted", "wrong_method",
]  # fmt: skip

Page = Callable[[], tuple[int, object]]
"""Gives an HTTP status and a document that msgspec can encode. Runs on the loop; must not block."""
View = Callable[[Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, object]]]
"""A read that may have to wait: takes the query and the parts of the path. Cancelled at its deadline."""
Action = Callable[[dict[str, Any], Mapping[str, str]], Awaitable[tuple[int, object]]]
"""Takes the JSON object of a POST and the parts of the path. Cancelled at its deadline, when the caller is told that
the outcome is unknown; so what it has begun by then may still happen."""

Scrape = Callable[[str], Awaitable[tuple[int, object]]]
"""A read whose form its reader chooses: takes the Accept header, empty if there is none. Deadline as a view's."""

METRICS_PATH = "/metrics"

_READ_METHODS = (b"GET", b"HEAD")
_QUERY_FIELDS_MAX = 16


class Text(NamedTuple):
    """A document that is not JSON."""

    body: bytes
    media_type: str


class Answer(NamedTuple):
    """What the caller gets: status, a document as JSON or `Text`, further headers."""

    status: int
    document: object
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Viewing:
    """A view that was asked for."""

    view: View
    query: Mapping[str, str]
    parts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scraping:
    """Metrics that were asked for."""

    scrape: Scrape


@dataclass(frozen=True, slots=True)
class Performing:
    """An action that was asked for; `path` is its template. `often`: it is no news that it was."""

    path: str
    action: Action
    parts: Mapping[str, str]
    often: bool = False


Wanted = Page | Viewing | Scraping | Performing | Answer


class Site(Protocol):
    """What an admin port serves."""

    def find(self, method: bytes, target: bytes) -> Wanted:
        """What a request means, or its answer at once."""


class Routes:
    """A site of tables: all reads and actions by their paths. A path may have one of each."""

    def __init__(
        self, pages: Mapping[str, Page], views: Mapping[str, View] | None = None,
        actions: Mapping[str, Action] | None = None, *, scrape: Scrape | None = None,
    ) -> None:  # fmt: skip
        """`scrape` gives what stands at /metrics."""
        self._scrape = scrape
        self._pages = dict(pages)
        self._views = dict(views or {})
        self._actions = dict(actions or {})
        self._templates = {path: path.split("/") for path in sorted({*pages, *self._views, *self._actions})}

    def find(self, method: bytes, target: bytes) -> Wanted:
        """What is asked for, or the answer 400, 404 or 405. A page and an action take no notice of a query."""
        path, _, query = target.decode("ascii", "replace").partition("?")
        if path == METRICS_PATH and self._scrape is not None:
            return Scraping(self._scrape) if method in _READ_METHODS else wrong_method(method, ["GET", "HEAD"])
        found = self._match(path)
        if found is None:
            return Answer(404, {"error": f"no page {path!r}"} | self._known())
        template, parts = found
        if method in _READ_METHODS and template in self._pages:
            return self._pages[template]
        if method in _READ_METHODS and template in self._views:
            return _viewing(self._views[template], query, parts)
        if method == b"POST" and template in self._actions:
            return Performing(template, self._actions[template], parts)
        return self._other_method(method, template)

    def _match(self, path: str) -> tuple[str, dict[str, str]] | None:
        split = path.split("/")
        for template, wanted in self._templates.items():
            parts = _parts(wanted, split)
            if parts is not None:
                return template, parts
        return None

    def _other_method(self, method: bytes, template: str) -> Answer:
        reads = ["GET", "HEAD"] if template in self._pages or template in self._views else []
        return wrong_method(method, [*reads, *(["POST"] if template in self._actions else [])])

    def _known(self) -> dict[str, list[str]]:
        actions = {"actions": sorted(self._actions)} if self._actions else {}
        scrape = {METRICS_PATH} if self._scrape is not None else set[str]()
        return {"pages": sorted({*self._pages, *self._views, *scrape})} | actions


def wrong_method(method: bytes, allowed: Sequence[str]) -> Answer:
    """405, with what is right."""
    use = " or ".join(each for each in allowed if each != "HEAD")
    error = f"method {method.decode('ascii', 'replace')} is not supported, use {use}"
    return Answer(405, {"error": error}, (("allow", ", ".join(allowed)),))


def _viewing(view: View, query: str, parts: Mapping[str, str]) -> Viewing | Answer:
    try:
        fields = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_QUERY_FIELDS_MAX)
    except ValueError as error:
        return Answer(400, {"error": f"the query is not right: {error}"})
    return Viewing(view, dict(fields), parts)


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
