"""`logherd operator` with a file or an option that is wrong: sentences and code 2, never a traceback."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from logherd_operator.handlers import started
from logherd_operator.main import operator

HEAD = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\n"


@pytest.mark.parametrize("command", ["render", "spark-job"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spec: {replicas: 0}", "spec.replicas: 0 is not right: write 1 or more"),
        ("spec: {replica: 3}", "spec.replica: unknown key; did you mean replicas?"),
        ("spec: {replicas: 3", "line 5, column 1: keys in { } should have ',' between them and '}' at their end"),
        ("kind: Group", "the key kind appears twice"),
    ],
)
def test_a_wrong_group_is_told_by_field_value_and_what_is_right(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    file = tmp_path / "group.yaml"
    file.write_text(f"{HEAD}{text}\n")
    done = CliRunner().invoke(operator, [command, "-f", str(file)])
    assert isinstance(done.exception, SystemExit)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"logherd operator {command}: {file}: ")
    assert said in done.stderr


@pytest.mark.parametrize("command", ["render", "spark-job"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, command: str) -> None:
    done = CliRunner().invoke(operator, [command, "-f", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (
        2, f"logherd operator {command}: {tmp_path}: cannot be read: Is a directory\n",
    )  # fmt: skip
    (tmp_path / "group.yaml").write_bytes(b"a: \xff")
    done = CliRunner().invoke(operator, [command, "-f", str(tmp_path / "group.yaml")])
    assert (done.exit_code, done.stderr) == (
        2, f"logherd operator {command}: {tmp_path}/group.yaml: is not UTF-8 text: invalid start byte at byte 3\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "said"),
    [("/dev/zero", "has more than 4194304 bytes"), ("/proc/self/mem", "cannot be read: Input/output error")],
)
def test_a_file_without_an_end_or_that_fails_while_it_is_read_is_named(tmp_path: Path, file: str, said: str) -> None:
    group = tmp_path / "group.yaml"
    group.write_text(f"{HEAD}spec: {{}}\n")
    for arguments in (
        ["render", "-f", file],
        ["spark-job", "-f", file],
        ["spark-job", "-f", str(group), "--script", file],
    ):
        done = CliRunner().invoke(operator, arguments)
        assert (done.exit_code, done.stderr) == (2, f"logherd operator {arguments[0]}: {file}: {said}\n")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--log-level", "loud"),
        ("--log-format", "xml"),
        ("--lease", "name"),
        ("--lease", "ns/"),
        ("--lease", "a/b/c"),
    ],
)
def test_an_option_of_the_operator_that_means_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    monkeypatch.setattr(started, "start", lambda _: 0)
    given = ["--broker-image", "b", "--operator-image", "o", "--lease", "ns/name", "--all-namespaces"]
    done = CliRunner().invoke(operator, ["run", *given, option, value])
    assert done.exit_code == 2
    assert f"Invalid value for {option}: '{value}' is n" in " ".join(done.stderr.replace("│", " ").split())
