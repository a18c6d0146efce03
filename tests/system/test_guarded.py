"""Brokers and controllers as children of guardians: what a death costs their clients, and in which order all end."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from logherd.model.host import encode_host
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import TopicRoute
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient
from system.guarded import GuardedBroker, knocking, said
from system.guardians import Guardian, eventually, is_alive
from system.load import TOPIC, Load, drained_history
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

STORE = {"segmentSize": "1MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
LIVES = 4
PATIENCE_SECONDS = 60.0


@contextmanager
def asking(port: int) -> Iterator[BlockingClient]:
    client = BlockingClient(port, timeout_seconds=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.close()


def is_stored(port: int, body: str) -> bool:
    with asking(port) as client:
        return client.send(TOPIC, 0, body).outcome is Outcome.OK


def bodies(port: int) -> list[str]:
    with asking(port) as client:
        return [body for _, body in client.pull(TOPIC, 0, 0)]


def test_a_broker_killed_9_again_and_again_refuses_no_connection_and_loses_nothing(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, store=STORE)
    broker.start()
    try:
        with Load(broker, senders=4) as load, knocking(broker) as outcomes:
            for _ in range(LIVES - 1):
                load.wait_for(Outcome.OK, 100)
                child = broker.kill_child()
                broker.wait_for_another(child)
            load.wait_for(Outcome.OK, 100)
        history = drained_history(broker, load)
        assert broker.log().count("logherd-guardian: the child has exited: signal=9") == LIVES - 1
        assert broker.told["guardian"] == broker.pid
    finally:
        broker.kill()
    verdict = check_log(history, ok_sends_min=LIVES * 100)
    assert verdict.name == "valid", verdict
    assert [each for each in outcomes if each.startswith("not connected")] == []
    # Of those that knock one after the other, a death cuts at most the one that the dying process had taken.
    assert sum(each.startswith("cut") for each in outcomes) <= LIVES - 1
    assert outcomes.count("answered") >= LIVES


def test_a_guardian_killed_9_takes_its_broker_along_and_the_next_one_serves(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, store=STORE)
    broker.start()
    try:
        child = broker.child
        assert is_stored(broker.port, "before")
        broker.kill()
        eventually(lambda: not is_alive(child), "the broker outlives its guardian", PATIENCE_SECONDS)
        broker.start()  # on the same ports and the same store, whose lock is free
        assert bodies(broker.port) == ["before"]
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_stop_ends_the_broker_first_and_then_the_guardian(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, store=STORE)
    broker.start()
    try:
        child = broker.child
        assert is_stored(broker.port, "a")
        assert broker.stop() == 0
        assert not is_alive(child)
        assert said(broker.log(), "process stops", "logherd-guardian: the child has exited: code=0"), broker.log()
        assert "next start" not in broker.log()
    finally:
        broker.kill()


def test_a_broker_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, store=STORE)
    broker.start()
    try:
        child = broker.child
        os.kill(child, signal.SIGTERM)
        broker.wait_for_another(child)
        expected = ("the child has exited: code=0", "child started", "the child serves")
        eventually(lambda: said(broker.log(), *expected), f"another story:\n{broker.log()}", PATIENCE_SECONDS)
        assert is_stored(broker.port, "a")
        assert broker.stop() == 0
    finally:
        broker.kill()


def from_address(host: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS, source_address=(host, 0))


def leaders_of(names_port: int) -> list[str]:
    with asking(names_port) as names:
        answer = names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
    assert answer.code == 0, answer.remark
    return [each.broker_name for each in decode_body(TopicRoute, answer.body).brokers]


def test_clients_of_a_dead_broker_are_served_by_a_live_one_under_their_own_address(tmp_path: Path) -> None:
    """Of its name service, too; when the broker is back it takes them itself."""
    live = BrokerProcess(tmp_path / "live", brokerGroup="live", guardian={"relayListen": "127.0.0.1:0"}, store=STORE)
    live.start()
    relay = json.loads((tmp_path / "live/ready.json").read_text())["relay"]
    dead = GuardedBroker(tmp_path / "dead", brokerGroup="dead", guardian={"peers": [relay]}, store=STORE)
    config = tmp_path / "dead/broker.json"
    try:
        dead.start()
        dead.wait_until_lent(lives=1)
        right = config.read_text()
        names_port = int(dead.told["nameServer"].rpartition(":")[2])
        assert leaders_of(names_port) == ["dead"]
        config.write_text("{}")  # so that it stays away for a while
        child = dead.kill_child()
        with from_address("127.0.0.9", dead.port) as made:
            client = BlockingClient(dead.port, made=made)
            assert client.send(TOPIC, 0, "of the dead").outcome is Outcome.OK
            with asking(live.port) as direct:
                [record] = direct.records(TOPIC, 0, 0)
            assert bytes(record.body) == b"of the dead"
            assert record.born_host == encode_host(*made.getsockname())
            assert leaders_of(names_port) == ["live"]
            waits = "the child has exited: code=2, which means that it cannot start"
            eventually(lambda: waits in dead.log(), f"another story:\n{dead.log()}", PATIENCE_SECONDS)
            config.write_text(right)
            dead.wait_for_another(child)
            dead.wait_until_lent(lives=2)
            assert bodies(dead.port) == []
            # Who was passed on stays where it is, for the time being.
            assert client.send(TOPIC, 0, "again").outcome is Outcome.OK
        assert bodies(live.port) == ["of the dead", "again"]
        assert dead.stop() == 0
    finally:
        dead.kill()
        live.kill()


def test_a_broker_refuses_by_name_what_its_settings_do_not_say(tmp_path: Path) -> None:
    config = tmp_path / "broker.json"
    document = {"brokerGroup": "bg", "listen": "127.0.0.1:1", "dataDir": str(tmp_path / "data")}
    config.write_text(json.dumps(document))
    command = (sys.executable, "-m", "logherd", "broker", "--config", str(config))
    with Guardian(tmp_path, command=command) as guardian:
        guardian.wait_for("which means that it cannot start", seconds=PATIENCE_SECONDS)
        told = f"logherd broker: listen 127.0.0.1:1: the guardian lends 127.0.0.1:{guardian.port} as remoting\n"
        assert told in guardian.log
        assert "code=3, which means that it cannot start" in guardian.log


def test_a_controller_killed_9_leads_again_on_the_same_port(tmp_path: Path) -> None:
    member = {"name": "c1", "peer": "127.0.0.1:1", "address": "127.0.0.1:2"}
    any_port = "127.0.0.1:0"
    config = {
        "nodeName": "c1", "controllers": [member], "listen": any_port, "peerListen": any_port, "adminListen": any_port,
        "nameService": {"listen": any_port}, "dataDir": str(tmp_path / "data"),
    }  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(config))
    ready, log = tmp_path / "ready.json", tmp_path / "c.log"
    command = [sys.executable, "-m", "logherd", "controller", "--guarded", "--config", str(tmp_path / "c.json")]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--ready-file", str(ready)], stdout=output, stderr=output)
    try:
        eventually(ready.exists, "the controller does not serve", PATIENCE_SECONDS)
        told = json.loads(ready.read_text())
        port = int(told["address"].rpartition(":")[2])
        assert told["guardian"] == process.pid
        os.kill(told["pid"], signal.SIGKILL)

        def leads() -> bool:
            with asking(port) as client:
                answer = client.ask(RequestCode.CONTROLLER_GET_METADATA_INFO, {})
            return bool(answer.code == 0 and answer.ext.get("isLeader") == "true")

        eventually(leads, f"it does not lead again:\n{log.read_text()}", PATIENCE_SECONDS)
        assert json.loads(ready.read_text())["pid"] != told["pid"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert said(log.read_text(), "process stops", "logherd-guardian: the child has exited: code=0")
    finally:
        process.kill()
        process.wait(20)
