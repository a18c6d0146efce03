"""Scrapes of real processes: everything that the page lists for them is there, and counts what was done."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from compat.controllers import Controllers, start_logherd_controllers
from compat.fake_broker import FakeBroker, in_sync
from compat.processes import until
from logherd.telemetry.metrics import SECTIONS
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def scrape(admin: str) -> dict[str, float]:
    """Values by name and labels."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=30) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text) for sample in family.samples
    }  # fmt: skip


def names_of(*sections: str) -> set[str]:
    return {metric.name for section in sections for metric in SECTIONS[section]}


def metrics_in(found: dict[str, float]) -> set[str]:
    names = {name.partition("[")[0] for name in found}
    return {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in names}


def send(name_server: str, *texts: str) -> None:
    for text in texts:
        command = [sys.executable, "-m", "logherd", "send", "t", text, "--name-server", name_server]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_a_broker_tells_every_metric_that_is_listed_for_it(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        admin = f"127.0.0.1:{broker.admin_port}"
        with urllib.request.urlopen(f"http://{admin}/status", timeout=30) as answer:
            status = json.load(answer)
        before = scrape(admin)
        send(status["nameServer"], "one", "two")
        found = scrape(admin)
    finally:
        broker.stop()
    assert status["replication"] is None
    expected = names_of("Every process", "Brokers") - {"logherd_refusals_total"}
    assert metrics_in(found) | {"logherd_refusals_total"} == expected | {"logherd_refusals_total"}
    assert found["logherd_messages_in_total"] - before["logherd_messages_in_total"] == 2
    assert found["logherd_store_position_bytes[end]"] > before["logherd_store_position_bytes[end]"]
    assert found["logherd_flush_seconds_count"] > before["logherd_flush_seconds_count"]
    assert found["logherd_connections_accepted_total[broker]"] >= 2
    received = "logherd_network_received_bytes_total[broker]"
    assert found[received] > before[received]


def admin_of(directory: Path, node: str) -> str:
    return str(json.loads((directory / node / "controller.json").read_text())["adminListen"])


def led_group(controllers: Controllers) -> list[FakeBroker]:
    brokers = [FakeBroker(number, controllers) for number in (1, 2, 3)]
    for broker in brokers:
        broker.start()
    in_sync(controllers, 1, 2, 3, alive=3)
    return brokers


def leased(admin: str) -> None:
    until(lambda: scrape(admin)["logherd_controller_leases"] == 1, seconds=60, what="a lease")


def test_controllers_tell_every_metric_that_is_listed_for_them(tmp_path: Path) -> None:
    with start_logherd_controllers(tmp_path) as controllers:
        brokers = led_group(controllers)
        try:
            leader = controllers.leader
            leased(admin_of(tmp_path, leader))
            found: dict[str, dict[str, float]] = {}

            def known_to_all() -> bool:
                """Followers hear of a decision, and of each other, a little later than their leader."""
                found.update({node: scrape(admin_of(tmp_path, node)) for node in controllers.ports})
                return all(knows_all(node, values) for node, values in found.items())

            def knows_all(node: str, values: dict[str, float]) -> bool:
                linked = sum(values[f"logherd_raft_member_connected[{peer}]"] for peer in found if peer != node) == 2
                brokers = sum(values.get(f"logherd_controller_brokers[{each}]", 0) for each in ("alive", "unknown"))
                return bool(linked and brokers == 3)

            until(known_to_all, seconds=60, what="all that the leader decided, everywhere")
        finally:
            for broker in brokers:
                broker.stop()
    expected = names_of("Every process", "Controllers") | {"logherd_refusals_total"}
    assert metrics_in(found[leader]) | {"logherd_refusals_total"} == expected
    for node, values in found.items():
        leads = float(node == leader)
        assert (values["logherd_controller_serving"], values["logherd_raft_role[leader]"]) == (leads, leads)
        assert sum(values[f"logherd_raft_member_connected[{peer}]"] for peer in found if peer != node) == 2
        assert values["logherd_raft_position_bytes[applied]"] > 0
        assert values["logherd_flush_seconds_count"] > 0
        state, alive = ("serving", "alive") if leads else ("unknown", "unknown")
        assert values[f"logherd_controller_groups[{state}]"] == 1
        assert values[f"logherd_controller_brokers[{alive}]"] == 3
    assert found[leader]["logherd_controller_leases"] == 1
    assert found[leader]["logherd_controller_elections_total"] == 1
    assert found[leader]["logherd_requests_total[BROKER_HEARTBEAT]"] > 0
    assert found[leader]["logherd_raft_leaderships_total"] == 1
