"""The Kubernetes client as a transport: it knows where the API server is, whom to trust, and renews its token.

Of the client only configuration and connections are used: server-side apply and preconditions are plain requests, and
objects stay documents.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from logherd_operator.clients.api import JSON, Reply
from logherd_operator.clients.errors import ClusterError, Unreachable

__all__ = ["Chosen", "ClusterAccess", "choose_access", "load_access", "opened"]

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
ClusterAccess = Configuration


class Chosen(NamedTuple):
    """A cluster, and the namespace that is meant where none is named."""

    access: ClusterAccess
    namespace: str


async def load_access() -> ClusterAccess:
    """From the pod's service account, else from the user's kubeconfig. Raises: ClusterError if there is neither."""
    access = Configuration()
    try:
        config.load_incluster_config(client_configuration=access)
    except config.ConfigException:
        try:
            await config.load_kube_config(client_configuration=access)
        except (config.ConfigException, OSError) as error:
            raise ClusterError(f"neither a pod's service account nor a kubeconfig was found: {error}") from error
    return access


async def choose_access(kubeconfig: Path | None, context: str | None) -> "Chosen":
    """What a person means: a kubeconfig's context, with its namespace. Raises: ClusterError if there is none."""
    access, file = Configuration(), None if kubeconfig is None else str(kubeconfig)
    try:
        await config.load_kube_config(config_file=file, context=context, client_configuration=access)
        known, current = config.list_kube_config_contexts(config_file=file)
    except (config.ConfigException, OSError) as error:
        raise ClusterError(f"no cluster to ask: {error}") from error
    used = next((each for each in known if each["name"] == context), current)
    return Chosen(access, str(used["context"].get("namespace") or "default"))


@asynccontextmanager
async def opened(access: ClusterAccess) -> AsyncIterator["ClusterTransport"]:
    """Connections to the API server, closed at the end."""
    async with ApiClient(configuration=access) as client:
        yield ClusterTransport(access, client)


class ClusterTransport:
    """A `Transport` over HTTPS."""

    def __init__(self, access: ClusterAccess, client: ApiClient) -> None:
        self._access = access
        self._client = client

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str) -> Reply:
        """One request. Raises: Unreachable after 30 s at most."""
        headers = {"Accept": JSON, "Content-Type": content_type}
        token = await self._access.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        try:
            answer = await self._client.rest_client.request(
                method, f"{self._access.host}{path}", headers=headers, body=body, _request_timeout=_TIMEOUT
            )
            text = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {path}: {type(error).__name__}: {error}") from error
        return Reply(answer.status, _document(text))


def _document(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text[:200].decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": "the answer is no object"}
