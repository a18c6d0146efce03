"""Where a group is and what it is made from, as its status tells it."""

from dataclasses import replace

import pytest

from logherd_operator.observed.slots import Report
from logherd_operator.status.place import place_document
from unit.operator_plan.looks import broker, look, quorum, with_broker
from unit.operator_resources.examples import site_of


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (("0.10.0", "0.9.0", "0.10.0"), "0.9.0"), (("1.2.0", "1.10.0", "1.2.0"), "1.2.0"),
        (("0.9.0", "0.9.1", ""), "0.9.0"), (("0.2.0", "0.2.0.dev3", "0.2"), "0.2"), (("", "", ""), None),
    ],
)  # fmt: skip
def test_of_several_versions_the_oldest_is_told(versions: tuple[str, ...], told: str | None) -> None:
    observed = look()
    for n, version in enumerate(versions):
        report = Report(broker_id=n + 1, role="follower", epoch=7, version=version)
        observed = with_broker(observed, broker(n, report=report))
    assert place_document(site_of({}), observed, None)["versions"].get("broker") == told


def test_addresses_are_those_that_clients_are_given() -> None:
    shared = {"controllers": {"ref": {"name": "others"}}, "clusterDomain": "k8s.example"}
    external = {"nameService": {"mode": "External", "addresses": ["a:9876", "b:9877"]}, "replication": {"mode": "Raft"}}
    found = [place_document(site_of(spec), look(), None)["endpoints"] for spec in ({}, shared, external)]
    assert found == [
        {"bootstrap": "orders-bootstrap.shop.svc.cluster.local:9876",
         "leader": "orders-leader.shop.svc.cluster.local:10911"},
        {"bootstrap": "others-bootstrap.shop.svc.k8s.example:9876",
         "leader": "orders-leader.shop.svc.k8s.example:10911"},
        {"bootstrap": "a:9876;b:9877"},
    ]  # fmt: skip


def test_a_quorum_is_one_while_a_majority_answers_and_somebody_leads() -> None:
    def told(**fields: object) -> dict[str, object]:
        return dict(place_document(site_of({}), replace(look(), **fields), None)["controllers"])  # type: ignore[arg-type]

    assert told() == {"replicas": 3, "readyReplicas": 3, "quorate": True, "leader": "c0"}
    assert told(quorum=quorum(down=(2,)))["quorate"] is True
    assert told(quorum=quorum(down=(1, 2)))["quorate"] is False
    assert told(quorum=quorum(leader=None)) == {"replicas": 3, "readyReplicas": 3, "quorate": False}
    assert told(quorum=None)["quorate"] is False
