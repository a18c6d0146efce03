"""Ready is who takes a client's request and gets it done, by itself or by the leader."""

from types import SimpleNamespace
from typing import cast

import pytest

from logherd.app.broker_pages import BrokerPages, BrokerParts


@pytest.mark.parametrize(
    ("bound", "role", "why_not"),
    [
        ({"address": "h:1"}, "leader", None),
        ({"address": "h:1"}, "follower", None),
        ({"address": "h:1"}, "none", "it knows of no leader of its group"),
        ({}, "leader", "its port does not take requests"),
    ],
)
def test_a_broker_is_ready_when_it_serves_or_forwards(bound: dict[str, str], role: str, why_not: str | None) -> None:
    parts = SimpleNamespace(bound=bound, forwarding=SimpleNamespace(role_name=role))
    status, page = BrokerPages(cast("BrokerParts", parts)).ready()
    assert (status, page) == (200 if why_not is None else 503, {"ready": why_not is None, "whyNot": why_not})
