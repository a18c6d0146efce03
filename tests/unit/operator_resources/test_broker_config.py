"""The rendered broker configuration: exact, and accepted by nobody but the broker (see tests/contract)."""

from logherd_operator.resources.broker_config import BrokerPlace, render_broker_config
from logherd_operator.spec.document import parse_group

PLACE = BrokerPlace(
    broker_id=0, listen="127.0.0.1:1", admin_listen="127.0.0.1:2", name_service_listen="127.0.0.1:3", data_dir="/data"
)


def render(spec: str) -> dict[str, object]:
    head = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\n"
    return render_broker_config(parse_group(f"{head}spec: {spec}\n", source="test"), PLACE)


def test_an_empty_spec_gives_the_defaults() -> None:
    assert render("{}") == {
        "brokerGroup": "orders",
        "clusterName": "orders",
        "brokerId": 0,
        "listen": "127.0.0.1:1",
        "adminListen": "127.0.0.1:2",
        "dataDir": "/data",
        "nameService": {"mode": "embedded", "listen": "127.0.0.1:3"},
        "flush": "sync",
        "store": {"reservedPercent": 10},
        "properties": {},
    }


def test_every_field_that_a_broker_knows_reaches_it() -> None:
    spec = (
        "{clusterName: shop, replication: {flush: Async}, storage: {reservedPercent: 20}, "
        "nameService: {mode: External, addresses: ['a:9876']}, config: {fileReservedTime: '5'}}"
    )
    rendered = render(spec)
    assert rendered["clusterName"] == "shop"
    assert rendered["flush"] == "async"
    assert rendered["store"] == {"reservedPercent": 20}
    assert rendered["nameService"] == {"mode": "external", "addresses": ["a:9876"]}
    assert rendered["properties"] == {"fileReservedTime": "5"}
