"""`logherd status` and `logherd switchover` with real controllers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compat.controllers import start_logherd_controllers
from compat.fake_broker import FakeBroker, in_sync
from compat.server import BROKER, CLUSTER

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def logherd(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "logherd", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_leadership_goes_where_it_is_wanted_and_status_shows_it(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("a-secret-of-this-test-only")
    secret.chmod(0o600)
    with start_logherd_controllers(tmp_path / "nodes", adminTokenFile=str(secret)) as controllers:
        brokers = [FakeBroker(number, controllers) for number in (1, 2, 3)]
        for broker in brokers:
            broker.start()
        try:
            in_sync(controllers, 1, 2, 3, alive=3)
            members = json.loads((tmp_path / "nodes/n0/controller.json").read_text())["controllers"]
            admins = ",".join(member["admin"] for member in members)
            asked = ("--admin", members[0]["admin"], "--token-file", str(secret))
            for to, epoch in ((2, 2), (3, 3)):
                done = logherd("switchover", BROKER, "--to", str(to), *asked, "-o", "json")
                assert done.returncode == 0, done.stderr
                said = json.loads(done.stdout)
                assert (said["leader"], said["epoch"], said["cluster"]) == (to, epoch, CLUSTER)
            refused = logherd("switchover", BROKER, "--to", "9", *asked)
            assert (refused.returncode, "has no broker 9; it has 1,2,3" in refused.stderr) == (1, True)
            shown = logherd("status", BROKER, "--controllers", admins, "-o", "json")
        finally:
            for broker in brokers:
                broker.stop()
    assert shown.returncode == 0, shown.stderr
    (group,) = json.loads(shown.stdout)["groups"]
    assert (group["leader"], group["epoch"], group["inSync"], group["serves"]) == (3, 3, [1, 2, 3], True)
