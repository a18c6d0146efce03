"""The admin port of real controllers: what they show, an election, and a controller that comes back wiped."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.controllers import Controllers, logherd_command, start_logherd_controllers
from compat.fake_broker import FakeBroker, in_sync
from compat.processes import Process, until
from compat.server import BROKER, CLUSTER

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TOKEN = "a-secret-of-this-test-only"
GROUP = f"/groups/{CLUSTER}/{BROKER}"


class Running:
    """Three controllers and their admin ports."""

    def __init__(self, controllers: Controllers, directory: Path) -> None:
        self.controllers = controllers
        self.directory = directory
        members = json.loads((directory / "n0" / "controller.json").read_text())["controllers"]
        self._admin = {member["name"]: member["admin"] for member in members}
        self.leader = controllers.leader
        self.followers = [node for node in controllers.ports if node != self.leader]

    def call(self, node: str, path: str, token: str = TOKEN, **body: object) -> tuple[int, dict[str, Any]]:
        """Status and document; a POST if there is a body."""
        request = urllib.request.Request(
            f"http://{self._admin[node]}{path}", data=json.dumps(body).encode() if body else None,
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    with start_logherd_controllers(tmp_path / "nodes", adminTokenFile=str(secret)) as controllers:
        yield Running(controllers, tmp_path / "nodes")


def test_each_controller_takes_settings_of_its_own_while_it_runs(running: Running) -> None:
    one, other = running.followers
    wanted = {"limits.idleTime": "5m", "log.level": "warning"}
    # A machine that is too busy to have it checked says so.
    until(lambda: running.call(one, "/config/process", values=wanted)[0] == 200, seconds=60, what="the change")
    said = running.call(one, "/config/process")[1]
    assert said["hot"]["limits.idleTime"] == "300000ms"
    assert said["config"]["changed"] == {"limits.idleTime": 1, "log.level": 1}
    assert running.call(other, "/config/process")[1]["hot"]["limits.idleTime"] == "120000ms"
    status, said = running.call(one, "/config/process", values={"leaseMs": 5000})
    assert (status, said["field"]) == (400, "leaseMs")
    assert running.call(one, "/config/process", token="another", values={"log.level": "info"})[0] == 403


def test_a_group_is_shown_everywhere_and_led_from_the_leader(running: Running) -> None:
    brokers = [FakeBroker(number, running.controllers) for number in (1, 2, 3)]
    for broker in brokers:
        broker.start()
    in_sync(running.controllers, 1, 2, 3, alive=3)
    for node in (running.leader, *running.followers):
        status, page = running.call(node, GROUP)
        assert (status, page["confirmed"], page["live"]) == (200, True, node == running.leader)
        assert (page["leader"]["brokerId"], page["inSync"]) == (1, [1, 2, 3])
        assert running.call(node, "/ready")[0] == running.call(node, "/health")[0] == 200
    order = {"brokerId": 2, "expectedEpoch": 1, "requestId": "one"}
    status, page = running.call(running.followers[0], f"{GROUP}/elect", **order)
    assert (status, page["leader"]["node"]) == (409, running.leader)
    assert running.call(running.leader, f"{GROUP}/elect", token="wrong", **order)[0] in (401, 403)
    for changed in (True, False):
        status, page = running.call(running.leader, f"{GROUP}/elect", **order)
        assert (status, page["changed"], page["group"]["leader"]["brokerId"]) == (200, changed, 2)
    status, page = running.call(running.leader, f"{GROUP}/elect", **{**order, "requestId": "two"})
    assert (status, page["expectedEpoch"], page["epoch"]) == (409, 1, 2)
    for broker in brokers:
        broker.stop()


def test_a_controller_that_comes_back_wiped_is_replaced_by_name(running: Running) -> None:
    lost = running.followers[0]
    before = {each["node"]: each["identity"] for each in running.call(running.leader, "/quorum")[1]["members"]}
    running.controllers.processes[lost].kill()
    shutil.rmtree(running.directory / lost / "data")
    running.controllers.processes[lost] = Process(
        logherd_command(running.directory, lost), log=running.directory / lost / "controller.out"
    )

    def heard_of() -> bool:
        peers = running.call(running.leader, "/status")[1]["peers"]
        return any(peer["node"] == lost and peer["connected"] for peer in peers)

    until(heard_of, seconds=60, what="the wiped controller says hello")
    status, page = running.call(running.leader, "/quorum/members", voters=["n0", "n1", "n2"])
    assert (status, page["changed"]) == (200, True)
    after = {each["node"]: each["identity"] for each in page["quorum"]["members"]}
    assert {node for node in before if before[node] != after[node]} == {lost}
    assert set(after) == {"n0", "n1", "n2"}
    until(lambda: running.call(lost, "/ready")[0] == 200, seconds=60, what="the new member hears its leader")
    status, page = running.call(running.leader, "/quorum/members", voters=["n0", "n1", "n2"])
    assert (status, page["changed"]) == (200, False)
