"""However a command ends, it says one sentence and gives its code: never a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unit.client.fake_broker import FakeBroker

LOGHERD = str(Path(sys.executable).with_name("logherd"))


def run(*arguments: str | bytes, output: int | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [LOGHERD, *arguments], stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.decode(errors="replace")


def test_text_that_is_not_utf_8_is_a_usage_error() -> None:
    code, said = run("send", "t", b"\xff\xfe", "--name-server", "127.0.0.1:1")
    assert (code, said.count("\n")) == (2, 1), said
    assert "is not UTF-8" in said


def test_an_output_that_takes_nothing_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = run("--version", output=full.fileno())
    assert (code, said) == (1, "logherd: No space left on device\n")


def test_a_reader_that_goes_away_is_no_error_worth_a_word() -> None:
    process = subprocess.Popen([LOGHERD, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (1, b"")


def run_without(stream: int, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {stream}>&-', "sh", LOGHERD, *arguments], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_closed_standard_stream_costs_nothing_but_itself(stream: int) -> None:
    said = "" if stream == 2 else "logherd: no name server answers: 127.0.0.1:1\n"
    assert run_without(stream, "topic", "list", "-n", "127.0.0.1:1") == (1, "", said)


def test_a_closed_input_is_an_empty_one_and_a_closed_output_takes_all() -> None:
    assert run_without(0, "send", "t", "-", "-n", "127.0.0.1:1") == (0, "", "")
    assert run_without(1, "operator", "crd") == (0, "", "")


def test_ctrl_c_ends_a_send_that_waits_for_its_input(broker: FakeBroker) -> None:
    broker.topics["T"] = 1
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here is ignored there, too
    process = subprocess.Popen(
        [LOGHERD, "send", "T", "-", "-n", broker.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"stored in T at ")
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(10)  # its input goes on
    finally:
        process.kill()
        _, said = process.communicate()
    assert (code, said) == (130, b"")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_a_line_that_is_no_text_is_named_and_those_before_it_are_sent(broker: FakeBroker, encoding: str) -> None:
    """The code was 2, which means that nothing was done."""
    broker.topics["T"] = 1
    done = subprocess.run(
        [LOGHERD, "send", "T", "-", "-n", broker.address], input=b"gr\xc3\xbc\xc3\x9f\nb\xff\nthird\n",
        env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.count(b"\n")) == (1, 1)
    assert done.stderr == b"logherd: not sent: line 2 of the input is no utf-8 text: invalid start byte\n"
    assert len(broker.sends) == 1


def test_what_a_terminal_has_no_letters_for_is_shown_all_the_same(broker: FakeBroker) -> None:
    """As in a locale of ISO 8859-1. The command ended there, and again at each start: it had committed nothing."""
    broker.topics["T"] = 1
    broker.store("T", 0, "grüß → dich".encode())
    done = subprocess.run(
        [sys.executable, "-m", "logherd", "receive", "T", "-n", broker.address, "--count", "1"], capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"}, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0:0 gr\xfc\xdf \\u2192 dich\n", b"")


def test_a_closed_standard_stream_does_not_lend_its_number_to_other_files(tmp_path: Path) -> None:
    story = """
import os, sys
from logherd.cli.entry import _stand_in_for_closed

_stand_in_for_closed()
with open(sys.argv[1], "w") as file:
    file.write(f"{file.fileno() > 2} {sys.stdout is not None} {sys.stderr is not None} {sys.stdin.read()!r}")
"""
    path = tmp_path / "said"
    command = ["/bin/sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", sys.executable, "-c", story, str(path)]
    subprocess.run(command, timeout=60, check=True)
    assert path.read_text() == "True True True ''"


@pytest.mark.parametrize("file", ["", "missing/ready", "."])
def test_a_process_that_cannot_write_its_ready_file_ends_in_order_and_says_so(tmp_path: Path, file: str) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text(
        f"brokerGroup: a\ndataDir: {tmp_path}/data\nlisten: 127.0.0.1:0\nadminListen: 127.0.0.1:0\n"
        "nameService: {listen: '127.0.0.1:0'}\nstore: {segmentSize: 5MiB, reservedPercent: 0}\n"
    )
    ready = file and str(tmp_path / file)
    code, said = run("broker", "--config", str(config), "--ready-file", ready)
    assert code == 3
    assert f"logherd broker: --ready-file {ready or '.'}: cannot be written: " in said
    assert "Traceback" not in said
    assert "process stops" in said


def test_a_wrong_configuration_of_a_first_replica_is_a_usage_error(tmp_path: Path) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("brokerGroup: a\n")
    code, said = run("store", "found", "--config", str(config))
    assert (code, said) == (
        2, f"logherd: {config}: the configuration is wrong\ndataDir: missing; it has no default\n",
    )  # fmt: skip


@pytest.mark.parametrize("file", ["missing.yaml", "."])
def test_a_group_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, file: str) -> None:
    code, said = run("up", "-f", str(tmp_path / file))
    assert (code, said.count("\n")) == (2, 1), said
    assert "cannot be read" in said


def test_an_interrupt_before_a_command_has_begun_ends_it_without_a_word() -> None:
    """Ctrl-C finds `logherd` among its imports for half a second, and for longer on a busy machine."""
    story = """
import os, signal, sys
from logherd.cli.entry import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what it does not wait for with it ignored

class Interrupter:
    def find_spec(self, name, path, target=None):
        if name == "logherd.cli.umbrella":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
run(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
