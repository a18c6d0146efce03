"""`logherd status` and `logherd switchover` with real controllers, and with a real group."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.controllers import start_logherd_controllers
from compat.fake_broker import FakeBroker, in_sync
from compat.processes import until
from compat.server import BROKER, CLUSTER
from system.guarded_group import GuardedGroup
from system.test_metrics import scrape

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


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


def test_a_real_group_is_shown_and_switched_over(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("a-secret-of-this-test-only")
    secret.chmod(0o600)
    with GuardedGroup(tmp_path / "group", controller={"adminTokenFile": str(secret)}) as group:
        asked = ("--admin", group.controller_admin)
        until(lambda: in_step(asked), seconds=60, what="three brokers in step")
        before = state(asked)
        sent = logherd("send", "t", "before", "--name-server", group.name_server)
        assert sent.returncode == 0, sent.stderr
        to = next(each for each in before["inSync"] if each != before["leader"])
        done = logherd("switchover", before["name"], "--to", str(to), *asked, "--token-file", str(secret))
        assert done.returncode == 0, done.stderr
        assert f"broker {to} leads" in done.stdout
        sent = logherd("send", "t", "after", "--name-server", group.name_server)
        assert sent.returncode == 0, sent.stderr
        until(lambda: in_step(asked), seconds=60, what="three brokers in step again")
        after = state(asked)
        leading = group.brokers[to - 1]
        counted = scrape(f"{leading.host}:{leading.admin_port}")
        told = logherd("status", "--admin", f"{leading.host}:{leading.admin_port}", "-o", "json")
        routes = logherd("topic", "list", "--name-server", group.name_server)
    assert (after["leader"], after["epoch"] > before["epoch"]) == (to, True)
    assert counted["logherd_replication_role[leader]"] == counted["logherd_replication_serving"] == 1
    assert counted["logherd_replication_in_sync_replicas"] == 3
    assert counted["logherd_replication_epoch"] == after["epoch"]
    followers = [each for each in (1, 2, 3) if each != to]
    assert [counted[f"logherd_replication_follower_in_sync[{each}]"] for each in followers] == [1, 1]
    assert [f"logherd_replication_follower_lag_bytes[{each}]" in counted for each in followers] == [True, True]
    (own,) = json.loads(told.stdout)["groups"]
    assert (own["leader"], own["serves"], len(own["brokers"])) == (to, True, 3)
    assert "t" in routes.stdout.split()


def state(asked: tuple[str, ...]) -> dict[str, Any]:
    """The one group as status shows it."""
    shown = logherd("status", *asked, "-o", "json")
    (group,) = json.loads(shown.stdout)["groups"]
    return dict(group)


def in_step(asked: tuple[str, ...]) -> bool:
    """Whether everybody is in sync, lag is known of all, and the group serves."""
    group = state(asked)
    lags = [each["lagMs"] for each in group["brokers"]]
    return bool(group["serves"] and len(group["inSync"]) == 3 and None not in lags)
