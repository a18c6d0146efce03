"""Connecting to names: every address is tried, and a lookup that is given up leaves nothing behind."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logherd.aiokit.dialing import dial

_STORY = """
import asyncio, gc, socket, sys, uvloop
from logherd.aiokit.dialing import dial

async def main():
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 53))
        try:
            async with asyncio.timeout(0.1):
                await dial(asyncio.Protocol, "name.example", 80)
        except TimeoutError:
            print("given up")
        try:  # the one who waits hears of it when the one who gave up would have
            await dial(asyncio.Protocol, "name.example", 80)
        except OSError as error:
            print(type(error).__name__)
    gc.collect()
    await asyncio.sleep(0)
    print(complaints)

uvloop.run(main())
"""


class Brief(asyncio.Protocol):
    """Ends its connection at once."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()


def test_a_name_that_stands_for_several_addresses_is_tried_at_each() -> None:
    async def story() -> None:
        taken = Brief()
        server = await asyncio.get_running_loop().create_server(lambda: taken, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        dialled = await dial(Brief, "localhost", port)
        await dialled.gone.wait()
        await taken.gone.wait()
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await dial(Brief, "localhost", port)

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_lookup_that_was_given_up_and_fails_later_is_nobodys_error(tmp_path: Path) -> None:
    """In a world of its own, whose only resolver never answers."""
    apart = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody have namespaces of their own")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    world = f'ip link set lo up && mount --bind {resolver} /etc/resolv.conf && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        [*apart, "sh", "-c", world, _STORY], capture_output=True, text=True, timeout=100, check=False
    )  # fmt: skip
    assert done.stdout.splitlines() == ["given up", "gaierror", "[]"], done.stderr
