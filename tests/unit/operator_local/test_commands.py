"""`logherd up`, `down` and `status` where something is wrong and nothing is started: one sentence, and the code."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from logherd_operator.local import commands
from logherd_operator.local import down as down_module
from logherd_operator.local.addresses import Ports, choose_ports
from logherd_operator.local.commands import down as down_app
from logherd_operator.local.commands import status as status_app
from logherd_operator.local.commands import up as up_app
from logherd_operator.local.places import Ended
from logherd_operator.local.processes import started_ticks

GROUP = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\nspec: {replicas: 1}\n"
FREE = ("--name-service-port", "0", "--broker-port", "0", "--admin-port", "0")
STATE = {
    "format": 2, "group": "orders", "host": "127.0.0.1", "file": "group.yaml", "cluster": "orders", "brokers": 1,
    "ports": {"name_service": 1, "broker": 2, "admin": 3}, "name_servers": ["127.0.0.1:1"], "controllers": 3,
    "founded": True, "generation": 4, "keeper": None, "places": [],
}  # fmt: skip

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    (tmp_path / "group.yaml").write_text(GROUP)
    monkeypatch.chdir(tmp_path)
    apps = {"up": up_app, "down": down_app, "status": status_app}

    def run_command(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        result = CliRunner().invoke(apps[name], arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    return run_command


def up(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("up", "-f", "group.yaml", "--detach", *FREE, *arguments)


def remember(folder: Path, **state: object) -> None:
    folder.mkdir(parents=True)
    (folder / "group.json").write_text(json.dumps({**STATE, **state}))


def test_status_of_a_stopped_group_has_all_keys_and_fails(run: Run, tmp_path: Path) -> None:
    remember(tmp_path / ".logherd/orders")
    answer = run("status", "-o", "json")
    assert answer.returncode == 1
    document = json.loads(answer.stdout)
    assert (document["leader"], document["inSync"], document["brokers"], document["keeper"]) == (None, [], [], None)
    assert (document["nameServer"], document["generation"]) == ("127.0.0.1:1", 4)
    assert run("status").stdout.endswith("in sync      none\n\nnothing is running\n")
    assert run("down").stdout == "orders: nothing is running\n"
    assert json.loads(run("down", "-o", "json").stdout) == {"group": "orders", "processes": []}


def test_a_reader_that_goes_away_keeps_nobody_from_being_stopped(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `logherd down | grep -q stopped`, which ends with the first line."""
    remember(tmp_path / ".logherd/orders")
    stopped: list[str] = []

    def bring_down(*_: object, seconds: float) -> Iterator[Ended]:
        del seconds
        for name in ("broker 1", "broker 2", "controller c0"):
            stopped.append(name)
            yield Ended(name, 1, "stopped")
        stopped.append("written down")

    def echo(_: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(down_module, "bring_down", bring_down)
    monkeypatch.setattr(commands.typer, "echo", echo)
    assert run("down").returncode == 1
    assert stopped == ["broker 1", "broker 2", "controller c0", "written down"]


def test_what_was_stopped_is_told_to_programs_too(run: Run, tmp_path: Path) -> None:
    gone = {"pid": 1 << 22, "ticks": 7}
    place = {
        "component": "broker", "ordinal": 0, "revision": "r", "learner": False, "guardian": gone, "started_at": 0.0,
        "log_begin": 0, "starts": 1, "ended": None, "told": None, "leaving": False,
    }  # fmt: skip
    remember(tmp_path / "a", places=[place])
    told = {"name": "broker 1", "pid": 1 << 22, "outcome": "wasNotRunning"}
    answer = run("down", "--data", "a", "-o", "json")
    assert (answer.returncode, json.loads(answer.stdout)) == (0, {"group": "orders", "processes": [told]})


def test_that_something_had_to_be_killed_is_told_by_the_exit_code(run: Run, tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        guardian = {"pid": process.pid, "ticks": started_ticks(process.pid)}
        place = {"component": "broker", "ordinal": 0, "revision": "r", "guardian": guardian, "told": None}
        remember(tmp_path / "a", places=[place])
        answer = run("down", "--data", "a", "--wait", "0", "-o", "json")
        assert process.wait(30) == -signal.SIGKILL
    (ended,) = json.loads(answer.stdout)["processes"]
    assert (answer.returncode, ended["outcome"]) == (1, "killed")
    assert run("down", "--data", "a").returncode == 0


def test_a_folder_of_another_group_is_refused(run: Run, tmp_path: Path) -> None:
    remember(tmp_path / "here", group="bills")
    other = up(run, "--data", "here")
    assert (other.returncode, other.stderr) == (
        1, "logherd up: here: belongs to the group bills; choose another folder for orders: --data\n",
    )  # fmt: skip


def test_what_never_changes_is_compared_with_the_group_that_was(run: Run, tmp_path: Path) -> None:
    remember(tmp_path / "here")
    (tmp_path / "here/spec.json").write_text(
        json.dumps({
            "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": {"name": "orders"},
            "spec": {
                "clusterName": "shop", "controllers": {"embedded": {"replicas": 1}},
                "config": {"mappedFileSizeCommitLog": "33554432"},
            },
        })
    )  # fmt: skip
    refused = up(run, "--data", "here")
    assert (refused.returncode, refused.stderr.splitlines()) == (
        2,
        [
            "logherd up: group.yaml: this cannot be changed",
            "spec.clusterName: None cannot stand here; it was shop, and it stays",
            "spec.controllers.embedded.replicas: 3 cannot stand here; it was 1, and it stays",
            "spec.config.mappedFileSizeCommitLog: None cannot stand here; it was 33554432, and it stays",
        ],
    )


@pytest.mark.parametrize(("option", "above"), [("--name-service-port", 13), ("--broker-port", 3), ("--admin-port", 0)])
def test_a_taken_port_is_named_with_its_option(run: Run, option: str, above: int) -> None:
    # What is tried before the taken port has to be free, and none that the kernel gives to somebody's connection.
    free = choose_ports("127.0.0.1", Ports(name_service=0, broker=0, admin=0))
    first = {"--name-service-port": free.name_service, "--broker-port": free.broker, "--admin-port": free.admin}[option]
    port = first + above
    with socket.create_server(("127.0.0.1", port)):
        answer = up(run, option, str(first))
    assert answer.returncode == 1
    assert answer.stderr == f"logherd up: port {port} of 127.0.0.1 is in use by another program; change it: {option}\n"


def test_a_port_that_would_be_needed_twice_is_named_with_both_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logherd_operator.local.addresses._fault", lambda host, port: None)
    answer = up(run, "--name-service-port", "15000", "--broker-port", "15001")
    said = "port 15001 of 127.0.0.1 would be needed twice; change --name-service-port or --broker-port"
    assert (answer.returncode, answer.stderr) == (1, f"logherd up: {said}\n")


def test_an_address_of_another_machine_is_named_with_its_option(run: Run) -> None:
    answer = run("up", "-f", "group.yaml", "--host", "192.0.2.1")
    fault = "cannot listen on 192.0.2.1 port 9876: Cannot assign requested address; see --host, --name-service-port"
    assert (answer.returncode, answer.stderr) == (1, f"logherd up: {fault}\n")


@pytest.mark.parametrize("host", ["", " "])
def test_no_address_at_all_is_a_usage_error(run: Run, tmp_path: Path, host: str) -> None:
    answer = up(run, "--host", host)
    assert answer.returncode == 2
    assert "Invalid value for --host: name an address of this machine" in answer.stderr
    assert not (tmp_path / ".logherd").exists()


def test_a_folder_that_cannot_be_made_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = up(run, "--data", "file/below")
    assert answer.returncode == 1
    assert answer.stderr == "logherd up: file/below: cannot be made: Not a directory; choose another with --data\n"


def test_a_file_that_asks_for_more_is_refused_by_field(run: Run, tmp_path: Path) -> None:
    (tmp_path / "group.yaml").write_text(GROUP.replace("replicas: 1", "auth: {mode: Required}, runtime: {}"))
    answer = up(run)
    assert answer.returncode == 2
    assert answer.stderr.splitlines() == [
        "logherd up: group.yaml: this version cannot run it",
        "spec.auth.mode: Required is not supported yet; this version knows Disabled",
        "spec.runtime: is not supported yet; leave it out",
    ]


def test_a_missing_file_is_one_sentence(run: Run) -> None:
    answer = run("up", "-f", "nowhere.yaml")
    assert (answer.returncode, answer.stderr) == (
        2, "logherd up: nowhere.yaml: cannot be read: No such file or directory\n",
    )  # fmt: skip


def test_status_without_a_group_is_one_sentence(run: Run) -> None:
    answer = run("status")
    assert answer.returncode == 1
    assert answer.stderr == "logherd status: no group was started from this folder; say where with --data DIR\n"


def test_several_groups_must_be_told_apart(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        remember(tmp_path / ".logherd" / name, group=name)
    assert "several groups are here (.logherd/a, .logherd/b)" in run("status").stderr


@pytest.mark.parametrize("who", ["keeper", "guardian"])
def test_of_several_groups_the_only_one_that_runs_is_meant(run: Run, tmp_path: Path, who: str) -> None:
    living = {"pid": os.getpid(), "ticks": started_ticks(os.getpid())}
    place = {"component": "broker", "ordinal": 0, "revision": "r", "guardian": None, "told": None}
    runs = {"keeper": living} if who == "keeper" else {"places": [{**place, "guardian": living}]}
    remember(tmp_path / ".logherd/a", group="a", places=[place])
    remember(tmp_path / ".logherd/b", group="b", **runs)
    (tmp_path / ".logherd/b/broker-1.json").write_text("{}")
    assert json.loads(run("status", "-o", "json").stdout)["group"] == "b"
    remember(tmp_path / ".logherd/c", group="c", keeper=living)
    assert "several groups run here (.logherd/b, .logherd/c)" in run("status").stderr


def test_a_group_of_which_a_guardian_runs_that_nobody_wrote_down_is_meant_too(run: Run, tmp_path: Path) -> None:
    """As `logherd up` leaves it that is killed at its start; `down` would stop the other group, and say no more."""
    place = {"component": "broker", "ordinal": 0, "revision": "r", "guardian": None, "told": None}
    living = {"pid": os.getpid(), "ticks": started_ticks(os.getpid())}
    remember(tmp_path / ".logherd/a", group="a", places=[place])
    remember(tmp_path / ".logherd/b", group="b", keeper=living)
    config = str(tmp_path / ".logherd/a/broker-1.json")
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)", "logherd_guardian", "--config", config]
    with subprocess.Popen(sleeping) as guardian:
        try:
            assert "several groups run here (.logherd/a, .logherd/b)" in run("down").stderr
        finally:
            guardian.kill()


def test_a_group_whose_file_is_damaged_may_be_the_one_that_is_meant(run: Run, tmp_path: Path) -> None:
    remember(tmp_path / ".logherd/a", keeper={"pid": os.getpid(), "ticks": started_ticks(os.getpid())})
    remember(tmp_path / ".logherd/b", format=1)
    assert "several groups run here (.logherd/a, .logherd/b)" in run("status").stderr


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"format": 2, "group": "a", "places": [{}]}'])
def test_a_damaged_state_file_is_named(run: Run, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.joinpath("group.json").write_text(text)
    answer = run("status", "--data", "data")
    assert answer.returncode == 1
    assert answer.stderr.startswith("logherd status: data/group.json: is not a group's state")


def test_a_state_of_another_format_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    remember(tmp_path / "data", format=1)
    assert "data/group.json: has format 1; this version knows 2" in run("status", "--data", "data").stderr
