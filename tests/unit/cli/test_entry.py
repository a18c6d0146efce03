"""The two ways into the command line: the straight one to the broker, and the umbrella."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logherd.cli import exits
from logherd.cli.entry import main, plain_process_arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["broker", "--config", "f"], ("f", [], None, False)),
        (["broker", "--guarded", "--config", "f"], ("f", [], None, True)),
        (["broker", "--set", "a=1", "--config", "f", "--set", "b=2"], ("f", ["a=1", "b=2"], None, False)),
        (["broker", "--ready-file", "r", "--config", "f"], ("f", [], "r", False)),
        (["controller", "--config", "f", "--ready-file", "r"], ("f", [], "r", False)),
        (["broker"], None),
        (["broker", "--guarded"], None),
        (["broker", "--guarded", "--guarded", "--config", "f"], None),
        (["broker", "--help"], None),
        (["broker", "--set", "a=1"], None),
        (["broker", "--config", "f", "--config", "g"], None),
        (["broker", "--config=f"], None),
        (["broker", "f", "--config"], None),
        (["up", "--config", "f"], None),
        ([], None),
    ],
)
def test_only_the_plain_form_goes_straight(arguments: list[str], expected: object) -> None:
    assert plain_process_arguments(arguments) == expected


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "logherd", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_the_umbrella_shows_the_commands_of_both_packages() -> None:
    shown = run("--help").stdout
    assert all(f" {name} " in shown for name in ("broker", "controller", "up", "down", "status"))


def test_an_unknown_command_is_a_usage_error() -> None:
    answer = run("fly")
    assert answer.returncode == 2
    assert "No such command 'fly'" in answer.stderr


def test_a_wrong_configuration_ends_the_broker_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("brokerGroup: a\nflush: b\n")
    for guarded in ([], ["--guarded"]):
        answer = run("broker", *guarded, "--config", str(path))
        assert answer.returncode == 2
        assert answer.stderr.splitlines() == [
            f"logherd broker: {path}: the configuration is wrong",
            "dataDir: missing; it has no default",
            "flush: 'b' is not right: write sync or async",
        ]


def test_a_wrong_configuration_ends_a_controller_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text("nodeName: A\nleaseMs: 1\ncontrollers: []\n")
    answer = run("controller", "--config", str(path))
    assert answer.returncode == 2
    assert answer.stderr.splitlines() == [
        f"logherd controller: {path}: the configuration is wrong",
        "nodeName: 'A' is not right: write lower-case letters, digits and -, none of these at an end",
        "dataDir: missing; it has no default",
        "leaseMs: 1 is not right: write 600 or more",
    ]


def test_the_straight_way_loads_neither_pydantic_nor_the_command_line_library(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("brokerGroup: a\n")  # wrong, so that it ends after everything has been imported
    code = (
        "import sys; from logherd.cli.entry import run; "
        f"run(['broker', '--config', {str(path)!r}]); "
        "print([name for name in ('typer', 'rich', 'pydantic', 'yaml', 'typing_extensions') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize("command", ["verify", "repair", "export", "promote"])
def test_the_store_that_a_help_text_names_is_one_that_up_makes(command: str) -> None:
    answer = run("store", command, "--help")
    assert ".logherd/GROUP/broker-1." in answer.stdout  # the first: brokers of a group count from 1


def test_who_forks_others_has_their_code_and_one_thread_and_no_more() -> None:
    code = (
        "import gc, os, sys; from logherd.cli.processes import import_processes; import_processes(); "
        "large = {'typer', 'rich', 'pydantic', 'yaml', 'typing_extensions', 'prometheus_client', 'kopf'}; "
        "print(len(os.listdir('/proc/self/task')), large & set(sys.modules), "
        "{'logherd.app.broker', 'logherd.app.controllers.controller', 'uvloop'} - set(sys.modules), gc.isenabled())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "1 set() set() True\n"


class CtrlC:
    """Comes while that module is being looked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._module:
            raise KeyboardInterrupt


@pytest.fixture
def hearing() -> Iterator[None]:
    """What hears Ctrl-C afterwards is what heard it before."""
    heard = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, heard)


@pytest.mark.usefixtures("hearing")
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("logherd.cli.umbrella", ["topic", "list"]),
        ("logherd.telemetry.log", ["topic", "list"]),
        ("logherd.cli.topics", ["topic", "list"]),
        ("logherd.client.admin", ["topic", "list"]),
        ("logherd.cli.processes", ["broker", "--config", "f"]),
        ("logherd.cli.processes", ["controller", "--guarded", "--config", "f"]),
        ("logherd_operator.local.status", ["status"]),
    ],
)
def test_ctrl_c_ends_a_command_that_is_being_imported_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str, arguments: list[str]
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [CtrlC(module), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["logherd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == exits.INTERRUPTED
    assert capsys.readouterr() == ("", "")
