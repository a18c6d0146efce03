"""A quorum of made-up controllers, and a terminal to ask them from."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.cli.controllers_fake import SECRET, Quorum, serving
from unit.cli.terminal import Terminal
from unit.client.fake_broker import FakeBroker, running


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def quorum(token: Path) -> Iterator[Quorum]:
    with serving(Quorum(), token) as quorum:
        yield quorum


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """It runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    context = running()
    broker = loop.run_until_complete(context.__aenter__())
    thread = threading.Thread(target=loop.run_forever, name="broker")
    thread.start()
    try:
        yield broker
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
