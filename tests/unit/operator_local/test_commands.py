"""`logherd up`, `down` and `status` over a process that behaves, or misbehaves, like a broker."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from logherd_operator.local.ports import Ports
from logherd_operator.local.start import StartOptions
from typer.testing import CliRunner

from logherd_operator.local.commands import down as down_app
from logherd_operator.local.commands import status as status_app
from logherd_operator.local.commands import up as up_app
from logherd_operator.local.processes import started_ticks
from logherd_operator.local.up import bring_up

FAKE = Path(__file__).parent / "fake_broker"
GROUP = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\nspec: {replicas: 1}\n"
FREE = ("--name-service-port", "0", "--broker-port", "0", "--admin-port", "0")
LEADER_KEYS = ["brokerId", "address", "pid", "epoch"]
BROKER_KEYS = ["brokerId", "role", "address", "pid", "ready", "endPosition", "committedPosition"]

# --detach lets go of its child; in these tests our own process is the one that let go.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

Run = Callable[..., subprocess.CompletedProcess[str]]


# A shell may have told us to ignore SIGINT, and children inherit that.
COMMAND_LINE = """
import signal, sys
from logherd_operator.local.commands import up
signal.signal(signal.SIGINT, signal.default_int_handler)
up()
"""


def foreground(mode: str = "", **pipes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMAND_LINE, "-f", "group.yaml", *FREE]
    return subprocess.Popen(command, env=environment(mode), text=True, **pipes)


def environment(mode: str = "") -> dict[str, str]:
    here = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(FAKE), here])), "FAKE_BROKER": mode}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    (tmp_path / "group.yaml").write_text(GROUP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    commands = {"up": up_app, "down": down_app, "status": status_app}

    def run_command(name: str, *arguments: str, mode: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("FAKE_BROKER", mode)
        result = CliRunner().invoke(commands[name], arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    yield run_command
    run_command("down", "--wait", "0")


def up(run: Run, *arguments: str, mode: str = "") -> subprocess.CompletedProcess[str]:
    return run("up", "-f", "group.yaml", "--detach", *FREE, *arguments, mode=mode)


def test_up_status_and_down_go_the_whole_way(run: Run, tmp_path: Path) -> None:
    started = up(run)
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("orders is ready: broker 0 at 127.0.0.1:")
    answer = run("status", "-o", "json")
    assert answer.returncode == 0
    document = json.loads(answer.stdout)
    assert list(document) == ["group", "nameServer", "leader", "inSync", "brokers", "controllers"]
    assert (document["group"], document["inSync"], document["controllers"]) == ("orders", [0], [])
    assert list(document["leader"]) == LEADER_KEYS
    assert [list(broker) for broker in document["brokers"]] == [BROKER_KEYS]
    pid = document["leader"]["pid"]
    stopped = run("down")
    assert stopped.stdout == f"orders: broker 0 (pid {pid}) stopped\n"
    assert started_ticks(pid) is None
    assert run("down").stdout == "orders: nothing is running\n"
    assert (tmp_path / ".logherd/orders/broker-0.json").exists()


def test_status_of_a_stopped_group_has_the_same_keys_and_fails(run: Run) -> None:
    up(run)
    run("down")
    answer = run("status", "-o", "json")
    assert answer.returncode == 1
    document = json.loads(answer.stdout)
    assert list(document) == ["group", "nameServer", "leader", "inSync", "brokers", "controllers"]
    assert (document["leader"], document["inSync"], document["brokers"]) == (None, [], [])


def test_status_of_a_killed_broker_says_so(run: Run) -> None:
    up(run)
    pid = json.loads(run("status", "-o", "json").stdout)["leader"]["pid"]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while started_ticks(pid) is not None:  # a killed process takes a moment to be gone
        assert time.monotonic() < deadline
    answer = run("status", "-o", "json")
    broker = json.loads(answer.stdout)["brokers"][0]
    assert (answer.returncode, broker["role"], broker["pid"], broker["ready"]) == (1, "unknown", None, False)
    assert "leader       none" in run("status").stdout


def test_a_second_up_says_who_is_running(run: Run) -> None:
    up(run)
    again = up(run)
    assert again.returncode == 1
    assert again.stderr.startswith("logherd up: orders is already running: broker 0 at 127.0.0.1:")
    assert again.stderr.count("\n") == 1


def test_a_folder_of_another_group_is_refused(run: Run, tmp_path: Path) -> None:
    up(run, "--data", "here")
    run("down", "--data", "here")
    (tmp_path / "group.yaml").write_text(GROUP.replace("orders", "bills"))
    other = up(run, "--data", "here")
    assert other.returncode == 1
    assert "here: belongs to the group orders; choose another folder for bills: --data" in other.stderr


def test_a_taken_port_is_named_with_its_option(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = up(run, "--broker-port", str(port))
    assert answer.returncode == 1
    assert answer.stderr == (
        f"logherd up: port {port} of 127.0.0.1 is in use by another program; change it: --broker-port\n"
    )


def test_a_folder_that_cannot_be_made_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = up(run, "--data", "file/below")
    assert answer.returncode == 1
    assert answer.stderr == "logherd up: file/below: cannot be made: Not a directory; choose another with --data\n"


def test_a_broker_that_dies_at_once_is_quoted(run: Run) -> None:
    answer = up(run, mode="dies")
    assert answer.returncode == 1
    assert "broker 0 ended with code 3 before it was ready; the last lines of" in answer.stderr
    assert "  the store is damaged: say why" in answer.stderr
    assert run("down").stdout == "orders: nothing is running\n"


def test_only_the_words_of_this_start_are_quoted(run: Run) -> None:
    for _ in range(2):
        answer = up(run, mode="dies")
        assert answer.stderr.count("the store is damaged: say why") == 1


def test_a_broker_that_never_gets_ready_is_stopped(run: Run) -> None:
    answer = up(run, "--wait", "1", mode="never-ready")
    assert answer.returncode == 1
    assert "broker 0 did not become ready within 1 s and was stopped" in answer.stderr
    assert json.loads(run("status", "-o", "json").stdout)["brokers"] == []


def test_a_broker_that_does_not_stop_is_killed_by_down(run: Run) -> None:
    up(run, mode="deaf")
    answer = run("down", "--wait", "0.2")
    assert "did not stop in time and was killed" in answer.stdout


def test_down_never_touches_a_process_that_took_over_the_pid(run: Run, tmp_path: Path) -> None:
    up(run)
    state = tmp_path / ".logherd/orders/group.json"
    real = json.loads(state.read_text())
    forged = json.loads(state.read_text())
    forged["processes"][0]["pid"] = os.getpid()
    state.write_text(json.dumps(forged))
    assert run("down").stdout == f"orders: broker 0 (pid {os.getpid()}) was not running\n"
    state.write_text(json.dumps(real))
    assert "stopped" in run("down").stdout


def test_a_file_that_asks_for_more_is_refused_by_field(run: Run, tmp_path: Path) -> None:
    (tmp_path / "group.yaml").write_text(GROUP.replace("replicas: 1", "auth: {mode: Required}"))
    answer = up(run)
    assert answer.returncode == 2
    assert answer.stderr.splitlines() == [
        "logherd up: group.yaml: this version cannot run it",
        "spec.replicas: 3 (the default) is not supported yet; this version runs 1",
        "spec.auth.mode: Required is not supported yet; this version knows Disabled",
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
        folder = tmp_path / ".logherd" / name
        folder.mkdir(parents=True)
        folder.joinpath("group.json").write_text(f'{{"format": 1, "group": "{name}", "processes": []}}')
    assert "several groups are here (.logherd/a, .logherd/b)" in run("status").stderr


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"format": 1, "group": "a", "processes": [{}]}'])
def test_a_damaged_state_file_is_named(run: Run, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.joinpath("group.json").write_text(text)
    answer = run("status", "--data", "data")
    assert answer.returncode == 1
    assert answer.stderr.startswith("logherd status: data/group.json: is not a group's state")


def test_a_state_of_another_format_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.joinpath("group.json").write_text('{"format": 2, "group": "a", "processes": []}')
    assert "data/group.json: has format 2; this version knows 1" in run("status", "--data", "data").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_foreground_group_stops_in_order_on_a_signal(run: Run, number: signal.Signals) -> None:
    process = foreground(stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "Ctrl-C stops it.\n":
                break
        assert run("status").returncode == 0
        process.send_signal(number)
        assert process.stdout.read() == "orders: broker 0 stopped; data stays in .logherd/orders\n"
        assert process.wait(10) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        process.stdout.close()


def test_an_interrupt_while_the_greeting_is_printed_stops_the_broker(tmp_path: Path, run: Run) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            raise KeyboardInterrupt

    options = StartOptions(
        host="127.0.0.1", ports=Ports(name_service=0, broker=0, admin=0), detach=False, wait_seconds=10
    )
    assert bring_up(tmp_path / "group.yaml", None, options, say=say) == 0
    assert said[1:] == ["orders: broker 0 stopped; data stays in .logherd/orders"]
    assert started_ticks(int(said[0].rpartition(" ")[2])) is None


def test_a_foreground_group_tells_of_a_broker_that_ended_by_itself(run: Run) -> None:
    process = foreground(stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.kill(int(first.rpartition(" ")[2]), signal.SIGKILL)
        assert "orders: broker 0 ended by itself with code -9" in process.stdout.read()
        assert process.wait(10) == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        process.stdout.close()


def test_an_interrupt_while_starting_leaves_no_broker(tmp_path: Path, run: Run) -> None:
    process = foreground("never-ready", stderr=subprocess.PIPE)
    state = tmp_path / ".logherd/orders/group.json"
    deadline = time.monotonic() + 20
    while not state.exists() and time.monotonic() < deadline:
        os.sched_yield()
    pid = json.loads(state.read_text())["processes"][0]["pid"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert started_ticks(pid) is None
