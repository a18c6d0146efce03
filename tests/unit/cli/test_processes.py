"""What becomes of `logherd broker --guarded` before there is a guardian."""

import os
import signal
from collections.abc import Iterator

import pytest

from logherd.cli import processes

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


@pytest.fixture
def _mask() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("_mask")
@pytest.mark.parametrize(("pid", "held"), [(1, STOPS), (2, set())])
def test_a_stop_of_the_first_process_of_a_container_waits_for_the_guardian(
    monkeypatch: pytest.MonkeyPatch, pid: int, held: set[signal.Signals]
) -> None:
    """The kernel would drop it, and the pod be killed at the end of its time. Elsewhere it ends the process at once."""
    held_at = list[set[signal.Signals]]()

    def note(*_: object, **__: object) -> list[str]:
        held_at.append(STOPS & set(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        return ["logherd_guardian"]

    monkeypatch.setattr(processes, "guardian_command", note)
    monkeypatch.setattr(os, "execv", note)
    with monkeypatch.context() as first:
        first.setattr(os, "getpid", lambda: pid)
        processes.start_process("broker", "broker.yaml", [], None, guarded=True)
    assert held_at == [held, held], "while the settings are checked, and at the guardian's begin"
