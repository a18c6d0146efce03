"""An API server in memory: schemas, versions and their conflicts, server-side apply by field managers, watches.

`Transport` of the operator's client at the same time, so that thousands of requests need no socket; `api_http` serves
the same over HTTP.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from k8s.fields import Fields, applied, emptied, merged
from k8s.schema import faults
from logherd_operator.clients.api import APPLY, Reply
from logherd_operator.clients.errors import Unreachable
from logherd_operator.spec.group import KIND

__all__ = ["ApiServer", "Faults", "Killed", "stamp"]

Document = dict[str, Any]
Change = tuple[str, Document]

VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Killed(BaseException):
    """The operator's process ends here; no handler of it may go on."""


@dataclass
class Faults:
    """After `kill_after` writes the operator is dead; the answer of write `lose` never arrives; `refuse` is a status
    for every write whose path has a certain word in it, as `unreadable` is for reads, with 403; `because` begins its
    message; `down`: nobody answers.
    """

    kill_after: int | None = None
    lose: int | None = None
    refuse: dict[str, int] = field(default_factory=dict)
    because: str = ""
    unreadable: tuple[str, ...] = ()
    down: bool = False


@dataclass
class ApiServer:
    """Objects by path; each is replaced when it changes and never touched, so they need not be copied.

    `deleting` lets a kubelet decide how a thing goes; True: it does so itself."""

    clock: Callable[[], float]
    objects: dict[str, Document] = field(default_factory=dict)
    owned: dict[str, dict[str, Fields]] = field(default_factory=dict)
    version: int = 0
    serial: int = 0
    writes: int = 0
    faults: Faults = field(default_factory=Faults)
    deleting: Callable[[str, Document], bool] = lambda _path, _object: False
    evicting: Callable[[str, Document], int] = lambda _path, _object: 201
    watchers: list[Callable[[str, str, Document], None]] = field(default_factory=list)
    seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    journal: list[tuple[str, str]] = field(default_factory=list)

    # ---- for tests ----

    def find(self, path: str) -> Document | None:
        return self.objects.get(path)

    def of_kind(self, plural: str) -> list[Document]:
        return [each for path, each in self.objects.items() if path.split("/")[-2] == plural]

    def listed(self, collection: str) -> Iterator[tuple[str, Document]]:
        """Objects of a collection; one without a namespace in it means all."""
        root, _, plural = collection.rpartition("/")
        for path, each in self.objects.items():
            head, found, _name = path.rsplit("/", 2)
            if found == plural and (head == root or ("/namespaces/" not in root and head.startswith(f"{root}/namesp"))):
                yield path, each

    def put(self, path: str, document: Document) -> Document:
        """As some other controller would write it."""
        return self._store(path, {**document, "metadata": dict(document["metadata"])})

    def drop(self, path: str) -> None:
        found = self.objects.pop(path, None)
        self.owned.pop(path, None)
        if found is not None:
            self.version += 1
            gone = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self.version)}}
            self._announce("DELETED", path, gone)

    # ---- the operator's side ----

    async def send(self, method: str, path: str, body: Document | None, content_type: str) -> Reply:
        return self.handle(method, path, body, content_type)

    def handle(self, method: str, path: str, body: Any, content_type: str) -> Reply:
        if self.faults.down:
            raise Unreachable("nobody answers")
        path, _, query = path.partition("?")
        options = {name: values[0] for name, values in parse_qs(query).items()}
        self._count(VERBS[method], path)
        if method == "GET":
            if any(word in path for word in self.faults.unreadable):
                return _error(403, "forbidden")
            found = self.objects.get(path)
            return Reply(200, found) if found else _error(404, "not found")
        for word, status in self.faults.refuse.items():
            if word in path:
                return _error(status, f"{self.faults.because}refused: {word}")
        reply = self._write(method, path, copy.deepcopy(body), content_type, options)
        self.writes += 1
        self.journal.append((method, path))
        if self.faults.lose == self.writes:
            raise Unreachable("the answer was lost")
        if self.faults.kill_after is not None and self.writes >= self.faults.kill_after:
            raise Killed
        return reply

    def _write(self, method: str, path: str, body: Any, content_type: str, options: dict[str, str]) -> Reply:
        manager = options.get("fieldManager", "unknown")
        if method == "POST":
            return self._create(path, body)
        if method == "DELETE":
            return self._delete(path, body or {})
        if method == "PUT":
            return self._replace(path, body)
        if content_type == APPLY:
            return self._apply(path, body, manager)
        return self._merge(path, body)

    # ---- verbs ----

    def _create(self, path: str, body: Document) -> Reply:
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"), body)
        wrong = faults(body)
        if wrong:
            return _error(422, "; ".join(wrong))
        name = body["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            return _error(409, f"{name} exists already")
        return Reply(201, self._store(f"{path}/{name}", body))

    def _evict(self, path: str, body: Document) -> Reply:
        found = self.objects.get(path)
        if found is None:
            return _error(404, "no such pod")
        wanted = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        if wanted not in (None, found["metadata"]["uid"]):
            return _error(409, "another pod")
        labels = found["metadata"]["labels"].items()
        selectors = [each["spec"]["selector"]["matchLabels"] for each in self.of_kind("poddisruptionbudgets")]
        if sum(each.items() <= labels for each in selectors) > 1:
            return _error(500, "This pod has more than one PodDisruptionBudget")
        status = self.evicting(path, found)
        if status >= 300:
            return _error(status, "a budget holds it back")
        self.deleting(path, found)
        return Reply(201, {"kind": "Status", "status": "Success"})

    def _delete(self, path: str, body: Document) -> Reply:
        found = self.objects.get(path)
        if found is None:
            return _error(404, "not found")
        conditions = body.get("preconditions", {})
        if any(conditions.get(name, value) != value for name, value in found["metadata"].items()):
            return _error(409, "a precondition does not hold")
        if not self.deleting(path, found):
            self.drop(path)
        return Reply(200, {"kind": "Status", "status": "Success"})

    def _replace(self, path: str, body: Document) -> Reply:
        found = self.objects.get(path)
        if found is None:
            return _error(404, "not found")
        if self._conflicts(found, body):
            return _error(409, "the object has been modified")
        said = {name: value for name, value in body["metadata"].items() if name in ("labels", "annotations")}
        return Reply(200, self._store(path, {**body, "metadata": {**found["metadata"], **said}}))

    def _apply(self, path: str, body: Document, manager: str) -> Reply:
        path, status = path.removesuffix("/status"), path.endswith("/status")
        wrong = [] if status else faults(body)
        if wrong:
            return _error(422, "; ".join(wrong))
        found = self.objects.get(path)
        if found is None and (status or any(each in body["metadata"] for each in ("resourceVersion", "uid"))):
            return _error(404 if status else 409, "not found")
        if found is not None and self._conflicts(found, body):
            return _error(409, "the object has been modified")
        said = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k not in ("resourceVersion", "uid")}}
        if status:
            said = {"status": body["status"]}
        owned = self.owned.setdefault(path, {})
        mine = f"{manager}{'/status' if status else ''}"
        others = {leaf for name, fields in owned.items() if name != mine for leaf in fields}
        if nulls := emptied(said, owned.get(mine, set())) if body["kind"] == KIND else []:
            return _error(422, f'{nulls[0]}: Invalid value: "null": must be of type object')
        made, owns = applied(found or {}, said, owned.get(mine, set()), others)
        if wrong := _wrong_strategy(made):
            return _error(422, wrong)
        owned[mine] = owns
        code = 200 if found is not None else 201
        return Reply(code, self._store(path, made))

    def _merge(self, path: str, body: Document) -> Reply:
        found = self.objects.get(path)
        if found is None:
            return _error(404, "not found")
        if self._conflicts(found, body):
            return _error(409, "the object has been modified")
        made = merged(found, body)
        if wrong := _wrong_strategy(made):
            return _error(422, wrong)
        return Reply(200, self._store(path, made))

    def _conflicts(self, found: Document, body: Document) -> bool:
        metadata = body.get("metadata", {})
        return any(metadata.get(each) not in (None, found["metadata"][each]) for each in ("resourceVersion", "uid"))

    # ---- storing ----

    def _store(self, path: str, document: Document) -> Document:
        before = self.objects.get(path)
        metadata = document["metadata"]
        if before is None:
            self.serial += 1
            metadata.setdefault("uid", f"uid-{self.serial}")
            metadata.setdefault("creationTimestamp", stamp(self.clock()))
            metadata["generation"] = 1
        else:
            metadata["uid"] = before["metadata"]["uid"]
            metadata["generation"] = before["metadata"]["generation"] + (document.get("spec") != before.get("spec"))
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
            if document == before:
                return before
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[path] = document
        self._announce("MODIFIED" if before else "ADDED", path, document)
        return document

    def _announce(self, kind: str, path: str, document: Document) -> None:
        for each in list(self.watchers):
            each(kind, path, document)

    def _count(self, verb: str, path: str) -> None:
        parts = path.strip("/").split("/")
        group = "" if parts[0] == "api" else "/".join(parts[1:2])
        inner = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
        resource = "/".join([inner[0], *inner[2:]]) if inner else "namespaces"
        self.seen[group, resource, verb] += 1


def _wrong_strategy(document: Document) -> str:
    strategy = document.get("spec", {}).get("updateStrategy") or {}
    wrong = strategy.get("type") == "OnDelete" and "rollingUpdate" in strategy
    return "spec.updateStrategy.rollingUpdate: only allowed for updateStrategy 'RollingUpdate'" if wrong else ""


def _error(status: int, message: str) -> Reply:
    return Reply(status, {"kind": "Status", "status": "Failure", "message": message, "code": status})
