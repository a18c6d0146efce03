"""The guardian is told the addresses of the process that it guards."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logherd.app.guarded.command import broker_guardian, controller_guardian
from logherd.cli.processes import guardian_command, plain_command
from logherd.settings.aside import CheckAside
from logherd.settings.errors import SettingsError
from logherd_guardian.options import Lent, Options, parse_options

NODES = [{"name": "c1", "peer": "h:1", "address": "h:2"}]


def written(path: Path, document: dict[str, Any]) -> Path:
    file = path / "config.json"
    file.write_text(json.dumps(document))
    return file


def broker(path: Path, **settings: object) -> dict[str, Any]:
    """As a check hands it on."""
    config = written(path, {"brokerGroup": "bg", "dataDir": "d", **settings})
    return CheckAside("broker", config).values()


def controller(path: Path, **settings: object) -> dict[str, Any]:
    document = {"nodeName": "c1", "controllers": NODES, "dataDir": "d", **settings}
    return CheckAside("controller", written(path, document)).values()


def understood(arguments: list[str]) -> Options:
    """As the guardian itself reads them."""
    return parse_options([*arguments, "--", "true"])


def test_a_broker_alone_lends_its_two_ports_and_tells_nobody(tmp_path: Path) -> None:
    assert understood(broker_guardian(broker(tmp_path))) == Options(
        lent=(Lent("remoting", "127.0.0.1", 10911), Lent("names", "127.0.0.1", 9876)), command=("true",)
    )


def test_a_broker_of_a_group_has_peers_and_controllers(tmp_path: Path) -> None:
    options = broker(
        tmp_path, brokerId=1, listen="0.0.0.0:0", advertised="host:1",
        nameService={"mode": "external", "addresses": ["names:9876"]},
        guardian={"peers": ["bg-1:10915", "[fd00::1]:10915"], "stateFile": "/dev/shm/bg-0", "stopTime": "5s"},
        replication={"mode": "controller", "controllers": ["c1:9878", "c2:9878"]},
    )  # fmt: skip
    assert understood(broker_guardian(options)) == Options(
        lent=(Lent("remoting", "0.0.0.0", 0, ("bg-1:10915", "[fd00::1]:10915")),), command=("true",),
        controllers=("c1:9878", "c2:9878"), state_file="/dev/shm/bg-0", stop_ms=5_000,
    )  # fmt: skip


def test_a_controller_lends_its_two_ports_and_tells_nobody(tmp_path: Path) -> None:
    options = controller(tmp_path, listen="[::1]:9878", guardian={"peers": ["c2:9880"]})
    assert understood(controller_guardian(options)) == Options(
        lent=(Lent("remoting", "::1", 9878, ("c2:9880",)), Lent("names", "127.0.0.1", 9876, ("c2:9880",))),
        command=("true",),
    )
    alone = controller(tmp_path, nameService={"mode": "none"})
    assert [lent.name for lent in understood(controller_guardian(alone)).lent] == ["remoting"]


def test_a_broker_that_takes_no_clients_has_no_guardian(tmp_path: Path) -> None:
    """Its process would not take the ports that it is lent, and would be started again for ever."""
    settings = {"brokerGroup": "bg", "dataDir": "d", "replication": {"classicHa": {"master": "10.0.0.1:10911"}}}
    config = str(written(tmp_path, settings))
    with pytest.raises(SettingsError, match=r"replication\.classicHa\.master is not right with --guarded"):
        guardian_command("broker", config, (), None)


def test_nothing_of_the_folder_of_the_moment_is_imported(tmp_path: Path) -> None:
    """As of a `random.py` that somebody has there: not by the guardian, its process or the check of the settings."""
    (tmp_path / "random.py").write_text("raise SystemExit('somebody else')\n")
    config = str(written(tmp_path, {"brokerGroup": "bg", "flush": "b"}))
    done = subprocess.run(plain_command("broker", config, (), None), cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, b"the configuration is wrong" in done.stderr) == (2, True)
    right = str(written(tmp_path, {"brokerGroup": "bg", "dataDir": "d"}))
    command = guardian_command("broker", right, (), None)
    assert command[:4] == [sys.executable, "-P", "-m", "logherd_guardian"]
    after = command.index("--") + 1
    assert command[after : after + 4] == [sys.executable, "-P", "-m", "logherd"]


def test_a_guardian_writes_its_lines_as_its_process_does(tmp_path: Path) -> None:
    for logs in ("text", "json"):
        settings = {"log": {"format": logs}}
        assert understood(broker_guardian(broker(tmp_path, **settings))).as_json == (logs == "json")
        assert understood(controller_guardian(controller(tmp_path, **settings))).as_json == (logs == "json")


def test_any_address_of_ipv6_is_any_address_of_ipv4_too(tmp_path: Path) -> None:
    """The guardian makes a socket of both for no host, and of IPv6 alone for `::`."""
    options = broker(tmp_path, listen="[::]:10911", advertised="host:10911")
    assert understood(broker_guardian(options)).lent[0] == Lent("remoting", "", 10911)


def test_a_guardian_starts_without_what_only_its_process_needs(tmp_path: Path) -> None:
    """`logherd up` starts six at once: each import here is paid for six times."""
    names = "logherd.cli.processes", "logherd.app.guarded.command"
    code = f"import sys, {', '.join(names)}; print(*{{'asyncio', 'msgspec', 'pydantic'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == ""
