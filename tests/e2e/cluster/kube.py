"""The API server as a test sees it: objects as JSON, over HTTPS, with the right to everything."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from e2e.cluster.papers import TOKEN

__all__ = ["Kube", "Refused", "eventually"]

Object = dict[str, Any]
_MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The API server said no, or nothing (`status` 0)."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


def eventually(
    look: Callable[[], Any],
    what: str,
    *,
    seconds: float = 300,
    pause: float = 0.25,
    words: Callable[[], str] | None = None,
) -> Any:
    """Look until something true is seen, and give that. Raises TimeoutError with `words`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found, last = look(), ""
        except Refused as error:
            found, last = None, str(error)
        if found:
            return found
        if time.monotonic() > deadline:
            said = words() if words is not None else ""
            raise TimeoutError(f"{what} did not happen within {seconds:g} s; {last}\n{said}")
        time.sleep(pause)


class Kube:
    """Paths are the API's own."""

    def __init__(self, address: str, authority: str) -> None:
        self._address = address
        self._context = ssl.create_default_context(cafile=authority)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = "application/json"
    ) -> Object:
        """Raises Refused."""
        connection = http.client.HTTPSConnection(self._address, 6443, timeout=60, context=self._context)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(0, f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, f"{method} {path}: {text[:500].decode(errors='replace')}")
        return dict(json.loads(text)) if text.startswith(b"{") else {"text": text.decode()}

    def get(self, path: str) -> Object:
        """Raises Refused."""
        return self.send("GET", path)

    def find(self, path: str) -> Object | None:
        """None if there is no such object. Raises Refused."""
        try:
            return self.get(path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Object]:
        """Raises Refused."""
        return list(self.get(path)["items"])

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """Raises Refused."""
        return self.send("PATCH", path, body, kind=_MERGE)

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Raises Refused."""
        return self.send("POST", path, body)

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """Raises Refused."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.send("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
