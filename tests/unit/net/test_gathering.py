"""What a woken connection waits for, seen at the kernel: whether poll calls its socket readable."""

import asyncio
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from logherd.net.gathering import GATHER_BYTES_MAX, Gathering
from logherd.net.kernel_bytes import unread_bytes


@dataclass
class Line:
    """A connection: the client's end, the server's, and what watches it."""

    client: socket.socket
    server: socket.socket
    gathering: Gathering
    received: int = 0

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.server if name == "socket" else None

    @property
    def there(self) -> int:
        return unread_bytes(self.server)

    @property
    def readable(self) -> bool:
        poll = select.poll()
        poll.register(self.server, select.POLLIN)
        return bool(poll.poll(0))

    async def send(self, count: int) -> None:
        """And wait until the server's kernel has it."""
        wanted = self.there + count
        self.client.sendall(b"x" * count)
        async with asyncio.timeout(10):
            while self.there < wanted:
                await asyncio.sleep(0)

    def read(self) -> None:
        self.received += len(self.server.recv(1 << 20))
        if self.gathering.waiting:
            self.gathering.came()

    def wake(self) -> None:
        self.gathering.begin(cast("asyncio.Transport", self), self.received)

    async def run_out(self) -> None:
        async with asyncio.timeout(10):
            while self.gathering.waiting:
                await asyncio.sleep(0)


@pytest.fixture
def line() -> Iterator[Line]:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            yield Line(client, server, Gathering())


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait ends by time, however busy the machine is."""
    monkeypatch.setattr("logherd.net.gathering.GATHER_SECONDS_MAX", 60.0)


@pytest.mark.usefixtures("unhurried")
async def test_it_is_readable_when_as_much_has_come_as_the_last_time_and_was_there_already(line: Line) -> None:
    await line.send(1000)
    line.read()
    await line.send(300)
    line.wake()
    assert line.gathering.waiting
    await line.send(999)
    assert not line.readable
    await line.send(1)
    assert line.readable
    line.read()
    assert not line.gathering.waiting
    await line.send(1)
    assert line.readable


async def test_after_a_while_it_is_readable_by_whatever_has_come(line: Line) -> None:
    await line.send(1000)
    line.read()
    line.wake()
    await line.send(1)
    await line.run_out()
    assert line.readable


async def test_waits_in_vain_are_repeated_ever_more_seldom_and_others_make_them_frequent_again(line: Line) -> None:
    skipped: list[int] = []
    await line.send(1000)
    line.read()
    for _ in range(8):
        for count in range(100):
            line.received += 1000
            line.wake()
            if line.gathering.waiting:
                skipped.append(count)
                break
        await line.run_out()
    assert skipped == [0, 1, 3, 7, 15, 31, 63, 64]
    for _ in range(64):
        line.wake()
    for _ in range(7):
        line.received += 1000
        line.wake()
        assert line.gathering.waiting
        line.gathering.came()
    for waits in (True, False, True):  # as after the first wait in vain
        line.received += 1000
        line.wake()
        assert line.gathering.waiting is waits
        await line.run_out()


async def test_no_more_is_waited_for_than_makes_runs_cheap(line: Line) -> None:
    line.received = 10 * GATHER_BYTES_MAX
    line.wake()
    assert line.server.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == GATHER_BYTES_MAX


@pytest.mark.usefixtures("unhurried")
async def test_the_end_of_the_connection_is_heard_at_once(line: Line) -> None:
    await line.send(1000)
    line.read()
    line.wake()
    line.client.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(10):
        while not line.readable:
            await asyncio.sleep(0)
    assert line.gathering.waiting
    line.gathering.forget()
    assert not line.gathering.waiting


async def test_nothing_is_waited_for_where_nothing_was_sent_or_the_socket_is_gone(line: Line) -> None:
    line.wake()
    assert not line.gathering.waiting
    line.received = 100
    line.server.close()
    line.wake()
    assert not line.gathering.waiting
