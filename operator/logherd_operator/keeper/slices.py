"""The two ends of the sidecar: its controller's page, and one EndpointSlice. Blocking; the standard library only,
because it runs three times for each group.
"""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from logherd_operator.keeper.decision import EPOCH, HOLDER, Change

__all__ = ["ApiPlace", "NoAnswer", "ask_controller", "patch_slice", "pod_place", "read_slice", "tell_controller"]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_BYTES_MAX = 1 << 20
_SPEAKS = (urllib.error.URLError, http.client.HTTPException, OSError, ValueError)


class NoAnswer(Exception):
    """The API server did not answer, or not with yes; `status` is 0 if it did not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiPlace(NamedTuple):
    """Where the slice is. `token_file` is read for each request: the token is renewed in place."""

    server: str
    path: str
    token_file: Path | None = None
    authority: Path | None = None


def pod_place(namespace: str, name: str, host: str, port: int) -> ApiPlace:
    """As in every pod. `host` of the API server is best an address: looking up a name waits for a name server, however
    little time there is, and one that is away would keep the slice as it is."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
    shown = f"[{host}]" if ":" in host else host
    return ApiPlace(f"https://{shown}:{port}", path, _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def ask_controller(url: str, seconds: float) -> tuple[int, dict[str, Any]]:
    """A page of the controller: status and document; 0 and nothing if it does not answer sensibly in time."""
    try:
        with _opener(None).open(url, timeout=seconds) as answer:
            found = json.loads(answer.read(_BYTES_MAX))
            return int(answer.status), found if isinstance(found, dict) else {}
    except _SPEAKS:
        return 0, {}


def tell_controller(url: str, token_file: Path, document: Mapping[str, Any], seconds: float) -> bool:
    """Tell it something; whether it took it. One that does not is told again in the next round, or a moment later
    another controller leads."""
    try:
        request = urllib.request.Request(url, data=json.dumps(document).encode())  # noqa: S310 -- ours
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {token_file.read_text().strip()}")
        with _opener(None).open(request, timeout=seconds) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except _SPEAKS:
        return False


def read_slice(place: ApiPlace, seconds: float) -> dict[str, Any]:
    """The slice. Raises: NoAnswer."""
    return _send(place, "GET", None, seconds)


def patch_slice(place: ApiPlace, change: Change, name: str, seconds: float) -> dict[str, Any]:
    """Patch it over the version that the change was made for, and give what it is then. Raises: NoAnswer."""
    conditions = {"ready": True, "serving": True, "terminating": False}
    body = {
        "metadata": {
            "resourceVersion": change.version, "annotations": {EPOCH: str(change.epoch), HOLDER: name},
        },
        "endpoints": [{"addresses": [change.address], "conditions": conditions}] if change.address else [],
    }  # fmt: skip
    return _send(place, "PATCH", body, seconds)


def _send(place: ApiPlace, method: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{place.server}{place.path}", data=data, method=method)  # noqa: S310 -- ours
    request.add_header("Content-Type", "application/merge-patch+json")
    try:
        if place.token_file is not None:
            request.add_header("Authorization", f"Bearer {place.token_file.read_text().strip()}")
        with _opener(place.authority).open(request, timeout=seconds) as answer:
            return dict(json.loads(answer.read(_BYTES_MAX)))
    except urllib.error.HTTPError as error:
        raise NoAnswer(error.code, f"{method}: {error.code} {error.reason}") from error
    except _SPEAKS as error:
        raise NoAnswer(0, f"{method}: {type(error).__name__}: {error}") from error


def _opener(authority: Path | None) -> urllib.request.OpenerDirector:
    """A proxy of the environment has no say inside a cluster."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if authority is not None:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(authority))))
    return urllib.request.build_opener(*handlers)
