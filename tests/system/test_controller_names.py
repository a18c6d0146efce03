"""One, three and five controllers, each with a name service: a broker and its clients go through any of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compat.controllers import Controllers, start_logherd_controllers
from compat.processes import until
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def logherd(*arguments: str) -> str:
    command = [sys.executable, "-m", "logherd", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def send_through(port: int, text: str) -> None:
    assert "stored in greetings" in logherd("send", "greetings", text, "--name-server", f"127.0.0.1:{port}")


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_broker_is_found_through_the_name_service_of_every_controller(tmp_path: Path, count: int) -> None:
    nodes = tuple(f"n{number}" for number in range(count))
    with start_logherd_controllers(tmp_path / "controllers", nodes=nodes) as controllers:
        names = [f"127.0.0.1:{port}" for port in controllers.name_ports.values()]
        broker = BrokerProcess(tmp_path / "broker", nameService={"mode": "external", "addresses": names})
        broker.start()
        try:
            for number, port in enumerate(controllers.name_ports.values()):
                send_through(port, f"message {number}")
            survivors = lose_a_minority(controllers)
            for node in survivors:
                send_through(controllers.name_ports[node], f"after the loss, through {node}")
            got = logherd(
                "receive", "greetings", "--from", "first", "--count", str(count + len(survivors)), "--name-server",
                f"127.0.0.1:{controllers.name_ports[survivors[0]]}", "-o", "json",
            )  # fmt: skip
            texts = [json.loads(line)["body"] for line in got.splitlines()]
            assert sorted(texts) == sorted(
                [f"message {number}" for number in range(count)]
                + [f"after the loss, through {node}" for node in survivors]
            )
        finally:
            broker.stop()


def lose_a_minority(controllers: Controllers) -> tuple[str, ...]:
    """Kill as many as the quorum outlives, the leader among them, and wait for the next leader; who is left."""
    nodes = list(controllers.ports)
    count = (len(nodes) - 1) // 2
    if count == 0:
        return tuple(nodes)
    leader = controllers.leader
    lost = [leader, *(node for node in nodes if node != leader)][:count]
    for node in lost:
        controllers.processes[node].kill()
    left = tuple(node for node in nodes if node not in lost)

    def led() -> bool:
        said = {controllers.metadata(node).get("controllerLeaderId") for node in left}
        return len(said) == 1 and said <= set(left)

    until(led, seconds=60, what="another leader")
    return left
