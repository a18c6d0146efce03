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
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from logherd_operator.clients.api import JSON, Reply
from logherd_operator.clients.errors import ClusterError, Unreachable

__all__ = ["Chosen", "ClusterAccess", "choose_access", "load_access", "opened"]

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_UNREADABLE = (
    config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError,
)  # fmt: skip
"""What the client says to a kubeconfig: it expects that what it reads has the right shape."""
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
        except _UNREADABLE as error:
            raise ClusterError(f"neither a pod's service account nor a kubeconfig was found: {_line(error)}") from error
    return access


async def choose_access(kubeconfig: Path | None, context: str | None) -> "Chosen":
    """What a person means: a kubeconfig's context, with its namespace. Raises: ClusterError if there is none."""
    access, file = Configuration(), None if kubeconfig is None else str(kubeconfig)
    try:
        await config.load_kube_config(config_file=file, context=context, client_configuration=access)
        known, current = config.list_kube_config_contexts(config_file=file)
        used = next((each for each in known if each["name"] == context), current)
        namespace = str(used["context"].get("namespace") or "default")
    except _UNREADABLE as error:
        raise ClusterError(f"no cluster to ask: {_line(error)}") from error
    return Chosen(access, namespace)


def _line(error: Exception) -> str:
    said = " ".join(str(error).split())
    shape = isinstance(error, TypeError | LookupError | AttributeError)
    return f"the kubeconfig is not one: {said}" if shape else said


@asynccontextmanager
async def opened(access: ClusterAccess) -> AsyncIterator["ClusterTransport"]:
    """Connections to the API server, closed at the end. Raises: ClusterError for certificates that are none."""
    try:
        client = ApiClient(configuration=access)
    except (OSError, ValueError) as error:
        raise ClusterError(f"the certificates for {access.host} cannot be read: {_line(error)}") from error
    async with client:
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
        found = _object(text)
        if found is None and answer.status < 300:
            # Of somebody in between: who asked would take it for the object, and look for its name and version.
            raise Unreachable(f"{method} {path}: the answer is no object: {_beginning(text)}")
        return Reply(answer.status, {"message": _beginning(text)} if found is None else found)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _beginning(text: bytes) -> str:
    return text[:200].decode(errors="replace")
