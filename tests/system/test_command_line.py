"""The commands against a real broker: what is printed, in which form, and with which exit code."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

LOGHERD = str(Path(sys.executable).with_name("logherd"))
GROUP = """
apiVersion: logherd.dev/v1alpha1
kind: BrokerGroup
metadata: {name: demo}
spec: {replicas: 1, clusterName: shop, config: {mappedFileSizeCommitLog: "67108864"}}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LOGHERD, *arguments], cwd=folder, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A running group: its folder and its name server."""
    folder = tmp_path_factory.mktemp("group")
    (folder / "group.yaml").write_text(GROUP)
    free = ["--name-service-port", "0", "--broker-port", "0", "--admin-port", "0"]
    started = command(folder, "up", "-f", "group.yaml", "--detach", *free)
    try:
        assert started.returncode == 0, started.stderr
        yield folder, json.loads(command(folder, "status", "-o", "json").stdout)["nameServer"]
    finally:
        command(folder, "down")


@pytest.fixture
def run(group: tuple[Path, str]) -> Run:
    folder, name_server = group

    def run_command(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return command(folder, *arguments, "--name-server", name_server, stdin=stdin)

    return run_command


def test_what_is_sent_is_received_with_all_its_parts(run: Run) -> None:
    sent = json.loads(run("send", "parts", "naïve ☃", "--tag", "t", "--key", "k1", "--key", "k2", "-o", "json").stdout)
    received = json.loads(run("receive", "parts", "--count", "1", "-o", "json").stdout)
    same = ("topic", "broker", "queueId", "queueOffset", "id", "offsetId")
    assert {key: received[key] for key in same} == {key: sent[key] for key in same}
    assert (received["body"], received["tag"], received["keys"]) == ("naïve ☃", "t", ["k1", "k2"])


def test_lines_of_the_input_with_one_queue_key_stay_in_order(run: Run) -> None:
    lines = [f"line {number}" for number in range(50)]
    sent = run("send", "lines", "-", "--queue-key", "same", stdin="\n".join(lines) + "\n")
    assert len(sent.stdout.splitlines()) == 50
    received = run("receive", "lines", "--count", "50")
    assert [text.partition(" ")[2] for text in received.stdout.splitlines()] == lines


def test_progress_of_a_group_is_kept(run: Run) -> None:
    run("send", "progress", "a", "b", "--queue-key", "same")
    first = run("receive", "progress", "--count", "1", "--group", "g1")
    second = run("receive", "progress", "--count", "1", "--group", "g1")
    assert (first.stdout.split()[-1], second.stdout.split()[-1]) == ("a", "b")
    again = run("receive", "progress", "--from", "first", "--group", "g1", "--wait", "0.5")
    assert len(again.stdout.splitlines()) == 2


def test_fewer_than_asked_for_is_a_failure(run: Run) -> None:
    run("send", "few", "a")
    answer = run("receive", "few", "--count", "2", "--wait", "0.5")
    assert (answer.returncode, len(answer.stdout.splitlines())) == (1, 1)


def test_only_the_wanted_tags_come(run: Run) -> None:
    run("send", "tags", "a", "--tag", "x")
    run("send", "tags", "b", "--tag", "y")
    run("send", "tags", "c", "--tag", "z")
    answer = run("receive", "tags", "--tag", "x", "--tag", "z", "--count", "2")
    assert sorted(line.split()[-1] for line in answer.stdout.splitlines()) == ["a", "c"]


def test_topics_are_made_shown_listed_and_deleted(run: Run) -> None:
    assert run("topic", "create", "made", "--queues", "3").stdout == "topic made has 3 queues on each broker group\n"
    shown = json.loads(run("topic", "show", "made", "-o", "json").stdout)
    assert shown == [{"broker": "demo", "queueId": n, "first": 0, "next": 0} for n in range(3)]
    listed = json.loads(run("topic", "list", "-o", "json").stdout)
    assert "made" in listed
    assert not {"TBW102", "demo", "shop", "shop_REPLY_TOPIC"} & set(listed)
    assert "TBW102" in json.loads(run("topic", "list", "--all", "-o", "json").stdout)
    assert run("topic", "delete", "made").stdout == "topic made is deleted\n"
    assert "made" not in json.loads(run("topic", "list", "-o", "json").stdout)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("topic", "show", "nothing"), "logherd: no route of topic nothing"),
        (("receive", "nothing"), "logherd: no route of topic nothing"),
        (("send", "bad name", "a"), "bad name"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    answer = run(*arguments)
    assert answer.returncode == 1
    assert expected in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_an_unreachable_name_server_is_said_in_one_line(group: tuple[Path, str]) -> None:
    answer = command(group[0], "send", "a", "b", "--name-server", "127.0.0.1:1")
    assert answer.returncode == 1
    assert answer.stderr.startswith("logherd: ")
    assert "127.0.0.1:1" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_wrong_name_server_is_a_usage_error(group: tuple[Path, str]) -> None:
    answer = command(group[0], "topic", "list", "--name-server", "here")
    assert answer.returncode == 2
    assert "an address is host:port, not 'here'" in answer.stderr


def test_a_load_says_what_it_did(run: Run) -> None:
    sent = json.loads(run("bench", "send", "--seconds", "0.3", "--window", "16", "--size", "100", "-o", "json").stdout)
    assert sent["messages"] > 0
    assert (sent["refused"], sent["lost"]) == ({}, 0)
    pulled = run("bench", "pull", "--seconds", "0.3")
    assert pulled.stdout.splitlines()[1].startswith("rate     ")
