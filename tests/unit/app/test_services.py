"""What a broker says of where it is."""

import json
from pathlib import Path

from logherd.app.services import Place
from logherd.model.host import encode_host
from logherd.settings.load import load_broker_options

REPLICA = {
    "brokerGroup": "bg",
    "brokerId": 2,
    "dataDir": "d",
    "nameService": {"mode": "external", "addresses": ["n:1"]},
}


def place(directory: Path, **settings: object) -> Place:
    path = directory / "broker.json"
    path.write_text(json.dumps({**REPLICA, **settings}))
    return Place.of(load_broker_options(path), 77)


def test_routes_name_the_address_that_is_advertised(tmp_path: Path) -> None:
    replication = {"mode": "controller", "controllers": ["c:1"]}
    found = place(tmp_path, listen="127.0.0.1:0", replication=replication)
    assert (found.identity.address, found.routed) == ("127.0.0.1:77", "127.0.0.1:77")
    found = place(tmp_path, advertised="10.0.0.2:5", replication=replication)
    assert (found.identity.address, found.routed) == ("10.0.0.2:5", "10.0.0.2:5")
    assert found.store_host == encode_host("10.0.0.2", 5)


def test_an_address_that_follows_the_leader_is_for_clients_only(tmp_path: Path) -> None:
    """Replicas go on finding each other when it is moved late."""
    replication = {"mode": "controller", "controllers": ["c:1"], "leaderAddress": "10.96.0.1:10911"}
    found = place(tmp_path, advertised="10.0.0.2:5", replication=replication)
    assert found.identity.address == "10.0.0.2:5"
    assert found.routed == "10.96.0.1:10911"
    assert found.store_host == encode_host("10.96.0.1", 10911)
