"""The emulated API server over HTTP: discovery, lists by label, watches, and all that `ApiServer` does."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml
from aiohttp import web

from k8s import protobuf
from k8s.api_kinds import KINDS, described
from k8s.api_server import ApiServer
from logherd_operator.clients.admin import Admins
from logherd_operator.clients.errors import Unreachable

__all__ = ["served"]

_LISTED = {plural for kinds in KINDS.values() for plural, _, _ in kinds}


@asynccontextmanager
async def served(api: ApiServer, admins: Admins | None = None) -> AsyncIterator[str]:
    """Its address. With `admins`, their pages stand under /admin/HOST/."""
    pages = _Pages(api, admins)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", pages.answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        pages.closing.set()
        await runner.cleanup()


class _Pages:
    def __init__(self, api: ApiServer, admins: Admins | None) -> None:
        self._api = api
        self._admins = admins
        self.closing = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.startswith("/admin/"):
            return await self._admin(request)
        if "/proxy/" in path:
            return await self._proxy(request)
        found = described(path)
        if found is not None:
            return web.json_response(found)
        if path.endswith("/scale"):
            return await self._scale(request)
        plural = path.rsplit("/", 1)[1]
        if request.method == "GET" and plural in _LISTED:
            return await (self._watch(request) if "watch" in request.query else self._list(request))
        raw = await request.read()
        body = _body(raw, request.content_type)
        try:
            reply = self._api.handle(request.method, request.path_qs, body, request.content_type)
        except Unreachable:
            request.transport.close()  # type: ignore[union-attr]
            raise
        return web.json_response(reply.document, status=reply.status)

    async def _admin(self, request: web.Request) -> web.Response:
        assert self._admins is not None
        _, host, inner = request.path.lstrip("/").split("/", 2)
        if request.method == "GET":
            reply = await self._admins.ask(host, f"/{inner}")
        else:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            reply = await self._admins.tell(host, f"/{inner}", await request.json(), token)
        return web.Response(status=502) if reply is None else web.json_response(reply.document, status=reply.status)

    async def _scale(self, request: web.Request) -> web.Response:
        path = request.path.removesuffix("/scale")
        if request.method != "GET":
            count = (await request.json())["spec"]["replicas"]
            body = {"spec": {"replicas": count}}
            self._api.handle("PATCH", path, body, "application/merge-patch+json")
        found = self._api.find(path) or {}
        return web.json_response({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": found["spec"].get("replicas", 3)},
            "metadata": {name: found["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")},
            "status": {"replicas": (found.get("status") or {}).get("replicas", 0)},
        })  # fmt: skip

    async def _proxy(self, request: web.Request) -> web.Response:
        """What kubectl does for who may `get` `pods/proxy`; pods are asked by their names in the cluster."""
        if "proxy" in self._api.faults.refuse:
            said = {"kind": "Status", "message": 'User "me" cannot get resource "pods/proxy"'}
            return web.json_response(said, status=self._api.faults.refuse["proxy"])
        assert self._admins is not None
        where, _, inner = request.path.partition("/proxy/")
        pod = where.rsplit("/", 1)[1].partition(":")[0]
        reply = await self._admins.ask(f"{pod}.pods.svc", f"/{inner}")
        return web.Response(status=502) if reply is None else web.json_response(reply.document, status=reply.status)

    async def _list(self, request: web.Request) -> web.Response:
        self._api._count("list", request.path)
        items = [each for _, each in self._api.listed(request.path) if _fits(each, request)]
        kind, version = _kind_of(request.path)
        return web.json_response({
            "kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": str(self._api.version)},
            "items": items,
        })  # fmt: skip

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self._api._count("watch", request.path)
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        root, _, plural = request.path.rpartition("/")
        anywhere = "/namespaces/" not in root

        def note(kind: str, path: str, document: dict[str, Any]) -> None:
            head, found, _ = path.rsplit("/", 2)
            here = head == root or (anywhere and head.startswith(f"{root}/namespaces/"))
            if found == plural and here and _fits(document, request):
                events.put_nowait({"type": kind, "object": document})

        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since = int(request.query.get("resourceVersion") or 0)
        for _, each in self._api.listed(request.path):
            if int(each["metadata"]["resourceVersion"]) > since and _fits(each, request):
                events.put_nowait({"type": "MODIFIED", "object": each})
        self._api.watchers.append(note)
        try:
            while not self.closing.is_set():
                await response.write(json.dumps(await events.get()).encode() + b"\n")
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._api.watchers.remove(note)
        return response


def _body(raw: bytes, content_type: str) -> Any:
    if content_type == protobuf.CONTENT_TYPE:
        return protobuf.read(raw)
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return yaml.safe_load(raw)


def _fits(document: dict[str, Any], request: web.Request) -> bool:
    labels = document["metadata"].get("labels") or {}
    wanted = [each.split("=") for each in request.query.get("labelSelector", "").split(",") if each]
    name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
    return name in ("", document["metadata"]["name"]) and all(labels.get(key) == value for key, value in wanted)


def _kind_of(path: str) -> tuple[str, str]:
    """Kind and version of a collection."""
    plural = path.rsplit("/", 1)[1]
    for root, kinds in KINDS.items():
        for found, kind, _ in kinds:
            if found == plural and path.startswith(f"{root}/"):
                return kind, root.removeprefix("/apis/").removeprefix("/api/")
    return "", "v1"
