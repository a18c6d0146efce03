"""What the watches have brought, as it is kept: cut, and still enough for what is asked of it."""

from typing import Any

from logherd_operator.handlers.known import SLICES, WATCHED, Key
from logherd_operator.handlers.watching import Watches

KEY = Key("shop", "orders")
LABELS = {
    "app.kubernetes.io/instance": "orders", "app.kubernetes.io/managed-by": "logherd-operator",
    "endpointslice.kubernetes.io/managed-by": "leader-endpoint.logherd.dev",
    "kubernetes.io/service-name": "orders-leader",
}  # fmt: skip


def has_slice(labels: dict[str, str]) -> bool:
    """As the index has it after one such object."""
    (kind,) = [each for each in WATCHED if each.name == SLICES]
    body = {"metadata": {"name": "orders-leader", "namespace": "shop", "uid": "u", "labels": labels}, "endpoints": []}
    kept: dict[str, dict[Any, Any]] = {each.name: {} for each in WATCHED}
    kept[SLICES] = {kind.key_of(body): [kind.slim(body)]}
    watches = Watches()
    watches.bind(kept)
    return watches.has_slice(KEY)


def test_an_endpoint_that_its_service_does_not_find_does_not_count_as_there() -> None:
    assert has_slice(LABELS)
    assert not has_slice({name: each for name, each in LABELS.items() if name != "kubernetes.io/service-name"})
    assert not has_slice({**LABELS, "kubernetes.io/service-name": "other"})
