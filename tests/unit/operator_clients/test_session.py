"""The way to the API server: an answer that is no object is taken for none."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from logherd_operator.clients.api import JSON, Api
from logherd_operator.clients.errors import Refused, Unreachable
from logherd_operator.clients.session import ClusterAccess, ClusterTransport

PATH = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/logherd-operator"


def api_that_hears(status: int, body: bytes) -> Api:
    """A client to which each request is answered like this."""

    async def read() -> bytes:
        return body

    async def request(method: str, url: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(status=status, read=read)

    client = SimpleNamespace(rest_client=SimpleNamespace(request=request))
    return Api(ClusterTransport(ClusterAccess(), cast("Any", client)))


@pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b"[]", b"7", b'{"kind": "Lea', b'{"a":' * 100_000])
async def test_what_is_no_object_is_no_answer(body: bytes) -> None:
    """As of a proxy in between: nobody looks for an object's name in it."""
    with pytest.raises(Unreachable, match="no object"):
        await api_that_hears(200, body).find(PATH)


@pytest.mark.parametrize("body", [b"no such thing", b"[]", b""])
async def test_a_refusal_needs_no_object(body: bytes) -> None:
    assert await api_that_hears(404, body).find(PATH) is None
    with pytest.raises(Refused, match=r"403"):
        await api_that_hears(403, body).find(PATH)


async def test_an_object_is_handed_over() -> None:
    assert await api_that_hears(200, b'{"kind": "Lease"}').call("GET", PATH, None, JSON) == {"kind": "Lease"}
