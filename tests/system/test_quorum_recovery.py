"""A quorum that has lost its majority for good is recovered by an operator, and grows again."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from system.controllers import ADMIN_PORT, CLIENTS, NODES, controller, status_of
from system.netns import Network, why_unavailable
from system.nodes import NodeProcess, Quorum, python_command

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

SECRET = "a-secret-of-some-length"


class Operator:
    """Runs `logherd quorum` where the controllers are reached."""

    def __init__(self, network: Network, token: Path) -> None:
        self._network = network
        self._token = token

    def run(self, *arguments: str, admins: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        places = [part for name in admins for part in ("--admin", f"{self._network.address(name)}:{ADMIN_PORT}")]
        secret = [] if arguments[0] == "status" else ["--token-file", str(self._token)]
        command = [*self._network.enter(CLIENTS), *python_command("-m", "logherd", "quorum", *arguments)]
        return subprocess.run([*command, *places, *secret], capture_output=True, text=True, timeout=60, check=False)

    def members(self, admin: str) -> dict[str, bool]:
        """Node to whether it votes."""
        answer = self.run("status", "-o", "json", admins=(admin,))
        return {each["node"]: each["voter"] for each in json.loads(answer.stdout)["members"]}


def wait_for(what: str, condition: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{what} did not come in {seconds} s"
        time.sleep(0.1)


def test_a_survivor_becomes_the_quorum_and_takes_in_new_members(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    with Network((*NODES, CLIENTS)) as network:
        nodes = {node: controller(network, node, tmp_path / node, adminTokenFile=str(token)) for node in NODES}
        with Quorum(list(nodes.values()), status_of(network)) as quorum:
            quorum.agree(seconds=60)
            operator = Operator(network, token)
            refused = operator.run("recover", "--yes", admins=("c3",))
            assert refused.returncode != 0
            assert "a quorum that works is not recovered" in refused.stderr
            lose(nodes, "c1", "c2")
            wait_for("the loss of the leader", lambda: status_of(network)("c3", 20)["leader"] is None)
            assert operator.run("status", admins=("c3",)).returncode == 1

            recovered = operator.run("recover", "--yes", admins=("c3",))
            assert recovered.returncode == 0, recovered.stderr
            assert operator.members("c3") == {"c3": True}
            wait_for("its own word of it", lambda: nodes["c3"].log_events("QuorumRecovered"))
            assert len(nodes["c3"].log_events("QuorumRecovered")) == 1

            take_in(operator, nodes, tmp_path)
            old_one_is_refused(nodes["c1"], tmp_path)


def lose(nodes: dict[str, NodeProcess], *names: str) -> None:
    """Their disks as they were are kept aside."""
    for name in names:
        nodes[name].kill()
        shutil.move(nodes[name].directory / "data", nodes[name].directory / "lost")


def take_in(operator: Operator, nodes: dict[str, NodeProcess], directory: Path) -> None:
    """Two empty nodes join without a vote, and get one."""
    for name in ("c1", "c2"):
        nodes[name].start()
    wait_for("both to be heard of", lambda: both_linked(operator))
    grown = operator.run("members", "--voter", "c1", "--voter", "c2", "--voter", "c3", admins=("c3",))
    assert grown.returncode == 0, grown.stderr
    assert operator.members("c3") == {"c1": True, "c2": True, "c3": True}
    # They count: without c3 the others go on.
    nodes["c3"].kill()
    wait_for("another leader", lambda: operator.run("status", admins=("c1", "c2")).returncode == 0)
    nodes["c3"].start()


def both_linked(operator: Operator) -> bool:
    tried = operator.run("members", "--voter", "c3", "--learner", "c1", "--learner", "c2", admins=("c3",))
    return tried.returncode == 0


def old_one_is_refused(node: NodeProcess, directory: Path) -> None:
    """A disk of the quorum that was given up: it may not speak to the new one."""
    node.kill()
    shutil.rmtree(node.directory / "data")
    shutil.move(node.directory / "lost", node.directory / "data")
    before = len(node.log_events("peer does not link"))
    node.start()

    def refused() -> bool:
        """Before it, a link may fail for another reason."""
        reasons = [event["reason"] for event in node.log_events("peer does not link")[before:]]
        return any("the quorum was rebuilt" in reason for reason in reasons)

    wait_for("the refusal", refused)
    node.kill()
