"""The stock clients for Python and Go at a group whose leader is killed: nothing that was acknowledged is lost."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from compat.conftest import needs
from compat.python_client import PythonClient
from compat.toolchain import HERE, build_go, install_python_client
from system.local_group import LocalGroup, await_true
from system.test_up import kill

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]

_SENT_MIN = 50
"""Fewer prove nothing: of some 350 in the ten seconds in which three leaders are killed."""


class Python:
    """A thread of this client that finds its table of connections locked gives up at once, all retries within a
    millisecond: now and then a send fails as the connections break, at worst one of each thread at each kill. It says
    so then."""

    def __init__(self) -> None:
        self.client = needs(install_python_client)

    def command(self, name_servers: str, home: Path) -> tuple[list[str], dict[str, str]]:
        python = PythonClient(self.client, name_servers, home)
        return python.command("keep", "t", group="keeping", seconds=120), python.environment

    def failed_max(self, sent: int) -> int:
        return 3 * 4 + sent // 20


class Go:
    """What is on its way when a connection ends waits for its whole time, a pull for 30 s; then it is sent again."""

    def __init__(self) -> None:
        self.program = needs(lambda: build_go(HERE / "go"))

    def command(self, name_servers: str, home: Path) -> tuple[list[str], dict[str, str]]:
        options = {"nameserver": name_servers, "topic": "t", "group": "keeping", "seconds": 120}
        return [str(self.program), *(f"-{name}={each}" for name, each in options.items()), "keep"], {**os.environ}

    def failed_max(self, _sent: int) -> int:
        return 0


@pytest.mark.parametrize("kind", [Python, Go])
def test_leaders_are_killed_and_the_client_sends_and_receives_on(kind: type[Python | Go], tmp_path: Path) -> None:
    client = kind()
    with LocalGroup(tmp_path) as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        assert group.client("topic", "create", "t", "--queues", "4").returncode == 0
        command, environment = client.command(group.name_servers, tmp_path)
        with (
            (tmp_path / "said").open("w") as said,
            (tmp_path / "complained").open("w") as complained,
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=complained
            ) as working,
        ):
            try:
                await_true(lambda: (tmp_path / "said").read_text().count("began") == 4, group.said)
                led = {}
                for _ in range(3):
                    leader = group.settle(1, 3)["leader"]
                    led[leader["epoch"]] = leader["pid"]
                    assert working.poll() is None, "the leader is killed while messages are sent"
                    kill(leader["pid"])
                    await_true(lambda: (group.status()["leader"] or leader)["epoch"] > leader["epoch"], group.status)  # noqa: B023
                group.settle(1, 3)
                working.communicate(timeout=240)
                assert working.returncode == 0, (tmp_path / "complained").read_text()[-2000:]
            finally:
                working.kill()
        [found] = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines() if '"sent"' in line]
        assert len(led) == 3
        assert len(found["sent"]) >= _SENT_MIN
        assert len(found["failed"]) <= client.failed_max(len(found["sent"])), found["failed"]
        assert set(found["seen"]) >= set(found["sent"])
        unknown = {text.partition(":")[0] for text in found["failed"]}
        assert set(found["seen"]) <= set(found["sent"]) | unknown
        print(f"{len(found['sent'])} sent, {len(unknown)} failed, {len(found['seen'])} received")
