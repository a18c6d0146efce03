"""What the guardian tells whoever reads stderr."""

import json
import socket
from datetime import UTC, datetime

import pytest

from logherd_guardian.entry import run
from logherd_guardian.sayings import Sayings, complain, say


def test_a_line_has_the_time_as_the_childs_own_lines_have_it(capfd: pytest.CaptureFixture[str]) -> None:
    say("the child serves")
    at, _, text = capfd.readouterr().err.partition(" ")
    assert text == "logherd-guardian: the child serves\n"
    assert at.endswith("Z")
    assert len(at) == len("2026-01-02T03:04:05.678Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()) < 60


def test_whoever_typed_the_command_needs_no_time(capfd: pytest.CaptureFixture[str]) -> None:
    complain("--listen is missing")
    assert capfd.readouterr().err == "logherd-guardian: --listen is missing\n"


@pytest.mark.parametrize(
    "text", ["the child serves", 'a "peer" \\ of\tnobody\nelse \x00', "ümläute €", "\ud800", '"' * 5000]
)
def test_in_json_each_line_is_one_object_whatever_is_said(
    text: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sayings, "as_json", True)
    say(text)
    [line] = capfd.readouterr().err.splitlines()
    assert len(line) < 4096, "more may be mixed with what the child says"
    entry = json.loads(line)
    assert entry.pop("message") == text[:600].encode(errors="replace").decode()
    assert datetime.fromisoformat(entry.pop("time")).tzinfo is UTC
    assert entry == {"level": "INFO", "source": "logherd.guardian"}


def test_that_it_cannot_start_is_told_in_the_form_of_all_that_follows(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sayings, "as_json", False)  # and back behind the test
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(["--listen", place, "--log-format", "json", "--", "true"]) == 3
    [line] = capfd.readouterr().err.splitlines()
    assert json.loads(line)["message"] == f"cannot start: [Errno 98] remoting at {place}: Address already in use"


def test_a_name_that_cannot_be_found_is_told_with_whose_it_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert run(["--listen", "names=nowhere:9876", "--", "true"]) == 3
    assert "names at nowhere:9876: Name or service not known" in capfd.readouterr().err
