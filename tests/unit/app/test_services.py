"""What a broker says of where it is."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from logherd.app import store_host
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
    return asyncio.run(Place.find(load_broker_options(path), 77))


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


def test_a_name_is_looked_up_for_the_ids_of_messages(tmp_path: Path) -> None:
    found = place(tmp_path, advertised="localhost:5", replication={"mode": "controller", "controllers": ["c:1"]})
    assert (found.identity.address, found.routed) == ("localhost:5", "localhost:5")
    assert found.store_host == encode_host("127.0.0.1", 5)


def test_a_name_that_nobody_knows_delays_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_host, "_LOOKUP_SECONDS", 0.0)
    told: list[dict[str, object]] = []
    monkeypatch.setattr(store_host, "_log", SimpleNamespace(warning=lambda _message, **fields: told.append(fields)))
    replication = {"mode": "controller", "controllers": ["c:1"]}
    found = place(tmp_path, advertised="broker.invalid:5", replication=replication)
    assert (found.routed, found.store_host) == ("broker.invalid:5", encode_host("127.0.0.1", 5))
    assert [each["name"] for each in told] == ["broker.invalid"]
