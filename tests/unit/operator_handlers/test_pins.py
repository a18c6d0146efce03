"""Templates as they were kept: what somebody has made unusable in the ConfigMap is read from the StatefulSet."""

import json
from typing import Any, cast

import pytest

from logherd_operator.clients.api import Api
from logherd_operator.handlers.known import Key
from logherd_operator.handlers.pins import image_of, read_pins
from logherd_operator.resources.pinning import ROLL_HASH

KEY = Key("shop", "orders")
IN_USE = {
    "metadata": {"annotations": {ROLL_HASH: "in-use"}},
    "spec": {"containers": [{"name": "broker", "image": "logherd:1"}]},
}


class _Kept:
    """An API server with the ConfigMap and the brokers' StatefulSet, and nothing else."""

    def __init__(self, template: object) -> None:
        text = json.dumps({"template": template, "rollHash": "kept", "renderedBy": "1"})
        self._found: dict[str, dict[str, Any]] = {
            "/api/v1/namespaces/shop/configmaps/orders-template": {"data": {"broker.json": text}},
            "/apis/apps/v1/namespaces/shop/statefulsets/orders-broker": {"spec": {"template": IN_USE}},
        }

    async def find(self, path: str) -> dict[str, Any] | None:
        return self._found.get(path)


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"containers": []}},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": [{"name": "broker"}]}},
        {"spec": {"containers": [{"image": "logherd:2"}]}},
        {"spec": {"containers": [{"name": "agent", "image": "a:1"}]}},
    ],
)
async def test_a_kept_template_that_makes_no_pod_gives_way_to_the_one_in_use(template: object) -> None:
    pins = await read_pins(cast("Api", _Kept(template)), KEY)
    assert (pins["broker"].roll_hash, image_of(pins, None)) == ("in-use", "logherd:1")


async def test_a_kept_template_counts_more_than_the_one_in_use() -> None:
    kept = {"spec": {"containers": [{"name": "broker", "image": "logherd:2"}]}}
    pins = await read_pins(cast("Api", _Kept(kept)), KEY)
    assert (pins["broker"].roll_hash, image_of(pins, None)) == ("kept", "logherd:2")
