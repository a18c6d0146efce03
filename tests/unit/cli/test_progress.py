"""What a command says while somebody waits for it."""

import io
import threading

import pytest

from logherd.cli import progress as module
from logherd.cli.progress import progress

PATIENCE = 10.0


class Screen(io.StringIO):
    """Knows when something was written."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        size = super().write(text)
        self.written.set()
        return size


@pytest.fixture(params=[False, True], ids=["file", "terminal"])
def screen(request: pytest.FixtureRequest) -> Screen:
    return Screen(terminal=request.param)


def test_what_is_done_at_once_is_done_in_silence(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen)
    with progress("reading it") as seen:
        seen(1, 2)
    assert screen.getvalue() == ""


def test_who_waits_is_told_how_far_it_is(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.0)
    with progress("reading it"):
        assert screen.written.wait(PATIENCE)
    said = screen.getvalue()
    assert "logherd: reading it: 0 s" in said
    assert said.endswith("\r\x1b[K" if screen.isatty() else "\n"), "a line on a terminal goes again"


def test_how_far_it_is_is_told_in_bytes_where_that_is_known() -> None:
    assert module._line("reading it", 3 << 20, 5 << 30, 61.2) == "logherd: reading it: 3 of 5,120 MiB, 61 s"


def test_one_who_reads_no_more_stops_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.0)
    tried = threading.Event()

    def fail(text: str) -> int:
        tried.set()
        raise BrokenPipeError(text)

    monkeypatch.setattr(screen, "write", fail)
    with progress("reading it"):
        assert tried.wait(PATIENCE)
